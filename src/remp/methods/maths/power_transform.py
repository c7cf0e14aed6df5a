"""The power transform that makes skewed non-negative features more Gaussian, and the centring that goes with it."""

import torch
from torch import Tensor

from remp.rectification.similarity import unit

_OFFSET = 1e-6


def power_transform(features: Tensor, exponent: float) -> Tensor:
    """(x + 1e-6)^exponent, of each number; a negative one keeps its sign: -(|x| + 1e-6)^exponent."""
    if exponent == 1:
        return features
    return features.abs().add_(_OFFSET).pow_(exponent).copysign_(features)


def centred(items: Tensor) -> Tensor:
    """Items (E, n, d) minus their mean, which is summed in double precision: the order of the items does not show."""
    return items - items.mean(-2, keepdim=True, dtype=torch.float64).to(items.dtype)


def centred_on_sphere(items: Tensor) -> Tensor:
    """Items (E, n, d) minus their mean, each with L2 norm 1; an item at the mean is 0."""
    return unit(centred(items))
