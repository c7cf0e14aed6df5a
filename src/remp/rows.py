"""Many feature rows that need not fit in memory: what the estimator and `remp label` pass over in chunks."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor


class Rows(Protocol):
    """Rows of features, read piece by piece."""

    @property
    def dim(self) -> int:
        """Numbers in a row."""

    def __len__(self) -> int:
        """How many rows."""

    def chunks(self, start: int = 0, stop: int | None = None) -> Iterator[Tensor]:
        """The rows start … stop - 1 in order, as float32 pieces (m, dim) of any length."""

    def take(self, numbers: Sequence[int] | np.ndarray) -> Tensor:
        """The rows of these numbers, float32 (k, dim)."""


class ArrayRows:
    """Rows of an array, of a memory map or of a tensor (n, dim)."""

    def __init__(self, values: np.ndarray | Tensor, chunk: int = 4096) -> None:
        self.values, self.chunk = np.asarray(values), chunk

    @property
    def dim(self) -> int:
        return self.values.shape[1]

    def __len__(self) -> int:
        return len(self.values)

    def chunks(self, start: int = 0, stop: int | None = None) -> Iterator[Tensor]:
        stop = len(self) if stop is None else stop
        for first in range(start, stop, self.chunk):
            yield torch.from_numpy(np.array(self.values[first : min(first + self.chunk, stop)], dtype=np.float32))

    def take(self, numbers: Sequence[int] | np.ndarray) -> Tensor:
        return torch.from_numpy(np.asarray(self.values[np.asarray(numbers)], dtype=np.float32))
