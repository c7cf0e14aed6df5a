"""Similarities between two sets of vectors: (…, n, d) and (…, m, d) -> (…, n, m), larger is nearer."""

import torch
from torch import Tensor

TINY = 1e-12
# Squares of larger values, summed over many dimensions, could overflow float32: they are computed in float64.
_LARGE = 1e15
# Squares of smaller values could lose digits at the lower end of float32.
_SMALL_NORM = 1e-8
# float64 itself could overflow beyond this; only float64 input can hold such values, and they are clipped.
_LARGEST = 1e50


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """Cosine of the angle between each row of `a` and each of `b`; a zero vector has cosine 0 with everything."""
    return unit(a) @ unit(b).transpose(-1, -2)


def negative_squared_distance(a: Tensor, b: Tensor) -> Tensor:
    """-‖a_i - b_j‖², by the expanded square: one matrix product. Beyond the range of the dtype: its lowest value."""
    negated = _negated_square(_at_least_single(a), _at_least_single(b))
    if not negated.detach().isfinite().all():  # looked for here, where the numbers are few, and not in `a` and `b`
        negated = _negated_square(to_double(a), to_double(b))
    return to_dtype(negated.clamp(max=0), a.dtype)


def negative_distance(a: Tensor, b: Tensor) -> Tensor:
    """-‖a_i - b_j‖: the plain distance, not its square."""
    dtype, (a, b) = a.dtype, in_safe_range(a, b)
    return to_dtype(-(TINY - negative_squared_distance(a, b)).sqrt(), dtype)  # TINY: for the gradient at distance 0


def nearness(a: Tensor, b: Tensor) -> Tensor:
    """‖a_i‖² - ‖a_i - b_j‖²: what a softmax over j sees of the distance, for one pass over `a` instead of two."""
    near = _nearness(_at_least_single(a), _at_least_single(b))
    if not near.detach().isfinite().all():
        near = _nearness(to_double(a), to_double(b))
        # what leaves the dtype starts from the best, so that the best is still best
        leaves = near.detach().abs().amax(-1, keepdim=True) > torch.finfo(a.dtype).max
        near = near - torch.where(leaves, near.detach().amax(-1, keepdim=True), 0.0)
    return to_dtype(near, a.dtype)


def unit(x: Tensor) -> Tensor:
    """Rows of `x` (…, d) divided by their L2 norm; safe for zero rows and for values whose squares would overflow."""
    dtype, x = x.dtype, _at_least_single(x)
    norms = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    is_plain = (norms > _SMALL_NORM) & (norms < _LARGE)
    if is_plain.all():
        return (x / norms).to(dtype)
    return torch.where(is_plain, x / torch.where(is_plain, norms, 1.0), _unit_by_largest(x)).to(dtype)


def _negated_square(a: Tensor, b: Tensor) -> Tensor:
    squares = _squares(a).unsqueeze(-1) + _squares(b).unsqueeze(-2)
    return 2 * (a @ b.transpose(-1, -2)) - squares


def _nearness(a: Tensor, b: Tensor) -> Tensor:
    return 2 * (a @ b.transpose(-1, -2)) - _squares(b).unsqueeze(-2)


def _squares(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=-1).square()  # no tensor of squares in between


def _unit_by_largest(x: Tensor) -> Tensor:
    """Rows of L2 norm 1, by way of rows whose largest entry is 1, so that no square leaves the dtype."""
    x = x / x.abs().amax(dim=-1, keepdim=True).clamp(min=TINY)
    # A row whose largest entry is 1 has a norm of at least 1; smaller ones are as good as zero, and stay so.
    return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp(min=1)


def in_safe_range(*tensors: Tensor, large: float = _LARGE) -> tuple[Tensor, ...]:
    """The tensors in a dtype in which sums of their squares are finite: at least float32, float64 if one is `large`."""
    tensors = tuple(_at_least_single(tensor) for tensor in tensors)
    largest = max(float(tensor.detach().abs().amax()) if tensor.numel() else 0.0 for tensor in tensors)
    return tuple(to_double(tensor) for tensor in tensors) if largest > large else tensors


def to_double(x: Tensor) -> Tensor:
    return x.double().clamp(-_LARGEST, _LARGEST)


def to_dtype(x: Tensor, dtype: torch.dtype) -> Tensor:
    """`x` as `dtype`, what is beyond its range at the end of it."""
    limit = torch.finfo(dtype).max
    return x.clamp(-limit, limit).to(dtype) if x.dtype != dtype else x


def _at_least_single(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


SIMILARITIES = {"cosine": cosine, "euclidean": negative_squared_distance, "plain-euclidean": negative_distance}
