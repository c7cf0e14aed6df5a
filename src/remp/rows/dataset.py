"""Rows of a Parquet dataset of many files, or of a Ray dataset."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from remp.errors import DataError
from remp.rows.array import ArrayRows, JoinedRows, Rows, check_table, chunk_rows
from remp.rows.parquet import ParquetRows
from remp.rows.ray_tasks import RayRows, RayTasks
from remp.system.files import Place, place
from remp.untrusted import listed


def parquet_dataset(folder: str | Path, columns: str | Sequence[str] = "embedding") -> JoinedRows:
    """The rows of all Parquet files of a folder, in the order of their names.

    Parameters
    ----------
    folder : str or Path
        A folder, or an address such as s3://bucket/folder. Files that start with a dot or an underscore do not count.
    columns : str or list of str
        As in :class:`remp.ParquetRows`.

    Returns
    -------
    JoinedRows
        The rows of all files, one after the other.

    Examples
    --------
    >>> import pyarrow, pyarrow.parquet
    >>> from pathlib import Path
    >>> from remp import parquet_dataset
    >>> Path("parts").mkdir()
    >>> for i in range(2):
    ...     table = pyarrow.table({"embedding": [[float(i), 1.0]] * 3})
    ...     pyarrow.parquet.write_table(table, f"parts/{i}.parquet")
    >>> len(parquet_dataset("parts")), parquet_dataset("parts").take([5]).tolist()
    (6, [[1.0, 1.0]])
    """
    files = [place(folder) / name for name in part_names(place(folder))]
    return joined_files(files, [ParquetRows(file.address, columns) for file in files])


def joined_files(files: Sequence[Place], rows: Sequence[Rows]) -> JoinedRows:
    """The rows of some files, one after the other. Raises a DataError that names a file whose rows are longer or
    shorter than those of the first."""
    for file, part in zip(files, rows, strict=True):
        if part.dim != rows[0].dim:
            raise DataError(
                f"{file} has rows of {part.dim} numbers, {files[0]} of {rows[0].dim}; needed the same in all files: "
                "take one of the two out of the folder, or write it again"
            )
    return JoinedRows(*rows)


def part_names(folder: Place) -> list[str]:
    """The Parquet files of a dataset, at least one, in order."""
    names = [name for name in folder.files() if is_part(name)]
    if not names:
        raise DataError(f"{folder} holds no Parquet files: give the folder of a dataset")
    return names


def is_part(name: str) -> bool:
    """Whether a file of a dataset holds rows: by custom, what starts with a dot or an underscore does not."""
    return name.casefold().endswith(".parquet") and not name.startswith((".", "_"))


def as_rows(rows: Any) -> Rows:
    """Rows as they are; a Ray dataset as rows of its column `embedding`, or of its only column."""
    if type(rows).__module__.partition(".")[0] == "ray":
        return ray_dataset(rows)
    return rows


def is_rows(thing: Any) -> bool:
    """Whether this is Rows, or a Ray dataset, rather than an array."""
    return type(thing).__module__.partition(".")[0] == "ray" or all(
        hasattr(thing, name) for name in ("dim", "chunks", "take")
    )


def join(*rows: Rows) -> JoinedRows:
    """These rows one after the other, part by part; those of Ray are still read by its tasks."""
    parts = [part for some in rows for part in (some.parts if isinstance(some, JoinedRows) else (some,))]
    tasks = next((some.tasks for some in rows if isinstance(some, RayRows)), None)
    return JoinedRows(*parts) if tasks is None else RayRows(*parts, tasks=tasks)


def ray_dataset(dataset: Any) -> RayRows:
    """The rows of a Ray dataset, block by block, which Ray's tasks pass over. It has to be materialised: only then is
    the order of its rows fixed, and labels can be told to go with them. They are in the column `embedding`, or in the
    only one."""
    if type(dataset).__name__ != "MaterializedDataset":
        raise DataError("the rows of a Ray dataset have no fixed order before it is computed: give data.materialize()")
    names = dataset.columns() or []
    column = names[0] if len(names) == 1 else "embedding"
    if column not in names:
        raise DataError(f"the Ray dataset has the columns {listed(names)}; needed one named 'embedding'")
    import ray

    references = dataset.to_arrow_refs()
    count = ray.remote(_count)
    counts = ray.get([count.remote(reference) for reference in references])
    blocks = [(reference, n) for reference, n in zip(references, counts, strict=True) if n]
    if not blocks:
        raise DataError("the Ray dataset has no rows")
    dim = _table(blocks[0][0], column).shape[1]
    return RayRows(*(_RayBlock(reference, column, n, dim) for reference, n in blocks), tasks=RayTasks())


class _RayBlock:
    """Rows of one block of a Ray dataset, fetched when they are read."""

    def __init__(self, reference: Any, column: str, n: int, dim: int) -> None:
        self._reference, self._column, self._n, self.dim = reference, column, n, dim

    def __len__(self) -> int:
        return self._n

    def chunks(self, start: int = 0, stop: int | None = None) -> Iterator[Tensor]:
        return self._rows().chunks(start, stop)

    def take(self, numbers: Sequence[int] | np.ndarray) -> Tensor:
        return self._rows().take(numbers) if len(numbers) else torch.empty(0, self.dim)

    def _rows(self) -> ArrayRows:
        values = _table(self._reference, self._column)
        if values.shape != (self._n, self.dim):
            raise DataError(f"a block of the Ray dataset has shape {values.shape}; needed {(self._n, self.dim)}")
        return ArrayRows(values, chunk_rows(self.dim))


def _count(table: Any) -> int:
    return len(table)


def _table(reference: Any, column: str) -> np.ndarray:
    import ray
    from ray.data.block import BlockAccessor

    values: Any = BlockAccessor.for_block(ray.get(reference)).to_numpy(column)
    values = np.stack([np.asarray(row) for row in values]) if values.dtype == object else values
    check_table(values.shape, values.dtype)
    return values
