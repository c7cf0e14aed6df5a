"""A Parquet dataset of embeddings: which block each part is of, what was skipped, and what made it."""

import errno
import gzip
import io
import json
import zlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from remp.backbones.embedding import Embedder
from remp.engine.picture_blocks import Block, FolderBlock, ParquetBlock, block_key
from remp.errors import ConfigError, DataError, OutputError
from remp.labelling.output.tables import csv_cell, utf8
from remp.rows.parquet import open_parquet
from remp.system.files import Place, remove_partial
from remp.system.threads import read_ahead
from remp.untrusted import reason

_ABOUT, _SKIPPED = "_embedding.json", "_skipped.csv"
_UNFOLDING = 50
_KEY, _LEFT_OUT = b"remp.block", b"remp.skipped"


@dataclass(frozen=True)
class Part:
    """The pictures of a block that could be read. values: (n, dim) float32. contents: hashes of the files, pictures:
    (n,) uint64 of what they show. labels: None where there are none. skipped: (name, reason) of the others.
    problem: why nothing of the block could be read, or empty."""

    names: list[str] = field(default_factory=list)
    contents: list[bytes] = field(default_factory=list)
    pictures: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint64))
    values: np.ndarray = field(default_factory=lambda: np.empty((0, 0), np.float32))
    labels: list[str | None] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    problem: str = ""


