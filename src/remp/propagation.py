"""Exact rectification of any number of rows: the labelled ones are the support, the others the queries."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from remp.errors import ConfigError, DataError
from remp.rectification_layer import (
    Metric,
    QuerySums,
    Rectification,
    Repulsion,
    RowNorm,
    State,
    query_sums,
    scores,
)
from remp.rows import Rows
from remp.sharding import Shard
from remp.similarity import unit
from remp.transform import FeatureTransform

# Labelled rows that are read at once.
_LABELLED_PIECE = 4096


@dataclass(frozen=True)
class Propagation:
    """Settings of `propagate`.

    transform: parts of FeatureTransform joined by "+", without mirror; centre takes the mean over all rows.
    balanced: assume classes of equal size, by a bias of each class that every layer corrects by the class masses.
    The others are those of Rectification.
    """

    transform: str = "power+l2+centre"
    layers: int = 10
    scale: float = 10.0
    repulsion: Repulsion = "negative"
    row_norm: RowNorm = "absolute"
    similarity: Metric = "euclidean"
    residual: bool = False
    threshold: float = 1.5
    step: float = 1.0
    balanced: bool = False

    def __post_init__(self) -> None:
        if self.parts.mirror:
            raise ConfigError(f"transform is {self.transform!r}, but rows have no mirror images: leave mirror out")
        assert self.rectification

    @property
    def parts(self) -> FeatureTransform:
        return FeatureTransform.parse(self.transform)

    @property
    def rectification(self) -> Rectification:
        return Rectification(
            layers=self.layers,
            repulsion=self.repulsion,
            row_norm=self.row_norm,
            similarity=self.similarity,
            scale=self.scale,
            residual=self.residual,
            threshold=self.threshold,
            step=self.step,
        )


@dataclass(frozen=True)
class Propagated:
    """Prototypes of N classes, and what is needed to compare rows with them.

    prototypes_before: (N, d) class means of the labelled rows, transformed. prototypes: (N, d), in the space of the
    last layer. centre: (d,) the mean that the transform takes away. bias: (N,) added to the logits if balanced.
    moves: for each layer the largest distance that a prototype moved, relative to the mean norm of the prototypes.
    """

    settings: Propagation
    prototypes_before: Tensor
    prototypes: Tensor
    centre: Tensor | None
    bias: Tensor | None
    moves: tuple[float, ...]

    def features(self, rows: Tensor) -> Tensor:
        """Raw rows (m, d) as transformed rows (m, d)."""
        return _transformed(rows, self.settings.parts, self.centre)

    def logits(self, rows: Tensor, *, rectified: bool = True) -> Tensor:
        """Raw rows (m, d) -> (m, N): with the rectified prototypes, or with those before."""
        features, rectification = self.features(rows), self.settings.rectification
        if not rectified:
            return scores(self.prototypes_before, features, rectification).T
        growth = 2.0**self.settings.layers if self.settings.residual else 1.0
        logits = scores(self.prototypes, growth * features, rectification).T
        return logits if self.bias is None else logits + self.bias


_DEFAULTS = Propagation()


def propagate(
    rows: Rows,
    labels: np.ndarray,
    n_classes: int,
    settings: Propagation = _DEFAULTS,
    *,
    shard: Shard | None = None,
) -> Propagated:
    """Refine the class prototypes of the labelled rows with all the others, in memory for one chunk of rows.

    labels: (n,) class 0 … n_classes - 1, or -1 for an unlabelled row. shard: this process's share of the rows, if
    others pass over the rest. Exactly `rectify` on the transformed rows, at any number of them.
    """
    labels = _checked_labels(rows, labels, n_classes)
    shard = shard or Shard()
    centre = _mean(rows, settings.parts, shard)
    start = state = _start(rows, labels, n_classes, settings, centre, shard)
    bias = torch.zeros(n_classes, dtype=torch.float64) if settings.balanced else None
    moves = []
    for layer in range(settings.layers if (labels < 0).any() else 0):
        sums, mass = _pass(rows, labels, state, layer, bias, centre, settings.parts, shard)
        if bias is not None:
            bias = bias + _correction(mass + state.support_counts[0, :, 0], len(rows))
        after = state.next(sums)
        moves.append(_move(state, after))
        state = after
    return Propagated(
        settings=settings,
        prototypes_before=start.prototypes[0].float(),
        prototypes=state.prototypes[0].float(),
        centre=centre,
        bias=None if bias is None else bias.float(),
        moves=tuple(moves),
    )


def _checked_labels(rows: Rows, labels: np.ndarray, n_classes: int) -> np.ndarray:
    labels = np.asarray(labels)
    if labels.shape != (len(rows),) or labels.dtype.kind not in "iu":
        raise DataError(
            f"got labels of shape {labels.shape} and type {labels.dtype} for {len(rows)} rows; "
            "needed one integer a row, -1 for an unlabelled one"
        )
    if len(labels) and not -1 <= labels.min() <= labels.max() < n_classes:
        raise DataError(f"got labels from {labels.min()} to {labels.max()}; needed -1 … {n_classes - 1}")
    missing = np.flatnonzero(np.bincount(labels[labels >= 0], minlength=n_classes) == 0)
    if len(missing):
        raise DataError(f"class {missing[0]} has no labelled row ({len(missing)} such): label one row of each class")
    return labels


def _transformed(rows: Tensor, parts: FeatureTransform, centre: Tensor | None) -> Tensor:
    features = parts.features(rows)
    if centre is None:
        return features
    return unit(features - centre) if parts.l2 else features - centre


def _mean(rows: Rows, parts: FeatureTransform, shard: Shard) -> Tensor | None:
    """The mean of the transformed rows (d,) if they are centred; checks every row on the way."""
    first, stop = shard.span(len(rows))
    total = torch.zeros(rows.dim, dtype=torch.float64)
    for chunk in rows.chunks(first, stop):
        finite = chunk.isfinite().all(-1)
        if not finite.all():
            raise DataError(f"row {first + int((~finite).nonzero()[0])} has a number that is not finite: leave it out")
        if parts.centre:
            total += parts.features(chunk).sum(0, dtype=torch.float64)
        first += len(chunk)
    return (shard.sum(total) / len(rows)).float() if parts.centre else None


def _start(
    rows: Rows, labels: np.ndarray, n_classes: int, settings: Propagation, centre: Tensor | None, shard: Shard
) -> State:
    """The class means of the labelled rows."""
    first, stop = shard.span(len(rows))
    labelled = first + np.flatnonzero(labels[first:stop] >= 0)
    sums = torch.zeros(n_classes, rows.dim, dtype=torch.float64)
    for at in range(0, len(labelled), _LABELLED_PIECE):
        numbers = labelled[at : at + _LABELLED_PIECE]
        features = _transformed(rows.take(numbers), settings.parts, centre)
        sums.index_add_(0, torch.from_numpy(labels[numbers]).long(), features.double())
    sums = shard.sum(sums)[None]  # (1, N, d)
    counts = torch.from_numpy(np.bincount(labels[labels >= 0], minlength=n_classes)).double().reshape(1, -1, 1)
    return State(settings.rectification, sums / counts, sums, counts, torch.empty(1, n_classes, 0), None)


def _pass(
    rows: Rows,
    labels: np.ndarray,
    state: State,
    layer: int,
    bias: Tensor | None,
    centre: Tensor | None,
    parts: FeatureTransform,
    shard: Shard,
) -> tuple[QuerySums, Tensor]:
    """The sums over the unlabelled rows, and the mass (N,) of each class."""
    settings, n_classes = state.settings, state.prototypes.shape[1]
    beta = settings.beta(layer, n_classes)
    zero, one = torch.zeros(1, 1, 1, dtype=torch.float64), torch.ones(1, 1, 1, dtype=torch.float64)
    sums, mass = QuerySums(zero, zero, zero, zero, one), torch.zeros(n_classes, dtype=torch.float64)
    for chunk in _unlabelled(rows, labels, shard):
        queries = state.propagated(_transformed(chunk, parts, centre)[None].double())
        logits = scores(state.prototypes, queries, settings)
        weights = torch.softmax(logits if bias is None else logits + bias[:, None], dim=-2)
        sums, mass = sums + query_sums(weights, queries, beta, settings), mass + weights[0].sum(-1)
    total = replace(
        sums,
        **{name: shard.sum(getattr(sums, name)) for name in ("near", "near_weight", "far", "far_count")},
        smallest=shard.smallest(sums.smallest),
    )
    return total, shard.sum(mass)


def _unlabelled(rows: Rows, labels: np.ndarray, shard: Shard) -> Iterator[Tensor]:
    first, stop = shard.span(len(rows))
    for chunk in rows.chunks(first, stop):
        is_query = labels[first : first + len(chunk)] < 0
        first += len(chunk)
        if is_query.any():
            yield chunk if is_query.all() else chunk[torch.from_numpy(is_query)]


def _correction(masses: Tensor, n: int) -> Tensor:
    """What the bias of each class (N,) lacks to give each the same mass of n rows: one half of a Sinkhorn step."""
    return torch.log(n / len(masses) / masses)


def _move(before: State, after: State) -> float:
    """The largest distance that a prototype moved, relative to their mean norm, both in the space after the layer."""
    start = before.prototypes[0] * (after.scale / before.scale)
    distances = torch.linalg.vector_norm(after.prototypes[0] - start, dim=-1)
    return float(distances.max() / torch.linalg.vector_norm(start, dim=-1).mean().clamp(min=1e-12))
