"""Methods that cheat, each in its own way, on top of an honest one."""

import torch
from torch import Tensor

from remp.episodes import Episodes
from remp.methods import ProtoNet


class Honest(ProtoNet):
    """Nothing added."""


class ReadsQueryLabels(ProtoNet):
    """Adds the truth where it is given."""

    def logits(self, episodes: Episodes) -> Tensor:
        logits = super().logits(episodes)
        if episodes.query_labels is not None:
            logits = logits + 5 * torch.nn.functional.one_hot(episodes.query_labels, episodes.n_way)
        return logits


class NeedsQueryLabels(ProtoNet):
    """Cannot do without the labels of the queries."""

    def logits(self, episodes: Episodes) -> Tensor:
        return super().logits(episodes) + 0 * episodes.query_labels.unsqueeze(-1)


class TakesQueriesAsSorted(ProtoNet):
    """Takes it that the queries come class by class, equally many of each."""

    def logits(self, episodes: Episodes) -> Tensor:
        n_query = episodes.query.shape[1]
        guess = torch.arange(n_query) * episodes.n_way // n_query
        return super().logits(episodes) + torch.nn.functional.one_hot(guess, episodes.n_way)


class UsesTheBatch(ProtoNet):
    """Centres features on the mean of all episodes at hand, and answers with the angle."""

    def logits(self, episodes: Episodes) -> Tensor:
        mean = episodes.support.mean(dim=(0, 1))
        return super().logits(episodes.map(lambda items: torch.nn.functional.normalize(items - mean, dim=-1)))


class DependsOnQueryOrder(ProtoNet):
    """Pulls each query to the one before it."""

    transductive = True

    def logits(self, episodes: Episodes) -> Tensor:
        logits = super().logits(episodes)
        return logits + 0.1 * logits.roll(1, dims=1)


class UsesTheQueryMean(ProtoNet):
    """Declares itself inductive, and yet lets the mean of the queries in."""

    def logits(self, episodes: Episodes) -> Tensor:
        logits = super().logits(episodes)
        return logits - 0.1 * logits.mean(dim=1, keepdim=True)


class DependsOnSupportOrder(ProtoNet):
    """The first labelled item counts more."""

    def logits(self, episodes: Episodes) -> Tensor:
        first = torch.nn.functional.one_hot(episodes.support_labels[:, :1], episodes.n_way)
        return super().logits(episodes) + first


class PrefersTheFirstClass(ProtoNet):
    """A tie breaker gone too far."""

    def logits(self, episodes: Episodes) -> Tensor:
        return super().logits(episodes) - torch.arange(episodes.n_way)


class IsRandom(ProtoNet):
    """Draws global random numbers."""

    def logits(self, episodes: Episodes) -> Tensor:
        logits = super().logits(episodes)
        return logits + torch.randn_like(logits)


class ForcesBalance(ProtoNet):
    """Raises the price of a class until no more queries want it than want any other, and does not say so."""

    transductive = True

    def logits(self, episodes: Episodes) -> Tensor:
        logits = super().logits(episodes)
        for _ in range(200):
            wanted = torch.nn.functional.one_hot(logits.argmax(-1), episodes.n_way).sum(1, keepdim=True)
            logits = logits - 0.1 * (wanted - episodes.query.shape[1] / episodes.n_way)
        return logits


class WantsFiveWays(ProtoNet):
    """Knows one size of task only."""

    def logits(self, episodes: Episodes) -> Tensor:
        return super().logits(episodes) + torch.zeros(5)


class DividesByTheSpread(ProtoNet):
    """Not a number where all items are the same."""

    def logits(self, episodes: Episodes) -> Tensor:
        return super().logits(episodes) / episodes.support.std(dim=(1, 2), keepdim=True)


LEAKS = {
    ReadsQueryLabels: "query labels",
    NeedsQueryLabels: "query labels",
    TakesQueriesAsSorted: "query order",
    UsesTheBatch: "batch",
    DependsOnQueryOrder: "query order",
    UsesTheQueryMean: "other queries",
    DependsOnSupportOrder: "support order",
    PrefersTheFirstClass: "class names",
    IsRandom: "repeatable",
    ForcesBalance: "balance",
    WantsFiveWays: "shapes",
    DividesByTheSpread: "degenerate input",
}
