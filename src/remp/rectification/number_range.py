"""Care for extreme numbers, in one place: what float32 cannot hold is computed in float64, and ends within the dtype.

Whoever computes with features takes them in through `in_safe_range` and gives numbers back through `to_dtype` or
`to_dtype_from_best`; in between, nothing needs to guard against overflow.
"""

import math

import torch
from torch import Tensor

from remp.errors import ConfigError
from remp.rectification import Rectification

TINY = 1e-12
# Squares of larger values, summed over many dimensions, could overflow float32: they are computed in float64.
LARGE = 1e15
# Squares of smaller values could lose digits at the lower end of float32.
SMALL_NORM = 1e-8
# float64 itself could overflow beyond this; only float64 input can hold such values, and they are clipped.
_LARGEST = 1e50
# Row sums are kept at least this far from zero: signed sums can vanish, and 0 < K + ΣP otherwise.
SMALLEST_SUM = 1e-3
# Features beyond the first, or that layers would carry beyond the second, are rectified in float64.
_LARGE_FEATURE, _LARGE_AT_THE_END = 1e9, 1e15
# Layers that enlarge features by more powers of ten would leave even float64.
_MOST_DECADES = 50


def in_safe_range(*tensors: Tensor, large: float = LARGE) -> tuple[Tensor, ...]:
    """The tensors in a dtype in which sums of their squares are finite: at least float32, float64 if one is `large`."""
    tensors = tuple(at_least_single(tensor) for tensor in tensors)
    largest = max(float(tensor.detach().abs().amax()) if tensor.numel() else 0.0 for tensor in tensors)
    return tuple(to_double(tensor) for tensor in tensors) if largest > large else tensors


def at_least_single(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def to_double(x: Tensor) -> Tensor:
    return x.double().clamp(-_LARGEST, _LARGEST)


def to_dtype(x: Tensor, dtype: torch.dtype) -> Tensor:
    """`x` as `dtype`, what is beyond its range at the end of it."""
    limit = torch.finfo(dtype).max
    return x.clamp(-limit, limit).to(dtype) if torch.finfo(x.dtype).max > limit else x.to(dtype)


def to_dtype_from_best(logits: Tensor, dtype: torch.dtype) -> Tensor:
    """Logits (…, N) as `dtype`; a row that would leave it starts from its best, which so stays the best."""
    if logits.dtype == dtype:
        return logits
    leaves = logits.detach().abs().amax(-1, keepdim=True) > torch.finfo(dtype).max
    best = logits.detach().amax(-1, keepdim=True)
    return to_dtype(logits - torch.where(leaves, best, 0.0), dtype)


def away_from_zero(x: Tensor) -> Tensor:
    """A signed row sum can vanish; keep its sign and at least a small size."""
    return torch.where(x.abs() < SMALLEST_SUM, torch.where(x < 0, -SMALLEST_SUM, SMALLEST_SUM).to(x.dtype), x)


def largest_safe(settings: Rectification, projection: Tensor | None, n_items: int) -> float:
    """The largest feature for which float32 holds everything that `settings.layers` layers make of it."""
    growth = 1.0 if settings.row_norm == "absolute" else n_items / SMALLEST_SUM
    if settings.residual:
        # Entries of x Hᵀ are at most ‖H‖_∞ times the largest of x.
        norm = 1.0 if projection is None else float(projection.detach().abs().sum(-1).amax())
        if not math.isfinite(norm):  # a training that has diverged: its loss will say so
            return _LARGE_FEATURE
        decades = settings.layers * math.log10(1 + norm)
        if decades > _MOST_DECADES:
            raise ConfigError(
                f"{settings.layers} layers could enlarge the features 1e{decades:.0f} times, more than float64 holds: "
                "take fewer layers, a smaller projection, or none (projection: absent)"
            )
        growth *= 10**decades
    return min(_LARGE_FEATURE, _LARGE_AT_THE_END / growth / max(settings.scale, 1.0) ** 0.5)
