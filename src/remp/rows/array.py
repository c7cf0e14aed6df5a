"""Rows of arrays, memory maps and tensors, and of several places one after the other."""

import warnings
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from remp.errors import DataError

# A chunk of about this many bytes stays in the cache of a processor while it is worked on.
_CHUNK_BYTES = 4 << 20


class Rows(Protocol):
    """Rows of features, read piece by piece."""

    @property
    def dim(self) -> int:
        """Numbers in a row."""

    def __len__(self) -> int:
        """How many rows."""

    def chunks(self, start: int = 0, stop: int | None = None) -> Iterator[Tensor]:
        """The rows start … stop - 1 in order, as float32 pieces (m, dim) of any length. They are to be read only: a
        piece may be a part of the user's array."""

    def take(self, numbers: Sequence[int] | np.ndarray) -> Tensor:
        """The rows of these numbers, in this order, float32 (k, dim)."""


class ArrayRows:
    """Rows of an array, of a memory map or of a tensor, of any type of number. They are not copied.

    Parameters
    ----------
    values : ndarray or Tensor
        (n, dim).
    chunk : int, optional
        Rows in a piece; by default as many as fit in a cache.

    Examples
    --------
    >>> import numpy as np
    >>> from remp import ArrayRows
    >>> rows = ArrayRows(np.arange(12).reshape(6, 2), chunk=4)
    >>> len(rows), rows.dim, [tuple(piece.shape) for piece in rows.chunks()]
    (6, 2, [(4, 2), (2, 2)])
    """

    def __init__(self, values: np.ndarray | Tensor, chunk: int | None = None) -> None:
        values = _as_array(values)
        check_table(values.shape, values.dtype)
        self.chunk = chunk or chunk_rows(values.shape[1])
        is_plain = values.dtype == np.float32 and values.flags.c_contiguous
        self._values = read_only_tensor(values) if is_plain else values

    @property
    def dim(self) -> int:
        """Numbers in a row."""
        return self._values.shape[1]

    def __len__(self) -> int:
        return len(self._values)

    def chunks(self, start: int = 0, stop: int | None = None) -> Iterator[Tensor]:
        """The rows in order, piece by piece.

        Parameters
        ----------
        start, stop : int
            The first row, and the row after the last; by default all rows.

        Yields
        ------
        Tensor
            (m, dim) float32, to be read only.
        """
        stop = len(self) if stop is None else stop
        for first in range(start, stop, self.chunk):
            yield _single(self._values[first : min(first + self.chunk, stop)])

    def take(self, numbers: Sequence[int] | np.ndarray) -> Tensor:
        """Some rows, in any order.

        Parameters
        ----------
        numbers : sequence of int
            Their numbers, counted from 0.

        Returns
        -------
        Tensor
            (k, dim) float32, in the order of the numbers.
        """
        numbers = np.asarray(numbers, dtype=np.int64)
        check_numbers(numbers, len(self))
        return _single(self._values[numbers])


def check_numbers(numbers: np.ndarray, n_rows: int) -> None:
    """Raise an IndexError unless these numbers (k,) are of rows that are there; -1 is not the last one."""
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < n_rows:
        raise IndexError(f"got row numbers {numbers.min()} … {numbers.max()}; needed 0 … {n_rows - 1}")


def chunk_rows(dim: int) -> int:
    """How many rows of `dim` numbers make a chunk."""
    return max(256, _CHUNK_BYTES // (4 * dim))


def check_table(shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Raise a DataError unless this is a table of numbers with at least one column."""
    if len(shape) != 2 or shape[1] == 0:
        raise DataError(f"got features of shape {shape}; needed (rows, dimensions), with one dimension at least")
    if dtype.kind not in "fiub":
        raise DataError(f"got features of type {dtype}; needed numbers: float16, float32, float64 or integers")


def _as_array(values: np.ndarray | Tensor) -> np.ndarray:
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        return (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    return np.asarray(values)


def read_only_tensor(values: np.ndarray) -> Tensor:
    """The array as a tensor of the same memory, also if that is to be read only: nobody here writes to it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(values)


def _single(values: np.ndarray | Tensor) -> Tensor:
    if isinstance(values, Tensor):
        return values
    with np.errstate(over="ignore"):  # beyond float32: infinite, which is reported with the row's number
        return torch.from_numpy(values.astype(np.float32, order="C"))


class JoinedRows:
    """The rows of several places, one after the other.

    >>> rows = JoinedRows(ArrayRows(np.zeros((2, 3))), ArrayRows(np.ones((4, 3))))
    >>> len(rows), rows.take([1, 2])[:, 0].tolist()
    (6, [0.0, 1.0])
    """

    def __init__(self, *parts: Rows) -> None:
        dims = {part.dim for part in parts}
        if len(dims) != 1:
            raise DataError(f"got parts with rows of {sorted(dims) or 'no'} dimensions; needed the same in all")
        self.parts, self.dim = parts, dims.pop()
        self.starts = [0, *accumulate(len(part) for part in parts)]
        """The number of each part's first row, and of all rows."""

    def __len__(self) -> int:
        return self.starts[-1]

    def chunks(self, start: int = 0, stop: int | None = None) -> Iterator[Tensor]:
        stop = len(self) if stop is None else min(stop, len(self))
        for part, first in zip(self.parts, self.starts, strict=False):
            low, high = max(start - first, 0), min(stop - first, len(part))
            if low < high:
                yield from part.chunks(low, high)

    def take(self, numbers: Sequence[int] | np.ndarray) -> Tensor:
        numbers = np.asarray(numbers, dtype=np.int64)
        taken = torch.empty(len(numbers), self.dim)
        for part, places in self.holders(numbers):
            taken[torch.from_numpy(places)] = self.parts[part].take(numbers[places] - self.starts[part])
        return taken

    def holders(self, numbers: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """Which part holds rows of these numbers (k,), and which of the k those are: (part, places) for each."""
        check_numbers(numbers, len(self))
        part_of = np.searchsorted(self.starts, numbers, side="right") - 1
        return [(int(part), np.flatnonzero(part_of == part)) for part in np.unique(part_of)]