class EmbeddingParts:
    """A folder of parts, on this machine or in an object store. Files that start with an underscore are no rows:
    _embedding.json says what made the embeddings, _blocks-*.jsonl.gz which pictures each part holds."""

    def __init__(self, folder: Place) -> None:
        self.folder = folder

    def begin(self, source: Place, embedder: Embedder, found: list[Block]) -> list[Block]:
        """All blocks, by the number of their part: those of the runs before, then what is new.

        Raises ConfigError if the folder is of another source or embedder.
        """
        about = {
            "source": str(source),
            "kind": "folder" if isinstance(found[0], FolderBlock) else "parquet",
            "embedder": embedder.name,
            "embedder_hash": embedder.hash,
            "dim": embedder.dim,
            "side": embedder.side,
        }
        files = self.folder.files()
        if _ABOUT in files:
            self._check(about)
            if self.folder.is_local:
                remove_partial(self.folder.path)
        elif files:
            raise OutputError(f"{self.folder} has files in it that are not of remp embed: give an empty or new folder")
        else:
            self._write(_ABOUT, json.dumps(about, indent=1).encode())
        plans = [name for name in files if name.startswith("_blocks-")]
        planned = [block for name in plans for block in self._plan(name)]
        new = _new_blocks(planned, found)
        if new:
            lines = "".join(json.dumps(asdict(block)) + "\n" for block in new)
            self._write(f"_blocks-{len(plans):05d}.jsonl.gz", gzip.compress(lines.encode(), mtime=0))
        return planned + new

    def is_outdated(self) -> bool:
        """Whether a picture of the folder is gone, or was written or moved to its place after it was planned to embed
        it. Of folders of this machine only."""
        for name in self.folder.files():
            if name.startswith("_blocks-"):
                planned = (self.folder / name).path.stat().st_mtime
                paths = (Path(b.folder, one) for b in self._plan(name) if isinstance(b, FolderBlock) for one in b.names)
                if not all(_is_older(path, planned) for path in paths):
                    return True
        return False

    def finished(self, blocks: list[Block]) -> dict[int, list[tuple[str, str]]]:
        """The numbers of the blocks whose part is there and whole, each with what was skipped in it."""
        names = {name for name in self.folder.files() if name.startswith("part-")}
        numbers = [number for number in range(len(blocks)) if part_name(number) in names]
        read = read_ahead(self._marks, numbers)
        return {
            number: marks[1]
            for number, marks in zip(numbers, read, strict=True)
            if marks is not None and marks[0] == block_key(blocks[number])
        }

    def write(self, number: int, block: Block, part: Part) -> None:
        """Keep the part of a block. Raises OutputError where that cannot be done, for example on a full disk."""
        self._write(part_name(number), _parquet_bytes(block, part))

    def write_skipped(self, skipped: Iterable[tuple[str, str]]) -> None:
        """Name what was skipped, and why."""
        lines = ["name,reason", *(f"{csv_cell(name)},{csv_cell(reason)}" for name, reason in skipped)]
        self._write(_SKIPPED, ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace"))

    def _check(self, about: dict[str, Any]) -> None:
        there = self.about()
        was, now = there.get("source"), about["source"]
        if was != now:
            raise ConfigError(f"{self.folder} is of the pictures {was}, not {now}: give another --out")
        if there.get("embedder_hash") != about["embedder_hash"]:
            was, now = (f"{one.get('embedder')} at {one.get('side')} pixels" for one in (there, about))
            raise ConfigError(f"{self.folder} is of the embedder {was}, not {now}: give another --out")

    def about(self) -> dict[str, Any]:
        """What made the embeddings; nothing if this is no folder of ours."""
        try:
            about = json.loads((self.folder / _ABOUT).read())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            raise DataError(f"{self.folder / _ABOUT} cannot be read: {reason(error)}") from error
        kinds = {"embedder": str, "embedder_hash": str, "side": int}
        if not (
            isinstance(about, dict)
            and all(isinstance(about.get(name), str) for name in ("source", "kind"))
            and all(type(about[name]) is kind for name, kind in kinds.items() if name in about)
        ):
            raise DataError(f"{self.folder / _ABOUT} is damaged (its source, kind or embedder): give another folder")
        return about

    def _plan(self, name: str) -> list[Block]:
        try:
            lines = _unpacked((self.folder / name).read()).splitlines()
            blocks = [_block(json.loads(line)) for line in lines]
        except (OSError, ValueError, EOFError, zlib.error, RecursionError) as error:
            raise DataError(f"{self.folder / name} is damaged ({reason(error)}): give another --out") from error
        if not blocks or None in blocks:
            where = f"line {blocks.index(None) + 1}" if blocks else "it is empty"
            raise DataError(f"{self.folder / name} is damaged ({where}): give another --out")
        return blocks  # type: ignore[return-value]

    def _marks(self, number: int) -> tuple[str, list[tuple[str, str]]] | None:
        """The key of the block that a part is of, and what was skipped; None for a part that is damaged."""
        try:
            metadata = open_parquet((self.folder / part_name(number)).address).schema_arrow.metadata or {}
            return metadata[_KEY].decode(), skipped_in(metadata)
        except (DataError, KeyError, ValueError):
            return None

    def _write(self, name: str, content: bytes) -> None:
        try:
            (self.folder / name).write(content)
        except OSError as error:
            why = "no room is left" if error.errno == errno.ENOSPC else error.strerror or str(error).splitlines()[0]
            raise OutputError(
                f"{self.folder / name} cannot be written: {why}. What is finished is kept: fix that, and the same "
                "command goes on from there"
            ) from error


def _is_older(path: Path, time: float) -> bool:
    try:
        found = path.stat()
    except OSError:
        return False
    return max(found.st_mtime, found.st_ctime) <= time


def part_name(number: int) -> str:
    return f"part-{number:07d}.parquet"


def skipped_in(metadata: dict[bytes, bytes] | None) -> list[tuple[str, str]]:
    """(name, reason) of what was skipped when a part was made, from the metadata of its schema."""
    try:
        found = json.loads((metadata or {}).get(_LEFT_OUT, b"[]"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"what was skipped cannot be read: {reason(error)}") from error
    if not isinstance(found, list) or not all(_are_texts(pair) and len(pair) == 2 for pair in found):
        raise DataError("what was skipped cannot be read: needed pairs of a name and a reason")
    return [(name, why) for name, why in found]


def _unpacked(content: bytes) -> bytes:
    """The unpacked content. Raises ValueError if it is far more than names of pictures would be."""
    most = _UNFOLDING * len(content) + 2**24
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        unpacked = file.read(most + 1)
    if len(unpacked) > most:
        raise ValueError(f"it unpacks to more than {_UNFOLDING} times its size")
    return unpacked


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _block(values: Any) -> Block | None:
    """The block that a line of a plan describes; None if it describes none."""
    if not isinstance(values, dict):
        return None
    if values.keys() == {"folder", "names"}:
        is_one = isinstance(values["folder"], str) and _are_texts(values["names"])
        return FolderBlock(values["folder"], tuple(values["names"])) if is_one else None
    kinds = {field.name: field.type for field in fields(ParquetBlock)}
    if values.keys() != kinds.keys() or not all(isinstance(values[name], kind) for name, kind in kinds.items()):  # type: ignore[arg-type]
        return None
    is_span = 0 <= values["first"] < values["stop"] < 2**48
    return ParquetBlock(**values) if is_span and (values["image"] or values["path"]) else None


def _new_blocks(planned: list[Block], found: list[Block]) -> list[Block]:
    """Blocks for what the plan does not have yet: pictures or files that came later. Planned ones stay as they are."""
    if not planned:
        return found
    size = max(len(block) for block in found)
    have = {name for block in planned if isinstance(block, FolderBlock) for name in block.names}
    ends: dict[str, int] = {}  # of what is planned of each file, which may have got more rows
    for block in planned:
        if isinstance(block, ParquetBlock):
            ends[block.file] = max(ends.get(block.file, 0), block.stop)
    tables: list[Block] = [
        replace(block, first=max(block.first, ends.get(block.file, 0)))
        for block in found
        if isinstance(block, ParquetBlock) and block.stop > ends.get(block.file, 0)
    ]
    folders = [block for block in found if isinstance(block, FolderBlock)]
    names = [name for block in folders for name in block.names if name not in have]
    spans = [tuple(names[at : at + size]) for at in range(0, len(names), size)]
    return tables + [FolderBlock(folders[0].folder, span) for span in spans]


def _parquet_bytes(block: Block, part: Part) -> bytes:
    import pyarrow
    import pyarrow.parquet

    dim = part.values.shape[1]
    flat = pyarrow.array(part.values.reshape(-1), pyarrow.float32())
    columns = {
        "name": pyarrow.array([utf8(name) for name in part.names], pyarrow.string()),
        "content": pyarrow.array([content.hex() for content in part.contents], pyarrow.string()),
        "picture": pyarrow.array(part.pictures, pyarrow.uint64()),
        "embedding": pyarrow.FixedSizeListArray.from_arrays(flat, dim),
    }
    if isinstance(block, ParquetBlock) and block.label:
        columns["label"] = pyarrow.array(part.labels, pyarrow.string())
    skipped = [(utf8(name), reason) for name, reason in part.skipped]
    marks = {_KEY: block_key(block).encode(), _LEFT_OUT: json.dumps(skipped).encode()}
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(
        pyarrow.table(columns).replace_schema_metadata(marks),
        sink,
        compression={name: "none" if name == "embedding" else "zstd" for name in columns},
        use_dictionary=False,
        write_page_checksum=True,
    )
    return sink.getvalue().to_pybytes()
