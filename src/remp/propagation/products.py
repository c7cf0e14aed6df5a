"""Products of transformed rows with fixed vectors, without making the transformed rows.

With u = x / |x| a row becomes f = (u - c) / |u - c|. So f·w = (u·w - c·w) / |u - c|, and |u - c|² = 1 - 2 u·c + c·c:
all follows from the norm of x and one matrix product with the vectors and the centre c. Only roots, which are not
linear, are taken of the rows themselves.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from remp.rectification.number_range import TINY
from remp.rectification.similarity import unit
from remp.rectification.transform import FeatureTransform, RowTransform

# Rows that are nearly all the same lie so near to their centre that their distance from it would be a difference of
# almost equal numbers: if 1 - c·c is below this, they are centred one by one.
_ALIKE = 1e-3


def features_of(rows: Tensor, transform: RowTransform, size: float) -> Tensor:
    """Raw rows (m, d) as transformed rows (m, d), float64 if they are divided by a size."""
    if transform.parts == FeatureTransform() and size == 1.0:
        return rows
    features = transform(rows if rows.dtype == torch.float64 else rows.float())
    return features if size == 1.0 else features.double() / size


@dataclass(frozen=True)
class Lens:
    """How rows are seen. transform: what is done to the rows themselves; centre: (d,) what products take away from them
    when they have been scaled to norm 1, or None. is_unit: whether they are scaled so. size: what they are divided by
    if not."""

    transform: RowTransform
    centre: Tensor | None
    is_unit: bool
    size: float = 1.0

    @classmethod
    def of(cls, transform: RowTransform, size: float) -> "Lens":
        """As this transform, the numbers after it divided by `size`."""
        centre, parts = transform.centre, transform.parts
        if not parts.l2:
            return cls(transform, None, False, size)
        if centre is not None and 1 - float(centre.double() @ centre.double()) < _ALIKE:
            return cls(transform, None, True)
        return cls(RowTransform(FeatureTransform(power=parts.power)), centre, True)

    def rows(self, raw: Tensor) -> Tensor:
        """Raw rows (m, d) -> (m, d), for products; float64 if they are divided by a size."""
        return features_of(raw, self.transform, self.size)

    def rooted(self) -> "Lens":
        """For rows that were made by `rows` before."""
        return replace(self, transform=RowTransform(FeatureTransform()), size=1.0)

    def products(self, vectors: Tensor, dtype: torch.dtype) -> "Products":
        """With these vectors (d, k)."""
        if self.centre is None:
            zeros = torch.zeros(vectors.shape[1], dtype=dtype)
            return Products(vectors.T.to(dtype).contiguous(), None, zeros, 0.0, self.is_unit)
        centre = self.centre.to(vectors)
        matrix, far = torch.cat([vectors.T, centre[None]]), float(centre.double() @ centre.double())
        return Products(matrix.to(dtype), centre, (centre @ vectors).to(dtype), far, True)


@dataclass(frozen=True)
class Products:
    """matrix: (k, d), and the centre as one more row if there is one. offsets: (k,) products of the vectors with the
    centre; far: of the centre with itself."""

    matrix: Tensor
    centre: Tensor | None
    offsets: Tensor
    far: float
    is_unit: bool

    def __call__(self, rows: Tensor) -> "Seen":
        """rows: (m, d), from `Lens.rows`."""
        rows = rows.to(self.matrix.dtype)
        if not self.is_unit:
            ones = torch.ones(len(rows), 1, dtype=rows.dtype)
            return Seen(rows, (self.matrix @ rows.T).T, ones, ones, None)
        norms = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        if not norms.isfinite().all():
            rows = unit(rows)
            norms = torch.ones_like(norms)
        scales = norms.clamp(min=TINY).reciprocal_()
        values = (self.matrix @ rows.T).T * scales  # in this order it takes two thirds of the time
        if self.centre is None:
            return Seen(rows, values, scales, torch.ones_like(scales), None)
        values, along = values[:, :-1], values[:, -1:]
        squares = (norms * scales).square_() - 2 * along + self.far  # the first is 1, and 0 for a row of zeros
        nearness = squares.clamp_(min=TINY**2).rsqrt_()
        return Seen(rows, (values - self.offsets) * nearness, scales * nearness, nearness, self.centre)


@dataclass(frozen=True)
class Seen:
    """rows: (m, d). values: (m, k) products of their features with the vectors. scales, nearness: (m, 1), so that the
    features are scales · rows - nearness · centre."""

    rows: Tensor
    values: Tensor
    scales: Tensor
    nearness: Tensor
    centre: Tensor | None

    def sums(self, weights: Tensor) -> Tensor:
        """Sums of the features with these weights (m, N), in float64: (N, d)."""
        sums = ((weights * self.scales).T @ self.rows).double()
        if self.centre is None:
            return sums
        return sums - (weights * self.nearness).sum(0, dtype=torch.float64)[:, None] * self.centre.double()
