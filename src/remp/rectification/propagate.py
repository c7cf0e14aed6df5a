"""Exact rectification of any number of rows: the labelled ones are the support, the others the queries."""

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from remp.errors import ConfigError, DataError
from remp.rectification.layer import Metric, Rectification, Repulsion, RowNorm, State
from remp.rectification.passes import Passes
from remp.rectification.rectify import largest_safe, logits_in
from remp.rectification.row_transform import RowTransform, fit_transform
from remp.rectification.transform import FeatureTransform
from remp.rows import Rows, Shard


@dataclass(frozen=True)
class Propagation:
    """Settings of `propagate`.

    transform: parts of FeatureTransform joined by "+", without mirror; centre takes the mean over all rows.
    balanced: assume classes of equal size, by a bias of each class that every layer corrects by the class masses.
    The others are those of Rectification.
    """

    transform: str = "power+l2+centre"
    layers: int = 10
    scale: float = 40.0
    repulsion: Repulsion = "negative"
    row_norm: RowNorm = "absolute"
    similarity: Metric = "cosine"
    residual: bool = False
    threshold: float = 1.5
    step: float = 1.0
    label_share: float = 0.5
    balanced: bool = False

    def __post_init__(self) -> None:
        if self.parts.mirror or self.parts.zoom:
            raise ConfigError(f"transform is {self.transform!r}, but rows are no images: leave mirror and zoom out")
        _ = self.rectification  # checks the other settings

    @property
    def parts(self) -> FeatureTransform:
        return FeatureTransform.parse(self.transform)

    @property
    def rectification(self) -> Rectification:
        return Rectification(**{field.name: getattr(self, field.name) for field in fields(Rectification)})


@dataclass(frozen=True)
class Propagated:
    """Prototypes of N classes, and what is needed to compare rows with them.

    prototypes_before: (N, d) class means of the labelled rows, transformed. prototypes: (N, d), in the space of the
    last layer. centre: (d,) the mean that the transform takes away. bias: (N,) added to the logits if balanced.
    growth: how many times `residual` has enlarged the space. moves: for each layer the largest distance that a
    prototype moved, relative to the mean norm of the prototypes.
    """

    settings: Propagation
    prototypes_before: Tensor
    prototypes: Tensor
    centre: Tensor | None
    bias: Tensor | None
    growth: float
    moves: tuple[float, ...]

    def features(self, rows: Tensor) -> Tensor:
        """Raw rows (m, d) as transformed rows (m, d)."""
        return RowTransform(self.settings.parts, self.centre)(rows.to(_float_type(rows)))

    def logits(self, rows: Tensor, *, rectified: bool = True) -> Tensor:
        """Raw rows (m, d) -> (m, N): with the rectified prototypes, or with those before."""
        prototypes, growth = (self.prototypes, self.growth) if rectified else (self.prototypes_before, 1.0)
        queries = self.features(rows).to(prototypes.dtype) * growth
        logits = logits_in(_float_type(rows), prototypes, queries, self.settings.rectification)
        return logits + self.bias if rectified and self.bias is not None else logits


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
    rectification, shard = settings.rectification, shard or Shard()
    transform, largest = fit_transform(rows, settings.parts, shard)
    is_large = largest > largest_safe(rectification, None, len(rows))
    passes = Passes(rows, labels, n_classes, transform, torch.float64 if is_large else torch.float32, shard)
    start = state = passes.start(rectification)
    bias = torch.zeros(n_classes, dtype=torch.float64) if settings.balanced else None
    moves = []
    for layer in range(settings.layers if (labels < 0).any() else 0):
        sums, masses = passes.sums(state, rectification.beta(layer, n_classes), bias)
        if bias is not None:
            bias = bias + _correction(masses + state.support_counts[0, :, 0])
        before, state = state, state.next(sums)
        moves.append(_move(before, state))
    return Propagated(
        settings=settings,
        prototypes_before=start.prototypes[0].to(passes.dtype),
        prototypes=state.prototypes[0].to(passes.dtype),
        centre=transform.centre,
        bias=None if bias is None else bias.float(),
        growth=state.scale,
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


def _float_type(rows: Tensor) -> torch.dtype:
    return torch.float64 if rows.dtype == torch.float64 else torch.float32


def _correction(masses: Tensor) -> Tensor:
    """What is added to the bias of each class (N,) to even out their masses: one half of a Sinkhorn step."""
    return torch.log(masses.mean() / masses)


def _move(before: State, after: State) -> float:
    """The largest distance that a prototype moved, relative to their mean norm, both in the space after the layer."""
    start = before.prototypes[0] * (after.scale / before.scale)
    distances = torch.linalg.vector_norm(after.prototypes[0] - start, dim=-1)
    return float(distances.max() / torch.linalg.vector_norm(start, dim=-1).mean().clamp(min=1e-12))
