"""Pictures with their labels: what is exported."""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from remp.errors import ConfigError, DataError
from remp.labelling.outcome import STATUSES, Labelling
from remp.labelling.output.class_folders import Way
from remp.labelling.tasks.label_table import read_lines
from remp.strangers import reason, shortened


@dataclass(frozen=True)
class ExportOptions:
    """way: copy the pictures, or link to them. validation: the share of each class that goes to val/. seed: of the
    draw which."""

    way: Way = "copy"
    validation: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.validation < 1:
            raise ConfigError(
                f"validation is {self.validation}; needed a share of the pictures: 0 or more, less than 1"
            )


@dataclass(frozen=True)
class LabelledPictures:
    """folder: that all names are below. names, paths, labels, status: (n,); a label is None where status is uncertain
    or unknown. probability: (n,) of the label."""

    folder: Path
    names: tuple[str, ...]
    paths: tuple[Path, ...]
    labels: tuple[str | None, ...]
    probability: np.ndarray
    status: tuple[str, ...]

    @property
    def class_names(self) -> list[str]:
        return sorted({label for label in self.labels if label is not None})

    @property
    def labelled(self) -> list[int]:
        """Numbers of the pictures that have a label."""
        return [number for number, label in enumerate(self.labels) if label is not None]


def of_labelling(labelling: Labelling, folder: Path) -> LabelledPictures:
    """What came out of a labelling of the pictures in a folder."""
    classes = [*labelling.task.class_names, None]  # None at -1
    return LabelledPictures(
        folder,
        labelling.task.names,
        labelling.task.paths,
        tuple(classes[number] for number in labelling.labels),
        labelling.probability,
        tuple(STATUSES[number] for number in labelling.status),
    )


def read_results(results: Path, pictures: Path | None = None) -> LabelledPictures:
    """What `remp label` or the studio wrote to a folder. pictures: the folder that was labelled, by default the one
    beside the results without -labelled in its name."""
    pictures = pictures or pictures_of(results)
    if not pictures.is_dir():
        raise DataError(f"the pictures of {results} are not in {str(pictures)!r}: give --pictures FOLDER")
    items = _read_items(results / "labels.json")
    _check_table(results / "labels.csv", items, pictures)
    paths = tuple(pictures / item["file"] for item in items)
    missing = [path for path in paths if not os.path.isfile(path)]  # which no name makes raise
    if missing:
        raise DataError(
            f"{len(missing)} of {len(paths)} pictures are not there (any more); the first: {shortened(str(missing[0]))}"
        )
    has_label = [item["status"] in ("given", "labelled") for item in items]
    return LabelledPictures(
        pictures,
        tuple(item["file"] for item in items),
        paths,
        tuple(item["label"] if has else None for item, has in zip(items, has_label, strict=True)),
        np.array([item["probability"] or 0.0 for item in items], np.float32),
        tuple(item["status"] for item in items),
    )


def pictures_of(results: Path) -> Path:
    """The folder that results lie beside, by their name."""
    return results.absolute().with_name(re.sub(r"-labelled(-\d+)?$", "", results.absolute().name))


def said_with(results: Path) -> dict[str, Any]:
    """What the labels in a folder of results were made with, as labels.json says; nothing where that is not there."""
    try:
        said = json.loads((results / "labels.json").read_text(encoding="utf-8"))["made_with"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _is_item(item: Any) -> bool:
    """Whether it says what `remp label` says of an item."""
    if not isinstance(item, dict) or not {"file", "label", "probability", "status"} <= item.keys():
        return False
    probability = item["probability"]
    return (
        isinstance(item["file"], str)
        and isinstance(item["label"], str | None)
        and item["status"] in STATUSES
        and (probability is None or (type(probability) in (int, float) and 0 <= probability <= 1))
    )


def _check_table(table: Path, items: list[dict[str, Any]], pictures: Path) -> None:
    """Raise DataError if labels.csv was corrected since: labels.json does not know, nor do the other labels."""
    if not table.is_file():
        return
    (_, header), *lines = read_lines(table) or [(1, [])]
    if not {"file", "label", "status"} <= set(header):
        return
    places = [header.index(name) for name in ("file", "label", "status")]
    said = {cells[places[0]]: [cells[place] for place in places[1:]] for _, cells in lines if len(cells) > max(places)}
    for item in items:
        written = [item["label"] or "", item["status"]]
        if said.get(item["file"], written) != written:
            raise DataError(
                f"{table} was changed since it was written; the first is {shortened(item['file'])!r}. Label again by "
                f"it, and export what that writes: remp label {quote(str(pictures))} --labels {quote(str(table))}"
            )


def _read_items(file: Path) -> list[dict[str, Any]]:
    try:
        items = json.loads(file.read_text(encoding="utf-8"))["items"]
    except FileNotFoundError as error:
        raise DataError(
            f"{file.parent} has no labels.json: give a folder that remp label, or Export in remp studio, wrote"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{file} cannot be read as a result of remp: {reason(error)}") from error
    if not isinstance(items, list) or not all(_is_item(item) for item in items):
        raise DataError(
            f"{file} is not a result of remp: needed items with file, label, probability and status; label again"
        )
    inside = [item for item in items if not Path(item["file"]).is_absolute() and ".." not in Path(item["file"]).parts]
    if len(inside) < len(items):
        raise DataError(f"{file} names files outside of the folder of pictures")
    return items
