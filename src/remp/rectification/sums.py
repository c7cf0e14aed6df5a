"""One layer of rectification where queries come in chunks, and only sums over them are kept; h is the identity."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from remp.rectification import Rectification
from remp.rectification.layer import near_and_far, repulsion, row_sums, scores, support_weight


@dataclass(frozen=True)
class QuerySums:
    """All that a layer needs to know of the queries; sums over disjoint sets of queries add up.

    near: Σ P z over P ≥ β, (E, N, d). near_weight: Σ P over P ≥ β, (E, N, 1). far: Σ z over P < β, (E, N, d).
    far_count: #{P < β}, (E, N, 1). smallest: min P of the episode, (E, 1, 1).
    """

    near: Tensor
    near_weight: Tensor
    far: Tensor
    far_count: Tensor
    smallest: Tensor

    def __add__(self, other: "QuerySums") -> "QuerySums":
        return QuerySums(
            self.near + other.near,
            self.near_weight + other.near_weight,
            self.far + other.far,
            self.far_count + other.far_count,
            torch.minimum(self.smallest, other.smallest),
        )


@dataclass(frozen=True)
class State:
    """Prototypes and the space they live in after some layers."""

    settings: Rectification
    prototypes: Tensor  # (E, N, d)
    support_sums: Tensor  # (E, N, d), in the input space
    support_counts: Tensor  # (E, N, 1)
    scale: float = 1.0  # the space so far: Z = scale · Z_0

    def propagated(self, items: Tensor) -> Tensor:
        """Items of the input space (E, n, d) in the current space."""
        return items if self.scale == 1.0 else items * self.scale

    def to(self, dtype: torch.dtype) -> "State":
        """The same prototypes in another dtype, to compare queries with; not to go on from."""
        return replace(self, prototypes=self.prototypes.to(dtype))

    def next(self, sums: QuerySums) -> "State":
        """The state one layer on, as in `rectify`: a row of A has the support, what is near, and what is far."""
        settings, force = self.settings, repulsion(sums.smallest, self.settings)
        own = support_weight(sums.near_weight, int(self.support_counts.sum()), settings)
        rows = torch.cat([own * self.support_counts, sums.near_weight, force * sums.far_count], dim=-1)
        target = own * self.propagated(self.support_sums) + sums.near + force * sums.far
        target = torch.lerp(self.prototypes, target / row_sums(rows, settings), settings.step)
        if settings.residual:
            return replace(self, prototypes=target + self.prototypes, scale=2 * self.scale)
        return replace(self, prototypes=target)


def attention_weights(state: State, queries: Tensor, bias: Tensor | None = None) -> Tensor:
    """Softmax over the prototypes for each query (E, N, Q): a column sums to 1. bias: (N,) of the classes."""
    logits = scores(state.prototypes, queries, state.settings)
    return torch.softmax(logits if bias is None else logits + bias.to(logits)[:, None], dim=-2)


def query_sums(weights: Tensor, queries: Tensor, beta: float, settings: Rectification) -> QuerySums:
    """weights: (E, N, Q); queries: (E, Q, d)."""
    smallest = weights.amin((-2, -1), keepdim=True)
    near, far_sums, far_count = weights, torch.zeros_like(smallest), torch.zeros_like(smallest)
    if settings.repulsion != "none":
        near, far = near_and_far(weights, beta)
        if settings.repulsion == "negative":
            far_sums, far_count = far @ queries, far.sum(-1, keepdim=True)
    return QuerySums(near @ queries, near.sum(-1, keepdim=True), far_sums, far_count, smallest)
