"""Rows of two places, one after the other, without a copy."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from remp.rows import Rows


class JoinedRows:
    """The rows of `first`, then those of `second`."""

    def __init__(self, first: Rows, second: Rows) -> None:
        self.first, self.second = first, second

    @property
    def dim(self) -> int:
        return self.first.dim

    def __len__(self) -> int:
        return len(self.first) + len(self.second)

    def chunks(self, start: int = 0, stop: int | None = None) -> Iterator[Tensor]:
        stop, n_first = len(self) if stop is None else stop, len(self.first)
        if start < n_first:
            yield from self.first.chunks(start, min(stop, n_first))
        if stop > n_first:
            yield from self.second.chunks(max(start - n_first, 0), stop - n_first)

    def take(self, numbers: Sequence[int] | np.ndarray) -> Tensor:
        numbers, n_first = np.asarray(numbers), len(self.first)
        in_second = numbers >= n_first
        taken = torch.empty(len(numbers), self.dim)
        taken[torch.from_numpy(~in_second)] = self.first.take(numbers[~in_second])
        taken[torch.from_numpy(in_second)] = self.second.take(numbers[in_second] - n_first)
        return taken
