"""Devices and processes for training: a thin layer over lightning-fabric."""

import atexit
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from remp.config import RunConfig
from remp.errors import ConfigError
from remp.system.progress import Progress

# Run by a process of its own, since some CPUs that claim to know bfloat16 crash in what a network does most. Prints how
# many times as long convolutions take in bfloat16 as in float32.
_TRY_BFLOAT16 = """
import time, torch
def seconds(lower):
    convolution, images, times = torch.nn.Conv2d(64, 64, 3), torch.rand(16, 64, 16, 16), []
    for _ in range(5):
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=lower):
            convolution(images).sum().backward()
            torch.ones(64, 64) @ torch.ones(64, 64)
        times.append(time.perf_counter() - start)
    return min(times)
print(seconds(True) / seconds(False))
"""
_SLOW = 1.3  # times as long as float32; less may be chance and is not told


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


class Processes:
    """One process, or those that `torchrun` started; each takes its share of the episodes of a step."""

    def __init__(self, precision: str = "32-true") -> None:
        from lightning_fabric import Fabric
        from lightning_fabric.strategies import DDPStrategy

        self.count = int(os.environ.get("WORLD_SIZE", 1))
        local = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
        # A schedule may leave parameters out of a step; running statistics are merged below instead of broadcast.
        several = DDPStrategy(find_unused_parameters=True, broadcast_buffers=False)
        self._fabric = Fabric(
            accelerator="auto",
            devices=local,
            num_nodes=self.count // local,
            strategy=several if self.count > 1 else "auto",
            precision=precision,  # type: ignore[arg-type]
        )
        if self._fabric.device.type == "cpu":
            _check_precision_of_cpu(precision)
        self._fabric.launch()
        if self.count > 1:
            atexit.register(_leave)
        self.rank: int = self._fabric.global_rank
        self.device: torch.device = self._fabric.device

    def share_episodes(self, config: RunConfig) -> RunConfig:
        """The config with its episodes per step settled: one per process unless the config says more."""
        per_step = config.episodes_per_step or self.count
        if per_step % self.count:
            raise ConfigError(
                f"{per_step} episodes per step cannot be shared by {self.count} processes: "
                f"set --episodes-per-step to a multiple of {self.count}"
            )
        return config.model_copy(update={"episodes_per_step": per_step})

    def set_up(self, method: nn.Module, optimiser: torch.optim.Optimizer) -> tuple[Any, Any]:
        """Method and optimiser, moved to the device and synchronised between processes."""
        wrapped, wrapped_optimiser = self._fabric.setup(method, optimiser)
        wrapped.mark_forward_method("loss")
        return wrapped, wrapped_optimiser

    def lower_precision(self) -> AbstractContextManager[None]:
        """Within it, products are taken in the run's precision. Fabric does so by itself in several processes only."""
        return self._fabric.autocast()

    def backward(self, loss: Tensor) -> None:
        self._fabric.backward(loss)

    def clip(self, wrapped: Any, optimiser: Any, limit: float) -> None:
        """Shorten the gradient of all parameters to this norm; in 16-mixed, without the scale of the loss."""
        self._fabric.clip_gradients(wrapped, optimiser, max_norm=limit, error_if_nonfinite=False)

    def no_sync(self, wrapped: Any) -> AbstractContextManager[None]:
        return self._fabric.no_backward_sync(wrapped)

    def barrier(self) -> None:
        self._fabric.barrier()

    def mean(self, numbers: list[float]) -> list[float]:
        """Each number averaged over the processes."""
        if self.count == 1:
            return numbers
        own = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        return [float(number) for number in self._sum(own) / self.count]

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in one of the processes: they must stop at the same step."""
        return self.mean([float(flag)])[0] > 0

    @contextmanager
    def merged_statistics(self, method: nn.Module, n_own: int) -> Iterator[None]:
        """After it, all processes have the running statistics of one that saw the episodes of all in turn. n_own:
        episodes of each within it."""
        before = RunningStatistics(method) if self.count > 1 else None
        yield
        if before is not None:
            before.merge(n_own, rank=self.rank, count=self.count, sum_over_processes=self._sum)

    def _sum(self, tensor: Tensor) -> Tensor:
        total = self._fabric.all_reduce(tensor, reduce_op="sum")
        assert isinstance(total, Tensor)
        return total


def _check_precision_of_cpu(precision: str) -> None:
    """Refuse what a CPU cannot do, and tell what it does slowly; bfloat16 is tried in a process that may die."""
    if precision == "16-mixed":
        raise ConfigError("precision is '16-mixed', which needs a GPU: set --precision 32-true")
    if precision == "bf16-mixed":
        tried = subprocess.run([sys.executable, "-c", _TRY_BFLOAT16], capture_output=True)
        if tried.returncode:
            raise ConfigError(
                "precision is 'bf16-mixed', which this CPU does not support (a trial process ended with code "
                f"{tried.returncode}): set --precision 32-true"
            )
        if (times := float(tried.stdout.split()[-1])) > _SLOW:
            Progress().say(
                f"precision is bf16-mixed, but here convolutions take {times:.1f} times as long in bfloat16 as in "
                "float32: --precision 32-true would be faster"
            )


def _kept(layer: _BatchNorm) -> float:
    if layer.momentum is None:
        raise ConfigError("a batch norm has momentum=None, which several processes cannot share: give it a number")
    return 1 - layer.momentum


def _flat(tensors: list[Tensor]) -> Tensor:
    return torch.cat([t.detach().flatten() for t in tensors]) if tensors else torch.zeros(0)


def _fill(buffers: list[Tensor], values: Tensor) -> None:
    for buffer, part in zip(buffers, values.split([b.numel() for b in buffers]), strict=True):
        buffer.copy_(part.view_as(buffer))


def _leave() -> None:
    """Leave the other processes: threads of a group that are alive when the process ends can abort it."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
