"""One process's share of many rows, for passes that `torchrun` spreads over processes and machines."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from remp.rows.array import Rows
from remp.rows.blocks import Block, blocks_of, total
from remp.system.progress import progress
from remp.system.threads import on_all_cores

Made = TypeVar("Made")

# Results travel in messages of at most so many bytes.
_PIECE = 64 << 20


@dataclass(frozen=True)
class Shard:
    """Process `rank` of `world`. The default is the only process: nothing is sent, and torch.distributed not used."""

    rank: int = 0
    world: int = 1

    def span(self, n: int) -> tuple[int, int]:
        """First row of this process's share of n rows, and the row after its last: shares differ by one row at most."""
        return n * self.rank // self.world, n * (self.rank + 1) // self.world

    def each(self, work: Callable[[Block], Made], rows: Rows, labels: np.ndarray | None = None) -> Iterator[Made]:
        """work(block) of each block of this process's share of the rows, in their order.

        One process takes rows that come in parts block by block, as many at once as torch has threads, each with one.
        labels: (n,), if `work` looks at them. It must not hold the rows: other engines send it to where they are read.
        """
        labels = np.broadcast_to(np.int8(-1), len(rows)) if labels is None else labels
        if self.world > 1:
            first, stop = self.span(len(rows))
            yield work(Block(rows, labels[first:stop], first, stop, first))
            return
        blocks = blocks_of(rows, labels)
        if len(blocks) == 1:
            yield work(blocks[0])
            return
        with progress("passing over the rows", len(rows), unit="rows", is_passing=True) as bar:
            for block, made in zip(blocks, on_all_cores(work, blocks), strict=True):
                bar.advance(len(block))
                yield made

    def total(self, work: Callable[[Block], Made], rows: Rows, labels: np.ndarray | None = None) -> Made:
        """The sum of what `each` makes of this process's share, in the order of `remp.rows.blocks`."""
        return total(self.each(work, rows, labels))

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum of this tensor over all processes, in each of them."""
        return self.sums(tensor)[0]

    def sums(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The sums of these tensors of one dtype, by one message."""
        if self.world == 1:
            return tensors
        import torch.distributed as distributed

        packed = torch.cat([tensor.flatten() for tensor in tensors])
        distributed.all_reduce(packed)
        parts = packed.split([tensor.numel() for tensor in tensors])
        return tuple(part.reshape(tensor.shape) for part, tensor in zip(parts, tensors, strict=True))

    def largest(self, number: float) -> float:
        """The largest of the numbers of all processes."""
        numbers = torch.zeros(self.world, dtype=torch.float64)
        numbers[self.rank] = number
        return float(self.sum(numbers).max())

    def gather(self, own: np.ndarray, n: int) -> np.ndarray | None:
        """The results of all n rows in order, in the first process; None in the others. own: those of this share."""
        first, stop = self.span(n)
        if len(own) != stop - first:
            raise ValueError(f"got results of {len(own)} rows; needed those of the {stop - first} of this share")
        if self.world == 1:
            return own
        if self.rank:
            for piece in _pieces(own):
                _exchange("send", piece, dst=0)
            return None
        everything = np.empty((n, *own.shape[1:]), own.dtype)
        everything[first:stop] = own
        for rank in range(1, self.world):
            first, stop = Shard(rank, self.world).span(n)
            for piece in _pieces(everything[first:stop]):
                _exchange("recv", piece, src=rank)
        return everything


def shard_of(rows: Rows) -> Shard:
    """Who passes over these rows if nobody is named: rows on a cluster, as those of a Ray dataset, say it themselves;
    all others this process."""
    shard = getattr(rows, "shard", None)
    return shard if isinstance(shard, Shard) else Shard()


def current_shard() -> Shard | None:
    """The share of this process if `torchrun` started it, with its process group; None in an ordinary process."""
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        return None
    import torch.distributed as distributed

    if not distributed.is_initialized():
        distributed.init_process_group("gloo")
    return Shard(distributed.get_rank(), distributed.get_world_size())


def _pieces(rows: np.ndarray) -> list[Tensor]:
    """The bytes of contiguous rows, in pieces of the same memory."""
    return list(torch.from_numpy(rows.reshape(-1).view(np.uint8)).split(_PIECE)) if rows.size else []


def _exchange(way: str, piece: Tensor, **peer: int) -> None:
    import torch.distributed as distributed

    getattr(distributed, way)(piece, **peer)
