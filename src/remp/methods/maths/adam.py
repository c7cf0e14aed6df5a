"""Adam for many small problems at once, given their gradients: no autograd, and no problem sees another."""

from collections.abc import Callable

import torch
from torch import Tensor

_FIRST_DECAY, _SECOND_DECAY, _EPSILON = 0.9, 0.999, 1e-8


def adam(start: Tensor, gradient: Callable[[Tensor], Tensor], *, steps: int, step_size: float) -> Tensor:
    """Where `steps` steps of Adam lead from `start`. gradient: values -> slope of the loss in each of them."""
    values = start.clone()
    first, second = torch.zeros_like(values), torch.zeros_like(values)
    for step in range(1, steps + 1):
        slope = gradient(values)
        first.lerp_(slope, 1 - _FIRST_DECAY)
        second.mul_(_SECOND_DECAY).addcmul_(slope, slope, value=1 - _SECOND_DECAY)
        size = second.sqrt().div_((1 - _SECOND_DECAY**step) ** 0.5).add_(_EPSILON)
        values.addcdiv_(first, size, value=-step_size / (1 - _FIRST_DECAY**step))
    return values
