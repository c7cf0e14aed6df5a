"""A Parquet dataset of embeddings as a task: each part is looked through once, and one that is damaged is left out."""

import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from remp.engine import Engine
from remp.engine.parts import EmbeddingParts, skipped_in
from remp.errors import DataError
from remp.labelling.tasks import Items, make_task, unlabelled_task
from remp.labelling.tasks.embeddings import column_values, read_parquet, with_labels
from remp.labelling.tasks.folder import class_of
from remp.rows import JoinedRows, Rows
from remp.rows.dataset import part_names
from remp.rows.parquet import open_parquet
from remp.system.files import Place
from remp.system.progress import progress
from remp.untrusted import border


@dataclass(frozen=True)
class PartFacts:
    """What a part holds besides its rows. ids, labels, contents, pictures: (n,), None where there is no such column.
    skipped: (name, reason) of what could not be embedded. problem: why the part is left out, or empty."""

    rows: Rows | None = None
    ids: list[str] | None = None
    labels: list[str | None] | None = None
    contents: np.ndarray | None = None
    pictures: np.ndarray | None = None
    skipped: list[tuple[str, str]] = field(default_factory=list)
    problem: str = ""


def look_through(part: Place) -> PartFacts:
    """Read all of a part once, with the check sums of its pages."""
    try:
        rows, ids, labels = read_parquet(part.address)
        for _ in rows.chunks():
            pass
        file = open_parquet(part.address)
        contents, pictures = _hashes(file, "content", str, part), _hashes(file, "picture", np.uint64, part)
        if any(values is not None and len(values) != len(rows) for values in (contents, pictures)):
            raise DataError(f"{part} has another number of hashes than of rows: it is damaged; embed again")
        return PartFacts(rows, ids, labels, contents, pictures, skipped_in(file.schema_arrow.metadata))
    except DataError as error:
        return PartFacts(problem=str(error))


def _hashes(file: Any, column: str, kind: type, part: Place) -> np.ndarray | None:
    """The column as an array (n,), None where there is no such column."""
    if column not in file.schema_arrow.names:
        return None
    values = column_values(file, column, part.address)
    with border(f"{part}: its hashes of files or pictures cannot be read", "it is damaged; embed again"):
        if kind is np.uint64 and any(value < 0 for value in values or ()):  # NumPy 1 would turn it into another number
            raise ValueError("a hash below 0")
        return np.array(values, dtype=kind)


@dataclass(frozen=True)
class Dataset:
    """The task of all parts that could be read, their rows, and hashes of files and pictures if all have them. made_by:
    the backbone of `remp embed`, its side and its hash; nothing for rows of others."""

    task: Items
    rows: JoinedRows
    hashes: dict[str, np.ndarray]
    made_by: dict[str, Any]


def open_dataset(folder: Place, labels: Path | None, engine: Engine) -> Dataset:
    """All rows with their labels. labels: a CSV file, by name or number of the rows. Without one, the column `label`
    has them; without that, for a dataset that `remp embed` made of a folder, the folder that a picture lies in."""
    found = _find(folder, engine)
    return found.dataset(_task(folder, labels, found))


def open_unlabelled(folder: Place, classes: tuple[str, ...], engine: Engine) -> Dataset:
    """All rows without a label, whatever the dataset says of labels."""
    found = _find(folder, engine)
    return found.dataset(unlabelled_task(found.names, classes, found.paths, found.skipped))


@dataclass(frozen=True)
class _Found:
    """The parts that could be read, their rows, (name, reason) of what was skipped, and what `remp embed` says."""

    kept: list[PartFacts]
    rows: JoinedRows
    skipped: tuple[tuple[str, str], ...]
    about: dict[str, Any]

    @property
    def has_ids(self) -> bool:
        return all(part.ids is not None for part in self.kept)

    @cached_property
    def names(self) -> list[str]:
        if not self.has_ids:
            return [str(number) for number in range(len(self.rows))]
        return [name for part in self.kept for name in part.ids or ()]

    @property
    def pictures(self) -> Path | None:
        """The folder of the pictures, if that is on this machine."""
        source = self.about.get("source", "")
        is_here = self.about.get("kind") == "folder" and "://" not in source and os.path.isdir(source)
        return Path(source) if is_here else None

    @property
    def paths(self) -> tuple[Path, ...]:
        folder = self.pictures
        return tuple(folder / name for name in self.names) if folder else ()

    def dataset(self, task: Items) -> Dataset:
        hashes = {"content_hashes": [f.contents for f in self.kept], "picture_hashes": [f.pictures for f in self.kept]}
        known = {
            name: np.concatenate([array for array in arrays if array is not None])
            for name, arrays in hashes.items()
            if all(array is not None for array in arrays)
        }
        return Dataset(task, self.rows, known, _made_by(self.about))


def _find(folder: Place, engine: Engine) -> _Found:
    parts = [folder / name for name in part_names(folder)]
    facts = []
    with progress("reading the dataset", len(parts), unit="parts") as bar:
        for part, found in zip(parts, engine.in_order(look_through, parts), strict=True):
            if found.problem:
                bar.say(f"{part} is left out: {found.problem}")
            facts.append(found)
            bar.advance()
    kept = [found for found in facts if found.rows is not None and len(found.rows)]
    left_out = [(part.name, found.problem) for part, found in zip(parts, facts, strict=True) if found.problem]
    if not kept:
        raise DataError(f"{folder} has no part that can be read" + (f": {left_out[0][1]}" if left_out else ""))
    rows = JoinedRows(*(found.rows for found in kept if found.rows is not None))
    skipped = (*left_out, *(one for found in facts for one in found.skipped))
    return _Found(kept, rows, skipped, EmbeddingParts(folder).about())


def _made_by(about: dict[str, Any]) -> dict[str, Any]:
    names = {"backbone": "embedder", "side": "side", "embedder": "embedder_hash"}
    return {ours: about[theirs] for ours, theirs in names.items()} if all(n in about for n in names.values()) else {}


def _task(folder: Place, labels: Path | None, found: _Found) -> Items:
    names, skipped = found.names, found.skipped
    if labels is not None:
        if not found.has_ids and any(name.endswith(".parquet") for name, _ in skipped):
            raise DataError(
                f"{skipped[0][0]} cannot be read, so that the numbers of the rows in {labels} do not fit: repair the "
                "part, or give the rows a column of names"
            )
        task = with_labels(names, labels, by_number=not found.has_ids)
        return replace(task, paths=found.paths, skipped=(*skipped, *task.skipped))
    if any(part.labels is not None for part in found.kept):
        given = [label for part in found.kept for label in part.labels or [None] * len(part.rows or ())]
        return make_task(names, given, folder=found.pictures, skipped=skipped)
    if found.about.get("kind") == "folder":
        return make_task(names, [class_of(name) for name in names], folder=found.pictures, skipped=skipped)
    raise DataError(f"{folder} has no labels: give --labels FILE.csv with the columns name and label")
