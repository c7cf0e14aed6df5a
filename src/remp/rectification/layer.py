"""The parts of the paper's equations that `rectify` and `propagate` share, and a layer made of sums over queries."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from remp.rectification import Rectification
from remp.rectification.number_range import TINY, away_from_zero
from remp.rectification.similarity import negative_distance, unit


def scores(prototypes: Tensor, items: Tensor, settings: Rectification) -> Tensor:
    """scale · κ: (E, N, d), (E, n, d) -> (E, N, n), up to a term that is the same for all prototypes of an item.

    A softmax over prototypes does not see that term, so ‖z‖² of the squared distance is left out.
    """
    if settings.similarity == "cosine":
        return settings.scale * unit(prototypes) @ unit(items).transpose(-1, -2)
    if settings.similarity == "plain-euclidean":
        return settings.scale * negative_distance(prototypes, items)
    half_squares = prototypes.square().sum(-1, keepdim=True) / 2  # (E, N, 1)
    return 2 * settings.scale * (prototypes @ items.transpose(-1, -2) - half_squares)


def evened(bias: Tensor, masses: Tensor) -> Tensor:
    """The bias of each class (…, N, 1), with what evens out the class masses (…, N, 1): one half of a Sinkhorn step."""
    return bias + torch.log(masses.mean(-2, keepdim=True) / masses.clamp(min=TINY))


def repelled(weights: Tensor, beta: float, settings: Rectification) -> Tensor:
    """The attention (E, N, Q) with all that is below β made the repulsive force."""
    if settings.repulsion == "none":
        return weights
    near, far = near_and_far(weights, beta)
    return near + repulsion(weights.amin((-2, -1), keepdim=True), settings) * far


def near_and_far(weights: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    """The attention (E, N, Q) where it is at least β, else 0; and 1 where it is below β, else 0."""
    is_near = weights >= beta
    return weights * is_near, (~is_near).to(weights.dtype)  # five times as fast as torch.where


def repulsion(smallest: Tensor, settings: Rectification) -> Tensor:
    """What an attention below β becomes, (E, 1, 1): -min P, or 0. It is a constant to the gradient."""
    return -smallest.detach() if settings.repulsion == "negative" else torch.zeros_like(smallest)


def support_weight(weights: Tensor, n_support: int, settings: Rectification) -> Tensor | float:
    """What an item of the support counts, (E, 1, 1), where a query counts its attention: 1 or more.

    weights: (E, N, Q) attention of the queries, or sums of it; what repels does not count.
    """
    share = settings.label_share
    if share == 0:
        return 1.0
    queries = weights.clamp(min=0).sum((-2, -1), keepdim=True)
    return (share / (1 - share) * queries / max(1, n_support)).clamp(min=1)


def row_sums(rows: Tensor, settings: Rectification) -> Tensor:
    """What each row of an attention (E, N, n) is divided by, (E, N, 1)."""
    return away_from_zero((rows.abs() if settings.row_norm == "absolute" else rows).sum(-1, keepdim=True))


def project(items: Tensor, matrix: Tensor | None) -> Tensor:
    """h(x) of each item (…, d). matrix: (d, d), or (c, c) with d a multiple of c for a 1 x 1 convolution on flattened
    maps: then the c channels of each position are projected alike. None: the identity."""
    if matrix is None:
        return items
    channels = len(matrix)
    if channels == items.shape[-1]:
        return items @ matrix.T
    positions = items.unflatten(-1, (channels, -1)).transpose(-1, -2)  # (…, positions, c)
    return (positions @ matrix.T).transpose(-1, -2).flatten(-2)


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
    """Softmax over the prototypes for each query (E, N, Q): a column sums to 1. bias: (N, 1) of the classes."""
    logits = scores(state.prototypes, queries, state.settings)
    return torch.softmax(logits if bias is None else logits + bias.to(logits), dim=-2)


def query_sums(weights: Tensor, queries: Tensor, beta: float, settings: Rectification) -> QuerySums:
    """weights: (E, N, Q); queries: (E, Q, d)."""
    smallest = weights.amin((-2, -1), keepdim=True)
    near, far_sums, far_count = weights, torch.zeros_like(smallest), torch.zeros_like(smallest)
    if settings.repulsion != "none":
        near, far = near_and_far(weights, beta)
        if settings.repulsion == "negative":
            far_sums, far_count = far @ queries, far.sum(-1, keepdim=True)
    return QuerySums(near @ queries, near.sum(-1, keepdim=True), far_sums, far_count, smallest)
