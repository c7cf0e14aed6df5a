"""Pictures that are to be embedded, in blocks: of a folder, or of Parquet with a column of pictures or of paths."""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from remp.datasets.decode import UnreadablePicture
from remp.datasets.raw import is_picture
from remp.errors import DataError
from remp.labelling.embedding.cache import digest
from remp.labelling.embedding.pictures import read_file
from remp.labelling.tasks.folder import find_pictures, is_hidden
from remp.labelling.tasks.label_table import ID_COLUMNS, LABEL_COLUMNS, label_or_none
from remp.rows.dataset import is_part
from remp.rows.parquet import check_row_count, group_sizes, open_parquet, read_span
from remp.system.files import Place
from remp.untrusted import border, listed

_IMAGE_COLUMNS = ("image", "picture", "img", "jpg", "png", "bytes", "content")
_PATH_COLUMNS = ("path", "file", "filename", "file_name", "filepath", "image_path", "image", "url", "uri")
_READ_AT_ONCE = 64  # pictures of a Parquet file


@dataclass(frozen=True)
class Item:
    """A picture to embed. content: its bytes, or where it lies; None for an empty cell of a table."""

    name: str
    label: str | None
    content: bytes | Place | None


@dataclass(frozen=True)
class FolderBlock:
    """Pictures `names` below a folder."""

    folder: str
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def items(self) -> Iterator[Item]:
        folder = Place(self.folder)
        return (Item(name, None, folder / name) for name in self.names)


@dataclass(frozen=True)
class ParquetBlock:
    """Rows first … stop - 1 of a Parquet file. image: the column of pictures, or else path: of paths, relative to the
    file's folder. name, label: columns, or None; without names, an item is called FILE.parquet#ROW."""

    file: str
    first: int
    stop: int
    image: str | None
    path: str | None
    name: str | None
    label: str | None

    def __len__(self) -> int:
        return self.stop - self.first

    def items(self) -> Iterator[Item]:
        """Raises DataError for a file that cannot be read."""
        columns = {"image": self.image, "path": self.path, "name": self.name, "label": self.label}
        file = open_parquet(self.file)
        if _columns(file.schema_arrow, Place(self.file)) != columns:
            raise DataError(f"{Place(self.file)} has other columns than before: give another --out")
        names = sorted({column for column in columns.values() if column})
        starts = [0, *accumulate(group_sizes(file))]
        for number, batch in read_span(file, self.file, names, _READ_AT_ONCE, starts, self.first, self.stop):
            with border(f"{Place(self.file)} cannot be read as Parquet", "it is damaged; write it again"):
                rows = batch.to_pylist()  # texts may not be UTF-8
            for at, row in enumerate(rows, number):
                yield self._item(at, row)

    def _item(self, number: int, row: dict[str, Any]) -> Item:
        label = label_or_none(row[self.label]) if self.label else None
        name = str(row[self.name]) if self.name and row[self.name] is not None else None
        content: bytes | Place | None = None
        own_name = None
        if self.image:
            cell = row[self.image]
            content, own_name = (cell["bytes"], cell.get("path")) if isinstance(cell, dict) else (cell, None)
            own_name = own_name if isinstance(own_name, str) else None
        path = row[self.path] if self.path else None
        name = name or own_name or path or f"{Place(self.file).name}#{number}"
        if content is None and path:
            content = _beside(self.file, path)
        return Item(name, label, content)


Block = FolderBlock | ParquetBlock


def block_key(block: Block) -> str:
    """A hash that is equal for equal blocks."""
    return digest(json.dumps(asdict(block), sort_keys=True).encode("utf-8", "backslashreplace")).hex()


