"""Similarities between two sets of vectors: (…, n, d) and (…, m, d) -> (…, n, m), larger is nearer."""

import torch
from torch import Tensor

from remp.rectification.number_range import (
    LARGE,
    SMALL_NORM,
    TINY,
    at_least_single,
    in_safe_range,
    to_double,
    to_dtype,
    to_dtype_from_best,
)


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """Cosine of the angle between each row of `a` and each of `b`; a zero vector has cosine 0 with everything."""
    return _products(unit(a), unit(b))


def negative_squared_distance(a: Tensor, b: Tensor) -> Tensor:
    """-‖a_i - b_j‖², by the expanded square: one matrix product. Beyond the range of the dtype: its lowest value."""
    negated = _negated_square(at_least_single(a), at_least_single(b))
    if not negated.detach().isfinite().all():  # looked for here, where the numbers are few, and not in `a` and `b`
        negated = _negated_square(to_double(a), to_double(b))
    return to_dtype(negated.clamp(max=0), a.dtype)


def negative_distance(a: Tensor, b: Tensor) -> Tensor:
    """-‖a_i - b_j‖: the plain distance, not its square."""
    dtype, (a, b) = a.dtype, in_safe_range(a, b)
    return to_dtype(-(TINY - negative_squared_distance(a, b)).sqrt(), dtype)  # TINY: for the gradient at distance 0


def nearness(a: Tensor, b: Tensor) -> Tensor:
    """‖a_i‖² - ‖a_i - b_j‖²: what a softmax over j sees of the distance, for one pass over `a` instead of two."""
    near = _nearness(at_least_single(a), at_least_single(b))
    if not near.detach().isfinite().all():
        return to_dtype_from_best(_nearness(to_double(a), to_double(b)), a.dtype)
    return to_dtype(near, a.dtype)


def unit(x: Tensor) -> Tensor:
    """Rows of `x` (…, d) divided by their L2 norm; safe for zero rows and for values whose squares would overflow."""
    dtype, x = x.dtype, at_least_single(x)
    norms = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    is_plain = (norms > SMALL_NORM) & (norms < LARGE)
    if is_plain.all():
        return (x / norms).to(dtype)
    return torch.where(is_plain, x / torch.where(is_plain, norms, 1.0), _unit_by_largest(x)).to(dtype)


def _negated_square(a: Tensor, b: Tensor) -> Tensor:
    squares = _squares(a).unsqueeze(-1) + _squares(b).unsqueeze(-2)
    return 2 * _products(a, b) - squares


def _nearness(a: Tensor, b: Tensor) -> Tensor:
    return 2 * _products(a, b) - _squares(b).unsqueeze(-2)


def _products(a: Tensor, b: Tensor) -> Tensor:
    """In the precision that `a` and `b` have, even where a training takes products in a lower one: differences of
    similarities are small beside the similarities."""
    with torch.autocast(a.device.type, enabled=False):
        return a @ b.transpose(-1, -2)


def _squares(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=-1).square()  # no tensor of squares in between


def _unit_by_largest(x: Tensor) -> Tensor:
    """Rows of L2 norm 1, by way of rows whose largest entry is 1, so that no square leaves the dtype."""
    x = x / x.abs().amax(dim=-1, keepdim=True).clamp(min=TINY)
    # A row whose largest entry is 1 has a norm of at least 1; smaller ones are as good as zero, and stay so.
    return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp(min=1)


SIMILARITIES = {"cosine": cosine, "euclidean": negative_squared_distance, "plain-euclidean": negative_distance}
