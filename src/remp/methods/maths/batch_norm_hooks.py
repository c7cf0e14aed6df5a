"""Batch norms of any backbone, changed from task to task without touching its code."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

Change = Callable[[int, nn.BatchNorm2d, Tensor, Tensor], Tensor]


def batch_norms(backbone: nn.Module) -> list[nn.BatchNorm2d]:
    """All batch norms of a backbone, in the order in which it names them."""
    return [module for module in backbone.modules() if isinstance(module, nn.BatchNorm2d)]


@contextmanager
def changed_batch_norms(backbone: nn.Module, change: Change) -> Iterator[None]:
    """While it lasts, batch norm number i gives `change(i, layer, input, output)` instead of its output."""

    def hook(number: int) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], Tensor]:
        def changed(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
            assert isinstance(layer, nn.BatchNorm2d)
            return change(number, layer, inputs[0], output)

        return changed

    handles = [layer.register_forward_hook(hook(i)) for i, layer in enumerate(batch_norms(backbone))]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def norm_by_first(layer: nn.BatchNorm2d, maps: Tensor, count: int) -> Tensor:
    """Batch norm of all maps by the statistics of the first `count` of them: (n, width, h, w) -> the same shape."""
    variance, mean = torch.var_mean(maps[:count], dim=(0, 2, 3), correction=0)
    factor = layer.weight * (variance + layer.eps).rsqrt()
    return maps * factor[:, None, None] + (layer.bias - mean * factor)[:, None, None]
