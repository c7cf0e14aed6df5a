"""Passes over many rows, and each process's share of them where `torchrun` spreads a pass over processes and machines.

Rows are cut into blocks, pieces of work that do not depend on who does them. What a pass sums up is summed within each
block and then over the blocks in a fixed order (`total`), so that the result is the same to the last bit whether one
thread passes over the blocks or a hundred machines do. Blocks are added in groups, each from its first to its last, and
then the sums of the groups, likewise: a group can be added wherever it is convenient.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from remp.rows.array import JoinedRows, Rows, chunk_rows
from remp.system.progress import progress
from remp.system.threads import on_all_cores

Made = TypeVar("Made")

# Results travel in messages of at most so many bytes.
_PIECE = 64 << 20
# Parts are joined so that there are no more blocks than this: so the sums of a layer are no more messages either.
MOST_BLOCKS = 512
# Blocks in a group. 256 of them are then 16 groups of 16: as few additions one after the other as two steps allow.
GROUP = 16


@dataclass(frozen=True)
class Block:
    """The rows start … stop - 1 of `rows`. labels: (stop - start,) theirs, -1 for none; first: the number that the
    first of them has among all rows."""

    rows: Rows
    labels: np.ndarray
    start: int
    stop: int
    first: int

    def __len__(self) -> int:
        return self.stop - self.start

    def __reduce__(self) -> tuple[Any, ...]:
        """Sent to others with the labels that there are, which are few, rather than with one for each row."""
        at = np.flatnonzero(self.labels >= 0)
        return _block, (self.rows, at, self.labels[at], self.start, self.stop, self.first)

    def chunks(self) -> Iterator[Tensor]:
        """All rows, in pieces."""
        return self.rows.chunks(self.start, self.stop)

    def labelled(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The labelled rows (m, dim) and their labels (m,), in pieces."""
        numbers, piece = np.flatnonzero(self.labels >= 0), chunk_rows(self.rows.dim)
        for at in range(0, len(numbers), piece):
            here = numbers[at : at + piece]
            yield self.rows.take(self.start + here), torch.from_numpy(self.labels[here]).long()

    def unlabelled(self) -> Iterator[Tensor]:
        """The rows without label, in pieces."""
        for chunk, labels in self.chunks_with_labels():
            is_free = labels < 0
            yield chunk if is_free.all() else chunk[torch.from_numpy(is_free)]

    def chunks_with_labels(self) -> Iterator[tuple[Tensor, np.ndarray]]:
        """All rows in pieces (m, dim), each with its labels (m,), -1 for none; pieces without an unlabelled row are
        left out."""
        at = 0
        for chunk in self.chunks():
            labels = self.labels[at : at + len(chunk)]
            at += len(chunk)
            if (labels < 0).any():
                yield chunk, labels


def _block(rows: Rows, at: np.ndarray, there: np.ndarray, start: int, stop: int, first: int) -> Block:
    labels = np.full(stop - start, -1, there.dtype)
    labels[at] = there
    return Block(rows, labels, start, stop, first)


def blocks_of(rows: Rows, labels: np.ndarray) -> list[Block]:
    """All rows as blocks: those of JoinedRows by their parts, any others as one."""
    spans = joined_parts(rows) if isinstance(rows, JoinedRows) else [(rows, 0)]
    return [Block(part, labels[first : first + len(part)], 0, len(part), first) for part, first in spans]


