"""A tree of pictures with a file of labels as a task: CSV, or JSON of Label Studio."""

import os
import unicodedata
from pathlib import Path

from remp.errors import DataError
from remp.labelling.tasks.folder import find_pictures
from remp.labelling.tasks.label_studio import read_label_studio
from remp.labelling.tasks.label_table import FILE_COLUMNS, LabelRow, check_encoding, keep_label, read_label_table
from remp.labelling.tasks.task import LabellingTask, make_task


def listed_task(folder: Path, labels: Path) -> LabellingTask:
    """All pictures below the folder; those with a label in the file are examples, whatever folder they lie in. Paths in
    the file are relative to the folder or to the file."""
    is_json = labels.suffix.casefold() == ".json"
    tree, rows = find_pictures(folder), read_label_studio(labels) if is_json else read_label_table(labels, FILE_COLUMNS)
    finder = _Finder(folder, labels, tree.names)
    given: dict[int, LabelRow] = {}
    skipped = [(name, reason) for name, reason in tree.skipped if not _is_same(folder / name, labels)]
    n_skipped = len(skipped)
    for row in rows:
        number = finder.find(row.key)
        if number is None:
            check_encoding(row.key, labels, row.line)  # names of files may have any bytes, but this is none
            skipped.append((row.key, f"listed in {labels.name}, but no picture in the folder"))
        elif row.label is not None:
            keep_label(given, number, row, labels)
    if rows and len(skipped) - n_skipped == len(rows):
        raise DataError(
            f"none of the {len(rows)} files in {labels} is a picture in {folder}; the first is {rows[0].key!r}. "
            "Paths are relative to the folder or to that file"
        )
    classes = [given[number].label if number in given else None for number in range(len(tree.names))]
    return make_task(tree.names, classes, folder=folder, skipped=skipped)


def _is_same(path: Path, labels: Path) -> bool:
    return os.path.realpath(path) == os.path.realpath(labels)


class _Finder:
    """Which picture a path in the file means."""

    def __init__(self, folder: Path, labels: Path, names: list[str]) -> None:
        self._folder, self._beside = os.path.abspath(folder), os.path.abspath(labels.parent)
        self._numbers = {name: number for number, name in enumerate(names)}
        self._composed = {_compose(name): number for number, name in enumerate(names)}

    def find(self, path: str) -> int | None:
        """The number of the picture, or None. As it stands goes first, then with "/" for "\\"."""
        for way in (path, path.replace("\\", "/")):
            for base in (self._folder, self._beside):
                name = os.path.relpath(os.path.join(base, way), self._folder).replace(os.sep, "/")
                number = self._numbers.get(name, self._composed.get(_compose(name)))
                if number is not None:
                    return number
        return None


def _compose(name: str) -> str:
    """One spelling of accents: some systems store them apart from their letters."""
    return unicodedata.normalize("NFC", name)
