"""One process's share of many rows, for passes that `torchrun` spreads over processes and machines."""

import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

# Items of a gather that travel at once: results of many rows never lie in a message as a whole.
_PIECE = 1 << 20


@dataclass(frozen=True)
class Shard:
    """Process `rank` of `world`. The default is the only process: nothing is sent, and torch.distributed not used."""

    rank: int = 0
    world: int = 1

    def span(self, n: int) -> tuple[int, int]:
        """First row of this process's share of n rows, and the row after its last: shares differ by one row at most."""
        return n * self.rank // self.world, n * (self.rank + 1) // self.world

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum of this tensor over all processes, in each of them."""
        return self._reduced(tensor, "SUM")

    def smallest(self, tensor: Tensor) -> Tensor:
        """The smallest of each entry over all processes."""
        return self._reduced(tensor, "MIN")

    def _reduced(self, tensor: Tensor, operation: str) -> Tensor:
        if self.world == 1:
            return tensor
        import torch.distributed as distributed

        total = tensor.clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(total, op=getattr(distributed.ReduceOp, operation))
        return total

    def gather(self, own: np.ndarray, n: int) -> np.ndarray | None:
        """The results of all n rows in order, in the first process; None in the others. own: those of this share."""
        first, stop = self.span(n)
        if len(own) != stop - first:
            raise ValueError(f"got results of {len(own)} rows; needed those of rows {first} … {stop - 1}")
        if self.world == 1:
            return own
        if self.rank:
            _in_pieces(own, lambda piece: _send(piece))
            return None
        everything = np.empty((n, *own.shape[1:]), own.dtype)
        everything[first:stop] = own
        for rank in range(1, self.world):
            first, stop = Shard(rank, self.world).span(n)
            _in_pieces(everything[first:stop], lambda piece, rank=rank: _receive(piece, rank))  # type: ignore[misc]
        return everything


def current_shard() -> Shard | None:
    """The share of this process if `torchrun` started it, with its process group; None in an ordinary process."""
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        return None
    import torch.distributed as distributed

    if not distributed.is_initialized():
        distributed.init_process_group("gloo")
    return Shard(distributed.get_rank(), distributed.get_world_size())


def _in_pieces(rows: np.ndarray, use: Callable[[np.ndarray], None]) -> None:
    for first in range(0, len(rows), _PIECE):
        use(rows[first : first + _PIECE])


def _send(piece: np.ndarray) -> None:
    import torch.distributed as distributed

    distributed.send(torch.from_numpy(np.ascontiguousarray(piece)), dst=0)


def _receive(piece: np.ndarray, rank: int) -> None:
    """Fill `piece` with what process `rank` sends."""
    import torch.distributed as distributed

    distributed.recv(torch.from_numpy(piece), src=rank)
