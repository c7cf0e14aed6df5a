"""One's own embeddings as a task: an array or a Parquet file, with labels in it or beside it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from remp.datasets.archives import check_unfolding
from remp.errors import DataError
from remp.labelling.tasks import Items, make_task
from remp.labelling.tasks.label_table import (
    ID_COLUMNS,
    LABEL_COLUMNS,
    LabelRow,
    as_numbers,
    check_encoding,
    keep_label,
    label_or_none,
    read_label_table,
    read_lines,
)
from remp.rows import ArrayRows, Rows
from remp.rows.parquet import ParquetRows, is_list, open_parquet
from remp.untrusted import border, listed, shortened

EMBEDDING_SUFFIXES = (".npy", ".npz", ".parquet")
_AGAIN = "write it with numpy.save"
_ROW_COLUMNS = ("row", "index")  # of whole numbers: what reset_index of pandas leaves
EMBEDDING_COLUMNS = ("embedding", "embeddings", "features", "vector")


def embedding_task(embeddings: Path, labels: Path | None) -> tuple[Items, Rows]:
    """Items are rows, named by their number from 0, or by the id column of a Parquet file."""
    names, rows, given, is_numbered = _read(embeddings)
    if not len(rows):
        raise DataError(f"{embeddings} has no rows")
    if labels is not None:
        return with_labels(names, labels, by_number=is_numbered), rows
    if given is None:
        column = f" (no column {' or '.join(LABEL_COLUMNS)})" if embeddings.suffix.casefold() == ".parquet" else ""
        raise DataError(f"{embeddings} has no labels{column}: give --labels FILE.csv with the columns row and label")
    return make_task(names, given), rows


def unlabelled_rows(embeddings: Path) -> tuple[tuple[str, ...], Rows]:
    """The names and the rows of a file, whatever labels are in it."""
    names, rows, _, _ = _read(embeddings)
    return tuple(names), rows


def _read(path: Path) -> tuple[list[str], Rows, list[str | None] | None, bool]:
    """The names of the rows, the rows, their labels if the file has some, and whether the names are their numbers."""
    rows: Rows
    if path.suffix.casefold() == ".parquet":
        rows, ids, given = read_parquet(path)
    else:
        array, ids, given = _open_array(path), None, None
        try:
            rows = ArrayRows(array)
        except DataError as error:
            raise DataError(f"{path}: {error}") from error
    return [str(number) for number in range(len(rows))] if ids is None else ids, rows, given, ids is None


def _open_array(path: Path) -> np.ndarray:
    """The array in a file, mapped rather than read, so that it may be larger than memory. Nothing in it is run."""
    if path.suffix.casefold() not in EMBEDDING_SUFFIXES:
        raise DataError(f"{str(path)!r} is not a file of embeddings; needed one that ends in .npy, .npz or .parquet")
    with border(f"{str(path)!r} cannot be read as an array of numbers", _AGAIN):
        content = np.load(path, mmap_mode="r", allow_pickle=False)
    return content if isinstance(content, np.ndarray) else _only_array(content, path)


def _only_array(archive: Any, path: Path) -> np.ndarray:
    with archive:
        if len(archive.files) != 1:
            found = listed(archive.files) or "none"
            raise DataError(f"{path} holds {len(archive.files)} arrays ({found}); needed one: write it with numpy.save")
        check_unfolding(path, archive.zip.infolist())
        with border(f"{str(path)!r} cannot be read as an array of numbers", _AGAIN):
            array = archive[archive.files[0]]
    if not isinstance(array, np.ndarray):  # numpy hands over the bytes of what is no array
        raise DataError(f"{path} holds no array: {_AGAIN}")
    return array


def with_labels(names: Sequence[str], file: Path, *, by_number: bool) -> Items:
    """One label per line, or lines of row (or id) and label."""
    lines = read_lines(file)
    if max((len(cells) for _, cells in lines), default=0) <= 1:
        return make_task(names, as_numbers(_label_a_line([cells for _, cells in lines], len(names), file)))
    number_of: dict[str, int] = {}
    for number, name in enumerate(names):
        if number_of.setdefault(name, number) != number:
            raise DataError(
                f"rows {number_of[name]} and {number} have the same id {shortened(name)!r}: give each its own"
            )
    given: dict[int, LabelRow] = {}
    skipped = []
    keys = (*_ROW_COLUMNS, *ID_COLUMNS, "") if by_number else ("row", *ID_COLUMNS)  # "": the index, as pandas writes it
    for row in read_label_table(file, keys):
        if row.key.strip() in number_of:
            if label_or_none(row.label) is not None:
                keep_label(given, number_of[row.key.strip()], row, file)
        elif by_number:  # most likely all are counted from 1, which would shift every label
            shown = repr(shortened(row.key))
            raise DataError(f"{file}, line {row.line}: there is no row {shown}; rows are 0 … {len(names) - 1}")
        else:
            skipped.append((row.key, f"listed in {file.name}, but not in the embeddings"))
    classes = as_numbers([given[number].label if number in given else None for number in range(len(names))])
    return make_task(names, classes, skipped=skipped)


def _label_a_line(lines: list[list[str]], n: int, file: Path) -> list[str | None]:
    labels = [cells[0] if cells else "" for cells in lines]
    if len(labels) == n + 1 and labels[0].strip().casefold() in LABEL_COLUMNS:
        labels = labels[1:]
    if len(labels) != n:
        raise DataError(
            f"{file} has {len(labels)} lines for {n} rows; needed one label per line (an empty line: unlabelled), or "
            "the columns row and label for some of the rows"
        )
    for number, label in enumerate(labels):
        check_encoding(label, file, number + 1 + len(lines) - n)
    return [label_or_none(label) for label in labels]


def read_parquet(path: str | Path) -> tuple[ParquetRows, list[str] | None, list[str | None] | None]:
    """The rows, their ids if there is such a column, and their labels if there is one."""
    file = open_parquet(path)
    schema = file.schema_arrow
    id_column, label_column = _named(schema.names, ID_COLUMNS), _named(schema.names, LABEL_COLUMNS)
    rows = ParquetRows(path, _embedding_columns(schema, {id_column, label_column}, path))
    ids, labels = column_values(file, id_column, path), column_values(file, label_column, path)
    for values in (ids, labels):
        if values is not None and len(values) != len(rows):
            raise DataError(
                f"{path} has {len(values)} ids or labels for {len(rows)} rows: it is damaged; write it again"
            )
    return (
        rows,
        None if ids is None else [str(at if value is None else value) for at, value in enumerate(ids)],
        None if labels is None else [label_or_none(value) for value in labels],
    )


def _named(names: list[str], wanted: tuple[str, ...]) -> str | None:
    folded = {name.strip().casefold(): name for name in reversed(names)}
    return next((folded[name] for name in wanted if name in folded), None)


def _embedding_columns(schema: Any, taken: set[str | None], path: str | Path) -> list[str]:
    """The one column of lists, or all columns of numbers that are neither ids nor labels nor count the rows."""
    import pyarrow.types as types

    free = [field for field in schema if field.name not in taken]
    lists = [field.name for field in free if is_list(field.type)]
    named = _named(lists, EMBEDDING_COLUMNS)
    if named or len(lists) == 1:
        return [named or lists[0]]
    counts = {field.name for field in free if types.is_integer(field.type) and field.name.casefold() in _ROW_COLUMNS}
    counts |= _index_columns(schema)
    numbers = [field.name for field in free if types.is_floating(field.type) or types.is_integer(field.type)]
    numbers = [name for name in numbers if name not in counts]
    if lists or not numbers:
        raise DataError(
            f"{path} has the columns {listed(schema.names)}; needed one of lists named 'embedding', or a column of "
            "numbers for each dimension"
        )
    return numbers


def _index_columns(schema: Any) -> set[str]:
    """The columns that are the index of a data frame of pandas, which writes it beside the others."""
    try:
        said = schema.pandas_metadata["index_columns"]
    except (ValueError, KeyError, TypeError, RecursionError):  # none, or damaged
        return set()
    return {name for name in said if isinstance(name, str)} if isinstance(said, list) else set()


def column_values(file: Any, column: str | None, path: str | Path) -> list[Any] | None:
    if column is None:
        return None
    import pyarrow.types as types

    with border(f"{path}, column {shortened(column)!r}, cannot be read", "it is damaged; write it again"):
        values = file.read(columns=[column])[column]
        values.validate(full=True)
        if types.is_binary(values.type) or types.is_large_binary(values.type):  # as some tools write strings
            values = values.cast("string")
        return values.to_pylist()
