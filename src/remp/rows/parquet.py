"""Rows of a Parquet file, read batch by batch by pyarrow (`pip install pyarrow`): it need not fit in memory."""

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from remp.errors import DataError
from remp.rows.array import check_numbers, chunk_rows
from remp.system.files import place
from remp.untrusted import border, listed, shortened

# Read at once from the file, so that a row group of gigabytes is not.
_BUFFER_BYTES = 4 << 20
_FREE_ROWS = 1_000_000  # that any file may have: equal rows take next to no bytes
_AGAIN = "it is damaged; write it again"


class ParquetRows:
    """Rows of a Parquet file, which need not fit in memory.

    Parameters
    ----------
    path : str or Path
        Of a file, or an address such as s3://bucket/file.
    columns : str or list of str
        One column of lists of numbers, or columns of numbers, one per dimension.
    chunk : int, optional
        Rows in a piece; by default as many as fit in a cache.

    Examples
    --------
    >>> import pyarrow, pyarrow.parquet
    >>> from remp import ParquetRows
    >>> pyarrow.parquet.write_table(pyarrow.table({"x0": [1.0, 2.0, 3.0], "x1": [0.5, 0.5, 0.25]}), "rows.parquet")
    >>> ParquetRows("rows.parquet", ["x0", "x1"]).take([2]).tolist()
    [[3.0, 0.25]]
    """

    def __init__(self, path: str | Path, columns: str | Sequence[str], chunk: int | None = None) -> None:
        self._path, self._columns = str(path), [columns] if isinstance(columns, str) else list(columns)
        file = open_parquet(path)
        self._metadata = file.metadata
        types = [_column_type(file, name, path) for name in self._columns]
        groups = group_sizes(file)
        self._starts = [0, *accumulate(groups)]
        check_row_count(self._path, groups)
        self._is_list = any(is_list(kind) for kind in types)
        self.dim = self._find_dim(types)
        self.chunk = chunk or chunk_rows(self.dim)

    def __len__(self) -> int:
        return self._starts[-1]

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
        stop = len(self) if stop is None else min(stop, len(self))
        for first, batch in self._batches(self.chunk, start, stop):
            yield self._tensor(batch, first)

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
        with border(f"{self._path} cannot be read", _AGAIN):
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

    def _find_dim(self, types: list[Any]) -> int:
        if not types or (self._is_list and len(types) > 1):
            raise DataError(f"got {len(types)} columns; needed one of lists, or one or more of numbers")
        if not self._is_list:
            return len(types)
        dim = getattr(types[0], "list_size", None) or self._length_of_first_list()
        if dim < 1:
            got = "an empty list" if dim == 0 else "nothing"
            raise DataError(f"column {self._columns[0]!r} of {self._path} starts with {got}; needed numbers")
        return int(dim)

    def _length_of_first_list(self) -> int:
        found = next(self._batches(1, 0, 1), None)
        if found is None:
            raise DataError(f"{self._path} has no rows")
        return int(self._lengths(found[1].column(0))[0])

    def _batches(self, n_rows: int, start: int, stop: int) -> Iterator[tuple[int, Any]]:
        file = open_parquet(self._path, self._metadata)
        return read_span(file, self._path, self._columns, n_rows, self._starts, start, stop)

    def _lengths(self, lists: Any) -> np.ndarray:
        """How many numbers each list has; -1 where there is none."""
        import pyarrow.compute as compute

        return compute.list_value_length(lists).fill_null(-1).to_numpy(zero_copy_only=False)

    def _tensor(self, batch: Any, first: int) -> Tensor:
        """A batch of rows, of which the first has this number, as float32 (m, dim)."""
        if self._is_list:
            return torch.from_numpy(np.array(self._from_lists(batch.column(0), first), dtype=np.float32))
        columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
        return torch.from_numpy(np.stack(columns, axis=1, dtype=np.float32, casting="unsafe"))

    def _from_lists(self, lists: Any, first: int) -> np.ndarray:
        """(m, dim); a missing number is NaN."""
        lengths = self._lengths(lists)
        wrong = np.flatnonzero(lengths != self.dim)
        if len(wrong):
            got = "nothing" if lengths[wrong[0]] < 0 else f"{lengths[wrong[0]]} numbers"
            raise DataError(f"row {first + wrong[0]} of {self._path} holds {got}; needed {self.dim}, as in the first")
        return lists.flatten().to_numpy(zero_copy_only=False).reshape(-1, self.dim)


def open_parquet(path: str | Path, metadata: Any = None) -> Any:
    """A pyarrow.parquet.ParquetFile of a path or an address. Pages with a check sum are checked when they are read.
    metadata: of the file, if it was opened before: that of thousands of row groups takes long to read."""
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise DataError("reading Parquet needs pyarrow: pip install pyarrow") from error
    with border(f"{place(path)} cannot be read as Parquet", _AGAIN):
        file = place(path).open() if "://" in str(path) else path
        return parquet.ParquetFile(
            file,
            metadata=metadata,
            buffer_size=_BUFFER_BYTES,
            pre_buffer=False,
            page_checksum_verification=True,
        )


def read_span(
    file: Any, path: str | Path, columns: list[str], n_rows: int, starts: list[int], start: int, stop: int
) -> Iterator[tuple[int, Any]]:
    """Some columns of the rows start … stop - 1 of an open file in batches of at most n_rows, as pyarrow reads them,
    each with the number of its first row. starts: the first row of each row group, and the end."""
    groups = [i for i, (first, end) in enumerate(pairwise(starts)) if first < stop and end > start]
    if not groups:
        return
    with border(f"{place(path)} cannot be read as Parquet", _AGAIN):
        batches = file.iter_batches(n_rows, groups, columns, use_threads=False)
    first = starts[groups[0]]
    while first < stop:
        with border(f"{place(path)} cannot be read as Parquet", _AGAIN):
            batch = next(batches, None)
        if batch is None:
            raise DataError(f"{place(path)} says it has {starts[-1]} rows, but ends after {first}: {_AGAIN}")
        low, high = max(start - first, 0), min(stop - first, len(batch))
        if low < high:
            yield first + low, batch.slice(low, high - low)
        first += len(batch)


def group_sizes(file: Any) -> list[int]:
    """How many rows each row group of a pyarrow.parquet.ParquetFile says it has."""
    return [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]


def check_row_count(path: str | Path, groups: Sequence[int]) -> None:
    """Raise DataError for numbers of rows that cannot be: there is a byte for each, or they are few."""
    n_bytes = place(path).size()
    if min(groups, default=0) < 0 or sum(groups) > _FREE_ROWS + n_bytes:
        raise DataError(f"{place(path)} says it has {sum(groups)} rows in {n_bytes} bytes: {_AGAIN}")


def _column_type(file: Any, name: str, path: str | Path) -> Any:
    """The type of a column, checked to be numbers or lists of numbers."""
    import pyarrow.types as kinds

    if name not in file.schema_arrow.names:
        raise DataError(f"{path} has no column {shortened(name)!r}; it has: {listed(file.schema_arrow.names)}")
    kind = file.schema_arrow.field(name).type
    number = kind.value_type if is_list(kind) else kind
    if not (kinds.is_floating(number) or kinds.is_integer(number)):
        raise DataError(
            f"column {shortened(name)!r} of {path} is of type {shortened(str(kind))}; needed numbers, or lists of them"
        )
    return kind


def is_list(kind: Any) -> bool:
    """Whether this type of pyarrow is one of lists."""
    import pyarrow.types as kinds

    return kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)
