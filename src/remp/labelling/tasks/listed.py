"""A tree of pictures with a file of labels as a task: CSV, or JSON of Label Studio."""

import json
import os
import unicodedata
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from remp.errors import DataError
from remp.labelling.tasks.folder import find_pictures
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
        """The number of the picture, or None. As it stands goes first, then with "/" for "\\", then without spaces
        around it."""
        for way in (path, path.replace("\\", "/"), path.replace("\\", "/").strip()):
            for base in (self._folder, self._beside):
                name = os.path.relpath(os.path.join(base, way), self._folder).replace(os.sep, "/")
                number = self._numbers.get(name, self._composed.get(_compose(name)))
                if number is not None:
                    return number
        return None


def _compose(name: str) -> str:
    """One spelling of accents: some systems store them apart from their letters."""
    return unicodedata.normalize("NFC", name)


def read_label_studio(path: Path) -> list[LabelRow]:
    """A row for each task: the file of its picture, and the choice of its last annotation that was not cancelled. The
    full export (JSON) and the short one (JSON-MIN) are both read."""
    try:
        tasks = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise DataError(f"the labels {str(path)!r} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON: {error}. Needed an export of Label Studio, or a CSV file") from error
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise DataError(f"{path} is not an export of Label Studio: needed a list of tasks")
    rows = [LabelRow(number + 1, _file(task), _choice(task)) for number, task in enumerate(tasks)]
    if tasks and not any(row.key for row in rows):
        raise DataError(f"{path} is not an export of Label Studio: no task has data with an image")
    return [row for row in rows if row.key]


def _file(task: dict[str, Any]) -> str:
    """The path of the picture. Of the folder that Label Studio serves files from, the first part is left out: it is the
    folder of the pictures."""
    data = task.get("data", task)
    image = data.get("image") if isinstance(data, dict) else None
    if not isinstance(image, str):
        return ""
    _, is_local, local = image.partition("/data/local-files/?d=")
    return unquote(local, errors="surrogateescape").partition("/")[2] if is_local else image


def _choice(task: dict[str, Any]) -> str | None:
    if isinstance(task.get("choice"), str):  # JSON-MIN, by the usual name
        return task["choice"].strip() or None
    if "annotations" not in task and isinstance(task.get("label"), str):  # JSON-MIN, by the name in our config.xml
        return task["label"].strip() or None
    annotations = task.get("annotations", [])
    for annotation in reversed(annotations if isinstance(annotations, list) else []):
        if not isinstance(annotation, dict) or annotation.get("was_cancelled"):
            continue
        results = annotation.get("result")
        for result in results if isinstance(results, list) else []:
            value = result.get("value") if isinstance(result, dict) else None
            choices = value.get("choices") if isinstance(value, dict) else None
            if isinstance(choices, list) and choices and isinstance(choices[0], str):
                return choices[0].strip() or None
    return None
