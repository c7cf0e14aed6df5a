"""Running statistics of batch norm, and counters, merged over processes as if one had seen all episodes in turn."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


class RunningStatistics:
    """A copy of a network's running statistics and counters before a step.

    An episode changes a statistic m → (1 - a) m + a x, where a is the momentum of its batch norm. After k episodes it
    is (1 - a)^k m + c, so what a process adds, c, counts (1 - a)^(episodes after its own) times. Counters add up.
    """

    def __init__(self, method: nn.Module) -> None:
        layers = [m for m in method.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
        pairs = [
            (b, _kept(layer)) for layer in layers for b in (layer.running_mean, layer.running_var) if b is not None
        ]
        self._buffers = [buffer for buffer, _ in pairs]
        self._kept = _flat([torch.full_like(buffer, kept) for buffer, kept in pairs])
        self._before = _flat(self._buffers)
        self._counters = [b for b in method.buffers() if not b.is_floating_point()]
        self._counts = _flat(self._counters)

    @torch.no_grad()
    def merge(self, n_own: int, *, rank: int, count: int, sum_over_processes: Callable[[Tensor], Tensor]) -> None:
        """n_own: episodes of each process in the step. rank, count: which of how many processes this is."""
        if self._buffers:
            added = _flat(self._buffers) - self._kept**n_own * self._before
            total = sum_over_processes(added * self._kept ** (n_own * (count - 1 - rank)))
            _fill(self._buffers, self._kept ** (n_own * count) * self._before + total)
        if self._counters:
            _fill(self._counters, self._counts + sum_over_processes(_flat(self._counters) - self._counts))


def _kept(layer: _BatchNorm) -> float:
    assert layer.momentum is not None, "batch norm with a cumulative average cannot be merged"
    return 1 - layer.momentum


def _flat(tensors: list[Tensor]) -> Tensor:
    return torch.cat([t.detach().flatten() for t in tensors]) if tensors else torch.zeros(0)


def _fill(buffers: list[Tensor], values: Tensor) -> None:
    for buffer, part in zip(buffers, values.split([b.numel() for b in buffers]), strict=True):
        buffer.copy_(part.view_as(buffer))
