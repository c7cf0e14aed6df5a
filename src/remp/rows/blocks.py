"""Blocks: how many rows are cut into pieces of work that do not depend on who does them.

What a pass sums up is summed within each block and then over the blocks in a fixed order (`total`), so that the result
is the same to the last bit whether one thread passes over the blocks or a hundred machines do. Blocks are added in
groups, each from its first to its last, and then the sums of the groups, likewise: a group can be added wherever it is
convenient.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from remp.rows.array import JoinedRows, Rows, chunk_rows

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
        for group, first in zip(groups, firsts, strict=False)  # the last start is the end
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
