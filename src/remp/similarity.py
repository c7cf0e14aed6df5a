"""Similarities between two sets of vectors: (…, n, d) and (…, m, d) -> (…, n, m), larger is nearer."""

import torch
from torch import Tensor

TINY = 1e-12
# Squares of larger values, summed over many dimensions, could overflow float32: they are computed in float64.
_LARGE = 1e15
# float64 itself could overflow beyond this; only float64 input can hold such values, and they are clipped.
_LARGEST = 1e50


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """Cosine of the angle between each row of `a` and each of `b`; a zero vector has cosine 0 with everything."""
    return unit(a) @ unit(b).transpose(-1, -2)


def negative_squared_distance(a: Tensor, b: Tensor) -> Tensor:
    """-‖a_i - b_j‖², by the expanded square: one matrix product. Beyond the range of the dtype: its lowest value."""
    dtype = a.dtype
    a, b = in_safe_range(a, b)
    cross = a @ b.transpose(-1, -2)
    squares = a.square().sum(-1).unsqueeze(-1) + b.square().sum(-1).unsqueeze(-2)
    return to_dtype((2 * cross - squares).clamp(max=0), dtype)


def unit(x: Tensor) -> Tensor:
    """Rows of `x` (…, d) divided by their L2 norm; safe for zero rows and for values whose squares would overflow."""
    dtype, x = x.dtype, _at_least_single(x)
    x = x / x.abs().amax(dim=-1, keepdim=True).clamp(min=TINY)
    # A row whose largest entry is 1 has a norm of at least 1; smaller ones are as good as zero, and stay so.
    return (x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp(min=1)).to(dtype)


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


SIMILARITIES = {"cosine": cosine, "euclidean": negative_squared_distance}
