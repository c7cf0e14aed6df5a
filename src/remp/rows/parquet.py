"""Rows of a Parquet file, read batch by batch by pyarrow (`pip install remp[parquet]`): it need not fit in memory."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from remp.errors import DataError
from remp.rows.array import chunk_rows

# Read at once from the file, so that a row group of gigabytes is not.
_BUFFER_BYTES = 4 << 20


class ParquetRows:
    """Rows in a column of lists of numbers, or in columns of numbers, one a dimension."""

    def __init__(self, path: str | Path, columns: str | Sequence[str], chunk: int | None = None) -> None:
        """columns: one name or several. chunk: rows in a piece; by default as many as fit in a cache."""
        self._path, self._columns = Path(path), [columns] if isinstance(columns, str) else list(columns)
        file = self._open()
        types = [_column_type(file, name, path) for name in self._columns]
        groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
        self._starts = [0, *accumulate(groups)]  # the first row of each row group, and the end
        self._is_list = any(_is_list(kind) for kind in types)
        self.dim = self._find_dim(types)
        self.chunk = chunk or chunk_rows(self.dim)

    def __len__(self) -> int:
        return self._starts[-1]

    def chunks(self, start: int = 0, stop: int | None = None) -> Iterator[Tensor]:
        stop = len(self) if stop is None else min(stop, len(self))
        groups = [number for number in range(len(self._starts) - 1) if self._overlaps(number, start, stop)]
        if not groups:
            return
        first = self._starts[groups[0]]
        for batch in self._open().iter_batches(self.chunk, groups, self._columns, use_threads=False):
            low, high = max(start - first, 0), min(stop - first, len(batch))
            if low < high:
                yield self._tensor(batch.slice(low, high - low), first + low)
            first += len(batch)
            if first >= stop:
                return

    def take(self, numbers: Sequence[int] | np.ndarray) -> Tensor:
        numbers = np.asarray(numbers, dtype=np.int64)
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(self):
            raise IndexError(f"got row numbers {numbers.min()} … {numbers.max()}; needed 0 … {len(self) - 1}")
        taken = torch.empty(len(numbers), self.dim)
        for first, stop in zip(self._starts, self._starts[1:], strict=False):
            places = np.flatnonzero((numbers >= first) & (numbers < stop))
            if len(places):
                self._take(first, numbers[places], places, taken)
        return taken

    def _take(self, first: int, numbers: np.ndarray, places: np.ndarray, taken: Tensor) -> None:
        """Put the rows of these numbers, all in the row group that starts at `first`, in their places."""
        for chunk in self.chunks(first, int(numbers.max()) + 1):
            here = np.flatnonzero((numbers >= first) & (numbers < first + len(chunk)))
            taken[torch.from_numpy(places[here])] = chunk[torch.from_numpy(numbers[here] - first)]
            first += len(chunk)

    def _overlaps(self, group: int, start: int, stop: int) -> bool:
        return self._starts[group] < stop and self._starts[group + 1] > start

    def _find_dim(self, types: list[Any]) -> int:
        if not types or (self._is_list and len(types) > 1):
            raise DataError(f"got {len(types)} columns; needed one of lists, or one or more of numbers")
        if not self._is_list:
            return len(types)
        dim = getattr(types[0], "list_size", None) or self._length_of_first_list()
        if not dim:
            raise DataError(f"column {self._columns[0]!r} of {self._path} starts with an empty list; needed numbers")
        return int(dim)

    def _length_of_first_list(self) -> int:
        batch = next(self._open().iter_batches(1, columns=self._columns), None)
        if batch is None or not len(batch):
            raise DataError(f"{self._path} has no rows")
        return len(batch.column(0)[0].as_py() or ())

    def _tensor(self, batch: Any, first: int) -> Tensor:
        """A batch of rows, of which the first has this number, as float32 (m, dim)."""
        if self._is_list:
            return torch.from_numpy(np.array(self._from_lists(batch.column(0), first), dtype=np.float32))
        columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
        return torch.from_numpy(np.stack(columns, axis=1, dtype=np.float32, casting="unsafe"))

    def _from_lists(self, lists: Any, first: int) -> np.ndarray:
        """(m, dim); a missing number is NaN."""
        import pyarrow.compute as compute

        lengths = compute.list_value_length(lists).fill_null(-1).to_numpy(zero_copy_only=False)
        wrong = np.flatnonzero(lengths != self.dim)
        if len(wrong):
            got = "nothing" if lengths[wrong[0]] < 0 else f"{lengths[wrong[0]]} numbers"
            raise DataError(f"row {first + wrong[0]} of {self._path} holds {got}; needed {self.dim}, as in the first")
        return lists.flatten().to_numpy(zero_copy_only=False).reshape(-1, self.dim)

    def _open(self) -> Any:
        return open_parquet(self._path)


def open_parquet(path: Path) -> Any:
    """A pyarrow.parquet.ParquetFile."""
    parquet, lib = _pyarrow()
    try:
        return parquet.ParquetFile(path, buffer_size=_BUFFER_BYTES, pre_buffer=False)
    except (OSError, lib.ArrowException) as error:
        raise DataError(f"{path} cannot be read as Parquet: {error}") from error


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow.lib
        import pyarrow.parquet
    except ImportError as error:
        raise DataError("reading Parquet needs pyarrow: pip install 'remp[parquet]'") from error
    return pyarrow.parquet, pyarrow.lib


def _column_type(file: Any, name: str, path: str | Path) -> Any:
    """The type of a column, checked to be numbers or lists of numbers."""
    import pyarrow.types as kinds

    if name not in file.schema_arrow.names:
        raise DataError(f"{path} has no column {name!r}; it has: {', '.join(file.schema_arrow.names)}")
    kind = file.schema_arrow.field(name).type
    number = kind.value_type if _is_list(kind) else kind
    if not (kinds.is_floating(number) or kinds.is_integer(number)):
        raise DataError(f"column {name!r} of {path} is of type {kind}; needed numbers, or lists of numbers")
    return kind


def _is_list(kind: Any) -> bool:
    import pyarrow.types as kinds

    return kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)
