"""Devices and processes for training: a thin layer over lightning-fabric."""

import os
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from remp.config import RunConfig
from remp.errors import ConfigError


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
        self._fabric.launch()
        self.rank: int = self._fabric.global_rank
        self.device: torch.device = self._fabric.device

    def share_episodes(self, config: RunConfig) -> RunConfig:
        """The config with its episodes a step settled: by default one a process."""
        per_step = config.episodes_per_step or self.count
        if per_step % self.count:
            raise ConfigError(
                f"{per_step} episodes a step cannot be shared by {self.count} processes: "
                f"set --episodes-per-step to a multiple of {self.count}"
            )
        return config.model_copy(update={"episodes_per_step": per_step})

    def set_up(self, method: nn.Module, optimiser: torch.optim.Optimizer) -> tuple[Any, Any]:
        """Method and optimiser, moved to the device and synchronised between processes."""
        wrapped, wrapped_optimiser = self._fabric.setup(method, optimiser)
        wrapped.mark_forward_method("loss")
        return wrapped, wrapped_optimiser

    def backward(self, loss: Tensor) -> None:
        self._fabric.backward(loss)

    def no_sync(self, wrapped: Any) -> AbstractContextManager[None]:
        return self._fabric.no_backward_sync(wrapped)

    def barrier(self) -> None:
        self._fabric.barrier()

    def running_statistics(self, method: nn.Module) -> Tensor | None:
        """The running statistics of batch norm before a step, if they will have to be merged."""
        return _flat(_running_buffers(method)).clone() if self.count > 1 else None

    @torch.no_grad()
    def merge_running_statistics(self, method: nn.Module, before: Tensor | None) -> None:
        """Give all processes the running statistics that one process would have after seeing all their episodes in turn.

        A process changes them m → (1 - a) m + a x, a = 0.1. In turn this gives (1 - a)^W m + Σ_r (1 - a)^(W-1-r) a x_r.
        """
        if before is None or not before.numel():
            return
        keep = 0.9
        buffers = _running_buffers(method)
        own = _flat(buffers) - keep * before
        total = self._fabric.all_reduce(own * keep ** (self.count - 1 - self.rank), reduce_op="sum")
        assert isinstance(total, Tensor)
        merged = keep**self.count * before + total
        for buffer, part in zip(buffers, merged.split([b.numel() for b in buffers]), strict=True):
            buffer.copy_(part.view_as(buffer))


def _running_buffers(method: nn.Module) -> list[Tensor]:
    """Running means and variances of batch norm, all of momentum 0.1."""
    return [b for name, b in method.named_buffers() if name.endswith(("running_mean", "running_var"))]


def _flat(tensors: list[Tensor]) -> Tensor:
    return torch.cat([t.flatten() for t in tensors]) if tensors else torch.zeros(0)
