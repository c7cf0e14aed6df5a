"""One layer of rectification: what it needs to know of the queries, and the step it makes."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from remp.episodes import one_hot_rows
from remp.rectification import Rectification
from remp.rectification.number_range import away_from_zero
from remp.rectification.similarity import negative_distance, unit


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
    support_sums: Tensor  # (E, N, d), in the current space
    support_counts: Tensor  # (E, N, 1)
    one_hot: Tensor  # (E, N, S)
    projection: Tensor | None  # H of h, see `project`; None for the identity
    scale: float = 1.0  # the space so far, for h = identity: Z = scale · Z_0

    def propagated(self, items: Tensor) -> Tensor:
        """Items of the input space (E, n, d) in the current space, for h = identity or no residual."""
        assert self.projection is None, "where h is learned, items go from layer to layer: use onward"
        return items if self.scale == 1.0 else items * self.scale

    def onward(self, items: Tensor) -> Tensor:
        """Items of the current space (…, d) in that of the next layer: Z ← h(Z) + Z."""
        if not self.settings.residual:
            return items
        return 2 * items if self.projection is None else items + project(items, self.projection)

    def to(self, dtype: torch.dtype) -> "State":
        """The same prototypes in another dtype, to compare queries with; not to go on from."""
        return replace(self, prototypes=self.prototypes.to(dtype))

    def support_weight(self, sums: QuerySums) -> Tensor | float:
        """What an item of the support counts, (E, 1, 1), where a query counts its attention: 1 or more."""
        share = self.settings.label_share
        if share == 0:
            return 1.0
        queries, support = (weights.sum(-2, keepdim=True) for weights in (sums.near_weight, self.support_counts))
        return (share / (1 - share) * queries / support.clamp(min=1)).clamp(min=1)

    def next(self, sums: QuerySums) -> "State":
        """The state one layer on."""
        settings = self.settings
        weight = self.support_weight(sums)
        numerator = weight * self.support_sums + sums.near
        denominator = weight * self.support_counts + sums.near_weight
        if settings.repulsion == "negative":
            sign = 1.0 if settings.row_norm == "absolute" else -1.0
            numerator = numerator - sums.smallest * sums.far
            denominator = denominator + sign * sums.smallest * sums.far_count
        target = numerator / away_from_zero(denominator)  # (E, N, d): A Z
        if not settings.residual:
            return replace(self, prototypes=torch.lerp(self.prototypes, target, settings.step))
        support_sums = self.onward(self.support_sums)  # h is linear: the sum of rows moves as the rows do
        if self.projection is None:
            prototypes = self.prototypes + settings.step * target + (1 - settings.step) * self.prototypes
            return replace(self, prototypes=prototypes, support_sums=support_sums, scale=2 * self.scale)
        moved = project(torch.lerp(self.prototypes, target, settings.step), self.projection)
        return replace(self, prototypes=self.prototypes + moved, support_sums=support_sums)


def project(items: Tensor, matrix: Tensor) -> Tensor:
    """h(x) of each item (…, d). matrix: (d, d), or (c, c) with d a multiple of c for a 1 x 1 convolution on flattened
    maps: then the c channels of each position are projected alike."""
    channels = len(matrix)
    if channels == items.shape[-1]:
        return items @ matrix.transpose(-1, -2)
    positions = items.unflatten(-1, (channels, -1)).transpose(-1, -2)  # (…, positions, c)
    return (positions @ matrix.transpose(-1, -2)).transpose(-1, -2).flatten(-2)


def start(
    support: Tensor, support_labels: Tensor, n_way: int, settings: Rectification, projection: Tensor | None
) -> State:
    """Class means before the first layer. support: (E, S, d); support_labels: (E, S)."""
    one_hot = one_hot_rows(support_labels, n_way, support.dtype)
    sums, counts = one_hot @ support, one_hot.sum(-1, keepdim=True)
    projection = None if projection is None else projection.to(support.dtype)
    return State(settings, sums / counts.clamp(min=1), sums, counts, one_hot, projection)


def attention_weights(state: State, queries: Tensor, bias: Tensor | None = None) -> Tensor:
    """Softmax over the prototypes for each query (E, N, Q): a column sums to 1. bias: (N,) of the classes."""
    logits = scores(state.prototypes, queries, state.settings)
    return torch.softmax(logits if bias is None else logits + bias.to(logits)[:, None], dim=-2)


def query_sums(weights: Tensor, queries: Tensor, beta: float, settings: Rectification) -> QuerySums:
    """weights: (E, N, Q); queries: (E, Q, d)."""
    smallest = weights.detach().amin(dim=(-2, -1), keepdim=True)
    if settings.repulsion == "none":
        near, zero = weights, torch.zeros_like(smallest)
        return QuerySums(near @ queries, near.sum(-1, keepdim=True), zero, zero, smallest)
    is_near = weights >= beta
    near = weights * is_near  # five times as fast as torch.where
    far = (~is_near).to(weights.dtype)
    needs_far = settings.repulsion == "negative"
    return QuerySums(
        near=near @ queries,
        near_weight=near.sum(-1, keepdim=True),
        far=far @ queries if needs_far else torch.zeros_like(smallest),
        far_count=far.sum(-1, keepdim=True),
        smallest=smallest,
    )


def full_attention(state: State, weights: Tensor, sums: QuerySums, beta: float) -> Tensor:
    """The matrix A of the paper, (E, N, S + Q): support one-hot, queries masked, rows normalised."""
    settings = state.settings
    if settings.repulsion != "none":
        masked = -sums.smallest if settings.repulsion == "negative" else torch.zeros_like(sums.smallest)
        weights = torch.where(weights >= beta, weights, masked)
    rows = torch.cat([state.support_weight(sums) * state.one_hot, weights], dim=-1)
    total = (rows.abs() if settings.row_norm == "absolute" else rows).sum(-1, keepdim=True)
    return rows / away_from_zero(total)


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
