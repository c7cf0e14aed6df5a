"""What the columns of a Parquet file mean: embeddings, labels, ids."""

from pathlib import Path
from typing import Any

from remp.errors import DataError
from remp.labelling.tasks.label_table import ID_COLUMNS, LABEL_COLUMNS, label_or_none
from remp.rows.parquet import ParquetRows, open_parquet

EMBEDDING_COLUMNS = ("embedding", "embeddings", "features", "vector")


def read_parquet(path: Path) -> tuple[ParquetRows, list[str] | None, list[str | None] | None]:
    """The rows, their ids if there is such a column, and their labels if there is one."""
    file = open_parquet(path)
    schema = file.schema_arrow
    id_column, label_column = _named(schema.names, ID_COLUMNS), _named(schema.names, LABEL_COLUMNS)
    rows = ParquetRows(path, _embedding_columns(schema, {id_column, label_column}, path))
    ids, labels = _values(file, id_column), _values(file, label_column)
    return (
        rows,
        None if ids is None else [str(value) for value in ids],
        None if labels is None else [label_or_none(value) for value in labels],
    )


def _named(names: list[str], wanted: tuple[str, ...]) -> str | None:
    folded = {name.strip().casefold(): name for name in reversed(names)}
    return next((folded[name] for name in wanted if name in folded), None)


def _embedding_columns(schema: Any, taken: set[str | None], path: Path) -> list[str]:
    """The one column of lists, or all columns of numbers that are neither ids nor labels."""
    import pyarrow.types as types

    free = [field for field in schema if field.name not in taken]
    is_list = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    lists = [field.name for field in free if any(is_kind(field.type) for is_kind in is_list)]
    named = _named(lists, EMBEDDING_COLUMNS)
    if named or len(lists) == 1:
        return [named or lists[0]]
    numbers = [field.name for field in free if types.is_floating(field.type) or types.is_integer(field.type)]
    if lists or not numbers:
        raise DataError(
            f"{path} has the columns {', '.join(schema.names)}; needed one of lists named 'embedding', or a column of "
            "numbers for each dimension"
        )
    return numbers


def _values(file: Any, column: str | None) -> list[Any] | None:
    return None if column is None else file.read(columns=[column])[column].to_pylist()
