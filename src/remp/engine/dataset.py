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
from remp.rows.dataset import joined_files, part_names
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
class EmbeddingDataset:
    """The parts of a folder that could be read, and their rows. skipped: (name, reason) of the rest. about: what `remp
    embed` says of itself; nothing for rows of others."""

    folder: Place
    parts: list[PartFacts]
    rows: JoinedRows
    skipped: tuple[tuple[str, str], ...]
    about: dict[str, Any]

    def task(self, labels: Path | None) -> Items:
        """All rows with their labels. labels: a CSV file, by name or number of the rows. Without one, the column
        `label` has them; without that, for a dataset that `remp embed` made of a folder, the folder that a picture lies
        in."""
        if labels is not None:
            if not self._has_ids and any(name.endswith(".parquet") for name, _ in self.skipped):
                raise DataError(
                    f"{self.skipped[0][0]} cannot be read, so that the numbers of the rows in {labels} do not fit: "
                    "repair the part, or give the rows a column of names"
                )
            task = with_labels(self._names, labels, by_number=not self._has_ids)
            return replace(task, paths=self._paths, skipped=(*self.skipped, *task.skipped))
        if any(part.labels is not None for part in self.parts):
            given = [label for part in self.parts for label in part.labels or [None] * len(part.rows or ())]
        elif self.about.get("kind") == "folder":
            given = [class_of(name) for name in self._names]
        else:
            raise DataError(f"{self.folder} has no labels: give --labels FILE.csv with the columns name and label")
        return replace(make_task(self._names, given, skipped=self.skipped), paths=self._paths)

    def unlabelled_task(self, classes: tuple[str, ...]) -> Items:
        """All rows without a label, whatever the dataset says of labels."""
        return unlabelled_task(self._names, classes, self._paths, self.skipped)

    @property
    def hashes(self) -> dict[str, np.ndarray]:
        """(n,) of files and of pictures, as far as all parts have them."""
        found = {"content_hashes": [p.contents for p in self.parts], "picture_hashes": [p.pictures for p in self.parts]}
        return {
            name: np.concatenate([array for array in arrays if array is not None])
            for name, arrays in found.items()
            if all(array is not None for array in arrays)
        }

    @property
    def made_by(self) -> dict[str, Any]:
        """The backbone of `remp embed`, its side and its hash; nothing for rows of others."""
        names = {"backbone": "embedder", "side": "side", "embedder": "embedder_hash"}
        is_known = all(name in self.about for name in names.values())
        return {ours: self.about[theirs] for ours, theirs in names.items()} if is_known else {}

    @property
    def _has_ids(self) -> bool:
        return all(part.ids is not None for part in self.parts)

    @cached_property
    def _names(self) -> list[str]:
        if not self._has_ids:
            return [str(number) for number in range(len(self.rows))]
        return [name for part in self.parts for name in part.ids or ()]

    @cached_property
    def _paths(self) -> tuple[Path, ...]:
        """The pictures, if they are on this machine."""
        source = self.about.get("source", "")
        is_here = self.about.get("kind") == "folder" and "://" not in source and os.path.isdir(source)
        return tuple(Path(source, name) for name in self._names) if is_here else ()


def open_dataset(folder: Place, engine: Engine) -> EmbeddingDataset:
    """Look through all parts. Raises DataError where none can be read."""
    parts = [folder / name for name in part_names(folder)]
    facts = []
    with progress("reading the dataset", len(parts), unit="parts") as bar:
        for part, found in zip(parts, engine.in_order(look_through, parts), strict=True):
            if found.problem:
                bar.say(f"{part} is left out: {found.problem}")
            facts.append(found)
            bar.advance()
    left_out = [(part.name, found.problem) for part, found in zip(parts, facts, strict=True) if found.problem]
    kept = {part: found for part, found in zip(parts, facts, strict=True) if found.rows is not None and len(found.rows)}
    if not kept:
        raise DataError(f"{folder} has no part that can be read" + (f": {left_out[0][1]}" if left_out else ""))
    rows = joined_files(list(kept), [found.rows for found in kept.values() if found.rows is not None])
    skipped = (*left_out, *(one for found in facts for one in found.skipped))
    return EmbeddingDataset(folder, list(kept.values()), rows, skipped, EmbeddingParts(folder).about())