def joined_parts(rows: JoinedRows) -> list[tuple[Rows, int]]:
    """Consecutive parts, joined to at most MOST_BLOCKS, each with the number of its first row."""
    together = -(-len(rows.parts) // MOST_BLOCKS)
    groups = [rows.parts[at : at + together] for at in range(0, len(rows.parts), together)]
    firsts = rows.starts[::together]
    return [
        (group[0] if len(group) == 1 else JoinedRows(*group), first)
        for group, first in zip(groups, firsts, strict=False)  # the starts end with the number of all rows
    ]


def add(*parts: Any) -> Any:
    """The sum of one or more, from the first to the last: of what can be added, or of tuples of that."""
    total = parts[0]
    for part in parts[1:]:
        total = tuple(map(add, total, part)) if isinstance(total, tuple) else total + part
    return total


def total(parts: Iterable[Any]) -> Any:
    """The sum of what all blocks have made, one or more, which come in their order."""
    parts = iter(parts)
    whole = add(*islice(parts, GROUP))
    while group := tuple(islice(parts, GROUP)):
        whole = add(whole, add(*group))
    return whole


@dataclass(frozen=True)
class Shard:
    """One process's share of the rows. The default is the only process: nothing is sent to others.

    Parameters
    ----------
    rank : int
        The number of this process, 0 … world - 1.
    world : int
        How many processes there are. They talk to each other by torch.distributed.

    Examples
    --------
    >>> from remp import Shard
    >>> [Shard(rank, world=3).span(10) for rank in range(3)]
    [(0, 3), (3, 6), (6, 10)]
    """

    rank: int = 0
    world: int = 1

    def span(self, n: int) -> tuple[int, int]:
        """Which of n rows are this process's share. Shares differ by at most one row.

        Parameters
        ----------
        n : int
            Number of rows.

        Returns
        -------
        tuple of int
            The first row, and the row after the last.
        """
        return n * self.rank // self.world, n * (self.rank + 1) // self.world

    def each(self, work: Callable[[Block], Made], rows: Rows, labels: np.ndarray | None = None) -> Iterator[Made]:
        """What a function makes of each block of this process's share of the rows, in their order.

        If there is only one process, rows that come in parts are taken block by block, on as many threads as torch has.

        Parameters
        ----------
        work : callable
            Takes a block. It must not hold the rows itself: other engines send it to where they are read.
        rows : Rows
            All n rows.
        labels : ndarray, optional
            (n,), if `work` looks at them.

        Yields
        ------
        object
            work(block)
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
        with progress("reading the rows", len(rows), unit="rows", is_passing=True) as bar:
            for block, made in zip(blocks, on_all_cores(work, blocks), strict=True):
                bar.advance(len(block))
                yield made

    def total(self, work: Callable[[Block], Made], rows: Rows, labels: np.ndarray | None = None) -> Made:
        """The sum of what `each` yields, added in an order that does not depend on the number of threads.

        Parameters
        ----------
        work, rows, labels
            As in `each`.

        Returns
        -------
        object
            The sum over this process's share; `sum` adds those of all processes.
        """
        return total(self.each(work, rows, labels))

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum of a tensor over all processes, known to each of them.

        Parameters
        ----------
        tensor : Tensor
            This process's part, of the same shape everywhere.

        Returns
        -------
        Tensor
            The sum.
        """
        return self.sums(tensor)[0]

    def sums(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """`sum` of several tensors, in one message.

        Parameters
        ----------
        *tensors : Tensor
            Of one dtype.

        Returns
        -------
        tuple of Tensor
            Their sums.
        """
        if self.world == 1:
            return tensors
        import torch.distributed as distributed

        packed = torch.cat([tensor.flatten() for tensor in tensors])
        distributed.all_reduce(packed)
        parts = packed.split([tensor.numel() for tensor in tensors])
        return tuple(part.reshape(tensor.shape) for part, tensor in zip(parts, tensors, strict=True))

    def largest(self, number: float) -> float:
        """The largest of the numbers that the processes give.

        Parameters
        ----------
        number : float
            This process's.

        Returns
        -------
        float
            The largest, in every process.
        """
        numbers = torch.zeros(self.world, dtype=torch.float64)
        numbers[self.rank] = number
        return float(self.sum(numbers).max())

    def gather(self, own: np.ndarray, n: int) -> np.ndarray | None:
        """The results of all rows, in their order, in the first process.

        Parameters
        ----------
        own : ndarray
            (m, …) the results of this process's share.
        n : int
            Number of rows in all.

        Returns
        -------
        ndarray or None
            (n, …) in the first process, None in the others.
        """
        first, stop = self.span(n)
        if len(own) != stop - first:
            raise ValueError(
                f"got results of {len(own)} rows; needed those of the {stop - first} rows of this share: see Shard.span"
            )
        if self.world == 1:
            return own
        import torch.distributed as distributed

        if self.rank:
            for piece in _pieces(own):
                distributed.send(piece, dst=0)
            return None
        everything = np.empty((n, *own.shape[1:]), own.dtype)
        everything[first:stop] = own
        for rank in range(1, self.world):
            first, stop = Shard(rank, self.world).span(n)
            for piece in _pieces(everything[first:stop]):
                distributed.recv(piece, src=rank)
        return everything


def shard_of(rows: Rows) -> Shard:
    """Who passes over these rows if nobody is named: rows on a cluster, as those of a Ray dataset, say it themselves;
    all others this process."""
    shard = getattr(rows, "shard", None)
    return shard if isinstance(shard, Shard) else Shard()


def current_shard() -> Shard | None:
    """The share of this process, if `torchrun` started it.

    Returns
    -------
    Shard or None
        With its process group; None in an ordinary process.

    Examples
    --------
    >>> from remp import current_shard
    >>> current_shard() is None
    True
    """
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        return None
    import torch.distributed as distributed

    if not distributed.is_initialized():
        distributed.init_process_group("gloo")
    return Shard(distributed.get_rank(), distributed.get_world_size())


def _pieces(rows: np.ndarray) -> list[Tensor]:
    """The bytes of contiguous rows, in pieces of the same memory."""
    return list(torch.from_numpy(rows.reshape(-1).view(np.uint8)).split(_PIECE)) if rows.size else []
