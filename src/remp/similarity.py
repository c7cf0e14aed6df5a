"""Similarities between two sets of vectors: (…, n, d) and (…, m, d) -> (…, n, m), larger is nearer."""

import torch
from torch import Tensor

TINY = 1e-12


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """Cosine of the angle between each row of `a` and each of `b`; a zero vector has cosine 0 with everything."""
    return unit(a) @ unit(b).transpose(-1, -2)


def negative_squared_distance(a: Tensor, b: Tensor) -> Tensor:
    """-‖a_i - b_j‖², by the expanded square: one matrix product."""
    cross = a @ b.transpose(-1, -2)
    squares = a.square().sum(-1).unsqueeze(-1) + b.square().sum(-1).unsqueeze(-2)
    return (2 * cross - squares).clamp(max=0)


def unit(x: Tensor) -> Tensor:
    """Rows of `x` (…, d) divided by their L2 norm; safe for zero rows and for values whose squares would overflow."""
    x = x / x.abs().amax(dim=-1, keepdim=True).clamp(min=TINY)
    return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp(min=TINY)


SIMILARITIES = {"cosine": cosine, "euclidean": negative_squared_distance}
