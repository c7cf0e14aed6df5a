"""CAN: cross attention between each class and each query, and its transductive form."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remp.checks import require_at_least, require_positive, require_share
from remp.episodes import Episodes
from remp.methods.base import Method, dense_cross_entropy, for_training_classes, map_shape, positions
from remp.methods.maths.whole_episode import means_with_queries
from remp.rectification.rectify import class_means
from remp.rectification.similarity import unit


class CAN(Method):
    """Hou, Chang, Ma, Shan, Chen: Cross Attention Network for Few-shot Classification, 2019.
    https://arxiv.org/abs/1910.07677

    For every pair of a class and a query, each of their two maps gets an attention over its positions, made from how
    well its positions correlate with those of the other. A query is compared with a class by the cosine of the means
    of their attended maps. In training every position of the query is to find its class, in the episode (local) and
    among all training classes (global).

    Ours differs in one thing: the network that makes the attention, 36 -> 6 -> 36 positions there, is as wide as the
    maps have positions, with a sixth of that, at least 2, in between.

    scale: of the cosine. attention_temperature: of the softmax over positions. local_weight: of the local term, beside
    1 for the global one.
    """

    uses_maps = True

    def __init__(
        self,
        *args: Any,
        scale: float = 7.0,
        attention_temperature: float = 0.025,
        local_weight: float = 0.5,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        require_positive(scale=scale, attention_temperature=attention_temperature)
        channels, height, width = map_shape(self)
        self.scale, self.local_weight = scale, local_weight
        self.attention = CrossAttention(height * width, attention_temperature)
        self.classifier = nn.Linear(channels, self.n_classes) if self.n_classes else None

    def logits(self, episodes: Episodes) -> Tensor:
        return self._compare(_class_positions(episodes), positions(episodes.query))

    def loss(self, episodes: Episodes, progress: float = 0.0) -> dict[str, Tensor]:
        features, labels = episodes.map(self.embed), episodes.known_query_labels
        classifier = for_training_classes(self.classifier, "a global term")
        query = positions(features.query)  # (E, Q, P, width)
        class_vectors, query_attention = self._attend(_class_positions(features), query)
        # Attention scales a position, which its cosine does not see.
        local = torch.einsum("eqpc,eqnc->eqpn", unit(query), unit(class_vectors))
        of_own_class = labels[:, :, None, None].expand(-1, -1, 1, query.shape[2])
        attended = query * query_attention.gather(2, of_own_class).transpose(2, 3)
        return {
            "global": dense_cross_entropy(classifier(attended), episodes.classes_of(labels)),
            "local": self.local_weight * dense_cross_entropy(self.scale * local, labels),
        }

    def _compare(self, classes: Tensor, query: Tensor) -> Tensor:
        """Positions of class maps (E, N, P, width) and of queries (E, Q, P, width) -> (E, Q, N)"""
        class_vectors, query_attention = self._attend(classes, query)
        query_vectors = query_attention @ query / query.shape[2]  # (E, Q, N, width)
        return self.scale * (unit(class_vectors) * unit(query_vectors)).sum(-1)

    def _attend(self, classes: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
        """The mean of each attended class map, (E, Q, N, width), and the attention on each query map, (E, Q, N, P)."""
        correlation = torch.einsum("enpc,eqrc->eqnpr", unit(classes), unit(query))
        class_attention = self.attention(correlation)
        class_vectors = torch.einsum("eqnp,enpc->eqnc", class_attention, classes) / classes.shape[2]
        return class_vectors, self.attention(correlation.transpose(-1, -2))


class CANT(CAN):
    """CAN+T of the same paper: the queries that it is most sure of join the support under the class it gave them.

    Classes are compared anew after each of two rounds, in which 35 and 70 of 75 queries join, or as large a share of
    any other number. Training is that of CAN.

    rounds, joining_share: how often queries join, and how many of them in the first round; twice as many in the second.
    """

    transductive = True

    def __init__(self, *args: Any, rounds: int = 2, joining_share: float = 35 / 75, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        require_at_least(0, rounds=rounds)
        require_share(joining_share=joining_share)
        self.rounds, self.joining_share = rounds, joining_share

    def logits(self, episodes: Episodes) -> Tensor:
        scores, n_query = super().logits(episodes), episodes.query.shape[1]
        # Rounded in the last digits first: 35 of 75 are 35, though 75 * (35 / 75) may be a little less.
        at_once = int(round(n_query * self.joining_share, 6))
        for i in range(self.rounds):
            weights = _labels_of_the_surest(scores, min(at_once * (i + 1), n_query))
            classes = means_with_queries(episodes.support, episodes.support_labels, episodes.query, weights)
            scores = self._compare(positions(classes), positions(episodes.query))
        return scores


class CrossAttention(nn.Module):
    """Correlations of the positions of one map with those of another -> attention over the former."""

    def __init__(self, n_positions: int, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature
        between = max(2, n_positions // 6)
        self.kernel = nn.Sequential(
            nn.Linear(n_positions, between), nn.BatchNorm1d(between), nn.ReLU(), nn.Linear(between, n_positions)
        )

    def forward(self, correlation: Tensor) -> Tensor:
        """(…, P, P') -> (…, P), each 1 and a share of 1"""
        mean = correlation.mean(-2)  # (…, P')
        kernel = self.kernel(mean.flatten(0, -2)).view_as(mean)
        scores = (correlation * kernel.unsqueeze(-2)).mean(-1)
        return 1 + (scores / self.temperature).softmax(-1)


def _class_positions(episodes: Episodes) -> Tensor:
    """Mean map of each class, as positions: (E, N, P, width)"""
    means = class_means(episodes.support.flatten(2), episodes.support_labels, episodes.n_way)
    return positions(means.unflatten(2, episodes.support.shape[2:]))


def _labels_of_the_surest(scores: Tensor, count: int) -> Tensor:
    """One-hot labels of the `count` queries with the highest scores, zeros for the others: (E, Q, N) -> (E, Q, N)"""
    best, labels = scores.max(-1)
    sure = torch.zeros_like(best).scatter(1, best.topk(count, dim=1).indices, 1)
    return F.one_hot(labels, scores.shape[2]) * sure.unsqueeze(-1)