def find_blocks(source: Place, size: int) -> tuple[list[Block], list[tuple[str, str]]]:
    """All that is to be embedded in blocks of `size` pictures, in a fixed order, and (name, reason) of what is not.

    A folder with Parquet files that tell of pictures is a dataset; any other is a folder of pictures.
    """
    if source.name.casefold().endswith(".parquet") and source.is_file():
        return _parquet_blocks([source], size)
    if not source.is_folder():
        raise DataError(f"{source} is not there: give a folder of pictures, or Parquet with pictures or their paths")
    tables = [name for name in source.files() if is_part(name)]
    no_dataset: DataError | None = None
    if tables:
        try:
            return _parquet_blocks([source / name for name in tables], size)
        except DataError as error:
            no_dataset = error
    names, skipped = _folder_names(source)
    if not names:
        raise no_dataset or DataError(f"{source} holds no picture that can be read")
    spans = (tuple(names[at : at + size]) for at in range(0, len(names), size))
    return [FolderBlock(source.address, span) for span in spans], skipped


def picture_bytes(content: bytes | Place) -> bytes:
    """The bytes of a picture. Raises UnreadablePicture."""
    if isinstance(content, bytes):
        return content
    if content.is_local:
        return read_file(content.path)
    try:
        return content.read()
    except FileNotFoundError as error:
        raise UnreadablePicture("not there (any more)") from error
    except OSError as error:
        raise UnreadablePicture(f"cannot be read ({str(error).splitlines()[0]})") from error


def _folder_names(folder: Place) -> tuple[list[str], list[tuple[str, str]]]:
    if folder.is_local:
        tree = find_pictures(Path(folder.address))
        return tree.names, tree.skipped
    names = [name for name in folder.files(deep=True) if not any(is_hidden(part) for part in name.split("/"))]
    return [name for name in names if is_picture(name)], []


def _parquet_blocks(files: list[Place], size: int) -> tuple[list[Block], list[tuple[str, str]]]:
    blocks: list[Block] = []
    skipped = []
    for file in files:
        try:
            content = open_parquet(file.address)
        except DataError as error:
            skipped.append((file.name, str(error)))
            continue
        columns, groups = _columns(content.schema_arrow, file), group_sizes(content)
        check_row_count(file.address, groups)
        n = sum(groups)
        blocks += [ParquetBlock(file.address, at, min(at + size, n), **columns) for at in range(0, n, size)]
    if not blocks:
        raise DataError(f"{files[0]} holds no pictures" + (f": {skipped[0][1]}" if skipped else ""))
    return blocks, skipped


def _columns(schema: Any, file: Place) -> dict[str, str | None]:
    import pyarrow.types as kinds

    def first(names: tuple[str, ...], fits: Any) -> str | None:
        fields = {field.name.casefold(): field for field in schema}
        return next((fields[name].name for name in names if name in fields and fits(fields[name].type)), None)

    def is_text(kind: Any) -> bool:
        return kinds.is_string(kind) or kinds.is_large_string(kind)

    def is_bytes(kind: Any) -> bool:
        if kinds.is_struct(kind):  # {"bytes": …, "path": …}, as some libraries keep pictures
            return any(field.name == "bytes" and is_bytes(field.type) for field in kind)
        return kinds.is_binary(kind) or kinds.is_large_binary(kind)

    image, path = first(_IMAGE_COLUMNS, is_bytes), first(_PATH_COLUMNS, is_text)
    if image is None and path is None:
        raise DataError(
            f"{file} has the columns {listed(schema.names)}; needed one of pictures (named image, of bytes) or one "
            "of paths (named path, of text)"
        )
    name = first(ID_COLUMNS, lambda kind: is_text(kind) or kinds.is_integer(kind))
    return {
        "image": image,
        "path": None if image else path,
        "name": name,
        "label": first(LABEL_COLUMNS, lambda kind: is_text(kind) or kinds.is_integer(kind)),
    }


def _beside(file: str, path: str) -> Place:
    """Where a path in a Parquet file leads."""
    if "://" in path or path.startswith("/"):
        return Place(path)
    if Place(file).is_local:
        return Place(os.path.join(os.path.dirname(file), path))
    folder, mark, options = file.partition("?")
    return Place(f"{folder.rpartition('/')[0]}{mark}{options}") / path
