"""The moving average of a network's weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class MovingAverage:
    """average ← decay · average + (1 - decay) · weights, over parameters and floating-point buffers.

    The decay is small at first, (1 + step) / (10 + step), so that the random start is soon forgotten.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self._module, self._decay = module, decay
        self.values = {name: t.detach().clone() for name, t in module.state_dict().items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        decay = min(self._decay, (1 + step) / (10 + step))
        averages, weights = [], []
        for name, tensor in self._module.state_dict().items():
            if tensor.is_floating_point():
                averages.append(self.values[name])
                weights.append(tensor)
            else:
                self.values[name].copy_(tensor)
        torch._foreach_lerp_(averages, weights, 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Within it, the module has the averaged weights."""
        own = {name: t.detach().clone() for name, t in self._module.state_dict().items()}
        self._module.load_state_dict(self.values)
        try:
            yield
        finally:
            self._module.load_state_dict(own)

    def load(self, values: dict[str, Tensor]) -> None:
        """Take up averages that were saved; device and memory layout stay those of the module."""
        for name, average in self.values.items():
            average.copy_(values[name])
