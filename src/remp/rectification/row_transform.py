"""FeatureTransform for many rows: each row by itself, then minus the mean of them all."""

from dataclasses import dataclass

import torch
from torch import Tensor

from remp.errors import DataError
from remp.rectification.similarity import TINY, unit
from remp.rectification.transform import FeatureTransform
from remp.rows import Rows, Shard


@dataclass(frozen=True)
class RowTransform:
    """parts: power, l2 and centre of a FeatureTransform. centre: (d,) what `centre` takes away."""

    parts: FeatureTransform
    centre: Tensor | None = None

    def __call__(self, rows: Tensor) -> Tensor:
        """(m, d) -> (m, d), new. Works in place on one copy: fresh memory costs more than the arithmetic."""
        features = _signed_root(rows) if self.parts.power else rows.clone()
        if self.parts.l2:
            _to_unit(features)
        if self.centre is not None:
            features.sub_(self.centre)
            if self.parts.l2:
                _to_unit(features)
        return features


def fit_transform(rows: Rows, parts: FeatureTransform, shard: Shard) -> tuple[RowTransform, float]:
    """The transform of these rows, and a bound of the features' size. Checks that every number is finite."""
    first, stop = shard.span(len(rows))
    transform = RowTransform(parts)
    total, largest = torch.zeros(rows.dim, dtype=torch.float64), 0.0
    for chunk in rows.chunks(first, stop):
        features = transform(chunk)
        sums = features.sum(0, dtype=torch.float64)
        if not sums.isfinite().all():  # a sum of finite numbers is finite in float64
            _refuse(chunk, first)
        if not parts.l2:
            largest = max(largest, float(features.abs_().amax()))
        total, first = total + sums, first + len(chunk)
    largest = 1.0 if parts.l2 else shard.largest(largest)
    if not parts.centre:
        return transform, largest
    return RowTransform(parts, (shard.sum(total) / len(rows)).float()), 2 * largest


def _signed_root(rows: Tensor) -> Tensor:
    """x / √|x|. The square root of zeros, of which features after a ReLU are full, takes ten times as long."""
    return rows.abs().clamp_(min=torch.finfo(rows.dtype).tiny).rsqrt_().mul_(rows)


def _to_unit(items: Tensor) -> None:
    """`unit` in place and in two passes, where squares do not overflow."""
    norms = torch.linalg.vector_norm(items, dim=-1, keepdim=True)
    if norms.isfinite().all():
        items.div_(norms.clamp_(min=TINY))
    else:
        items.copy_(unit(items))


def _refuse(chunk: Tensor, first: int) -> None:
    bad = (~chunk.isfinite()).any(-1).nonzero()[:, 0]
    raise DataError(
        f"row {first + int(bad[0])} holds a number that is not finite in float32: mend it or leave it out "
        f"({len(bad)} such in rows {first} … {first + len(chunk) - 1})"
    )
