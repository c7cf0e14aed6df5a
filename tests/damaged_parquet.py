"""A Parquet file whose footer claims rows that are not there."""

from contextlib import suppress
from pathlib import Path

import pyarrow.parquet
import pytest


def with_more_rows(path: Path) -> None:
    """Change the footer of a Parquet file of 50 rows: its row group says that it has 60."""
    content = path.read_bytes()
    for place in range(len(content) - 8, 0, -1):
        if content[place] == 100:  # 50, as Parquet writes it
            path.write_bytes(content[:place] + b"\x78" + content[place + 1 :])
            with suppress(Exception):
                if pyarrow.parquet.ParquetFile(path).metadata.row_group(0).num_rows == 60:
                    return
    pytest.fail("no place says how many rows there are")
