"""Labels in the form that other tools read: pictures with labels, one writer per format, and the table of them."""

import csv
import json
import os
import re
import shlex
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from remp.errors import ConfigError, DataError
from remp.labelling.outcome import STATUSES, Labelling
from remp.labelling.output.class_folders import FreeNames, Way, class_folder_names, put, put_all
from remp.labelling.tasks.label_table import read_lines
from remp.untrusted import reason, shortened
from remp.version import __version__

IN_STUDIO = "remp studio"  # where the labels of results come from, unless from folders or from a file


@dataclass(frozen=True)
class ExportOptions:
    """How to export. way: copy the pictures, or link to them. validation: the share of each class that goes to val/.
    seed: of the draw of those pictures."""

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
    """What is exported: n pictures with their labels.

    folder: the folder of the pictures. names: (n,) their paths below it. labels: (n,), None where status is uncertain
    or unknown. probability: (n,) of the label. status: (n,) of STATUSES.
    """

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
    def labelled(self) -> dict[int, str]:
        """Number -> label of the pictures that have one."""
        return {number: label for number, label in enumerate(self.labels) if label is not None}


def of_labelling(labelling: Labelling, folder: Path) -> LabelledPictures:
    """What came out of a labelling of the pictures in a folder."""
    classes = [*labelling.task.class_names, None]  # -1 is no class
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
    pictures = find_pictures_of(results, pictures)
    items = _read_items(results / "labels.json")
    _check_table(results / "labels.csv", items, pictures)
    paths = tuple(pictures / item["file"] for item in items)
    missing = [path for path in paths if not os.path.isfile(path)]  # unlike Path.is_file, raises for no name
    if missing:
        raise DataError(
            f"{len(missing)} of {len(paths)} pictures are not there; the first: {shortened(str(missing[0]))}. If they "
            "are in another folder than the one that was labelled, give --pictures FOLDER"
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


def find_pictures_of(results: Path, given: Path | None) -> Path:
    """The folder of the pictures, which has to be there. given: where they are said to be."""
    pictures = given or pictures_of(results)
    if pictures.is_dir():
        return pictures
    made_with = said_with(results)
    if given is None and made_with and "backbone" not in made_with:
        raise DataError(f"{results} was made from embeddings, so there are no pictures to export: use its labels.csv")
    if not results.exists():
        raise DataError(f"there is no {str(results)!r}: give the folder that remp label or remp studio has written")
    raise DataError(f"the pictures of {results} are not in {str(pictures)!r}: give --pictures FOLDER")


def journal_of(results: Path) -> Path:
    """The journal of a studio, beside its folder of results."""
    return results.absolute().with_name(f"{results.absolute().name}.journal")


def later_journal(results: Path) -> Path | None:
    """The journal beside a folder of results, if it was written to after them."""
    journal = journal_of(results)
    try:
        is_later = journal.stat().st_mtime_ns > (results / "labels.json").stat().st_mtime_ns
    except OSError:  # one of them is not there
        return None
    return journal if is_later else None


def said_with(results: Path) -> dict[str, Any]:
    """What the labels in a folder of results were made with, as labels.json says; nothing where that is not there."""
    try:
        said = json.loads((results / "labels.json").read_text(encoding="utf-8"))["made_with"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def is_of_label(made_with: dict[str, Any]) -> bool:
    """Whether `remp label` wrote the results that say so of themselves, rather than the studio."""
    return "model" in made_with or made_with.get("labels", IN_STUDIO) != IN_STUDIO


def label_again(results: Path, pictures: Path) -> str:
    """The command that labels the pictures by the labels.csv of these results, as they were made."""
    made_with = said_with(results)
    command = ["remp", "label", str(pictures), "--labels", str(results / "labels.csv")]
    for name in ("backbone", "side", "reject"):
        if made_with.get(name) is not None:
            command += [f"--{name}", str(made_with[name])]
    return shlex.join([*command, *(["--no-unknown"] if made_with.get("unknown") is False else [])])


def _is_item(item: Any) -> bool:
    """Whether this has all that labels.json says of an item, each of its kind."""
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
                f"it, and export what that writes: {label_again(table.parent, pictures)}"
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


def write_classes(pictures: LabelledPictures, folder: Path, options: ExportOptions) -> None:
    """Pictures with a label, in `CLASS/…`."""
    fill_classes(pictures, pictures.labelled, folder, options)


def fill_classes(pictures: LabelledPictures, numbers: Iterable[int], folder: Path, options: ExportOptions) -> None:
    """Put these pictures into folders of their classes; a class without any gets its folder, too, so that every part of
    a split has the same classes."""
    places, labels = class_folder_names(pictures.class_names), pictures.labelled
    for place in places.values():
        (folder / place).mkdir(parents=True)
    put_all(((pictures.paths[number], places[labels[number]]) for number in numbers), folder, options.way)


def write_image_folder(pictures: LabelledPictures, folder: Path, options: ExportOptions) -> None:
    """`train/CLASS/…` and `val/CLASS/…`. Readers take every folder for a class, so nothing uncertain is inside."""
    train, validation = split(pictures, options)
    fill_classes(pictures, train, folder / "train", options)
    if validation:
        fill_classes(pictures, validation, folder / "val", options)


def split(pictures: LabelledPictures, options: ExportOptions) -> tuple[list[int], list[int]]:
    """Numbers for training and for validation: the same share of each class, one at least if it has two."""
    random, labels = np.random.default_rng(options.seed), pictures.labelled
    validation: list[int] = []
    members_of: dict[str, list[int]] = {name: [] for name in pictures.class_names}
    for number, label in labels.items():
        members_of[label].append(number)
    for members in members_of.values():
        n_held = min(round(options.validation * len(members)), len(members) - 1)  # one stays for training
        if options.validation and len(members) > 1:
            n_held = max(n_held, 1)
        validation += random.permutation(members)[:n_held].tolist()
    held = set(validation)
    return [number for number in labels if number not in held], sorted(validation)


def write_hugging_face(pictures: LabelledPictures, folder: Path, options: ExportOptions) -> None:
    """`images/…` and metadata.csv, in which the label is a column: names of folders mean nothing beside that file."""
    (folder / "images").mkdir()
    taken = FreeNames()
    with (folder / "metadata.csv").open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        table = csv.writer(file)
        table.writerow(["file_name", "label", "probability", "status"])
        for number in pictures.labelled:
            name = taken.new(pictures.paths[number].name)
            put(pictures.paths[number], folder / "images" / name, options.way)
            share = round(float(pictures.probability[number]), 6)
            table.writerow([f"images/{name}", pictures.labels[number], share, pictures.status[number]])


LOCAL = "/data/local-files/?d="


def write_label_studio(pictures: LabelledPictures, folder: Path, options: ExportOptions) -> None:
    """`tasks.json` to import, and `config.xml`, the labelling interface that fits. The pictures stay where they are:
    let LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT be the folder that their folder is in."""
    tasks = [_task(pictures, number) for number in range(len(pictures.names))]
    content = json.dumps(tasks, ensure_ascii=False, indent=1)
    (folder / "tasks.json").write_text(content, encoding="utf-8", errors="backslashreplace")
    (folder / "config.xml").write_bytes(_config(pictures.class_names))


def _task(pictures: LabelledPictures, number: int) -> dict[str, Any]:
    path = quote(f"{pictures.folder.absolute().name}/{pictures.names[number]}".encode("utf-8", "surrogateescape"))
    task: dict[str, Any] = {"data": {"image": f"{LOCAL}{path}"}}
    label = pictures.labels[number]
    if label is None:
        return task
    result = [{"from_name": "label", "to_name": "image", "type": "choices", "value": {"choices": [label]}}]
    if pictures.status[number] == "given":
        return {**task, "annotations": [{"result": result}]}
    score = round(float(pictures.probability[number]), 6)
    return {**task, "predictions": [{"model_version": f"remp {__version__}", "score": score, "result": result}]}


def _config(class_names: list[str]) -> bytes:
    view = ElementTree.Element("View")
    ElementTree.SubElement(view, "Image", name="image", value="$image")
    choices = ElementTree.SubElement(view, "Choices", name="label", toName="image", choice="single")
    for name in class_names:
        ElementTree.SubElement(choices, "Choice", value=name.encode("utf-8", "replace").decode())
    return ElementTree.tostring(view, encoding="utf-8")


def write_fiftyone(pictures: LabelledPictures, folder: Path, options: ExportOptions) -> None:
    """`data/…` and labels.json, where a label is found by its file's name without ending: no two may share that."""
    (folder / "data").mkdir()
    class_names, taken = pictures.class_names, FreeNames()
    places = {name: place for place, name in enumerate(class_names)}
    labels: dict[str, int] = {}
    for number, label in pictures.labelled.items():
        stem, suffix = os.path.splitext(pictures.paths[number].name)
        stem = taken.new(stem)
        put(pictures.paths[number], folder / "data" / f"{stem}{suffix}", options.way)
        labels[stem] = places[label]
    content = json.dumps({"classes": class_names, "labels": labels}, ensure_ascii=False, indent=1)
    (folder / "labels.json").write_text(content, encoding="utf-8", errors="backslashreplace")


Writer = Callable[[LabelledPictures, Path, ExportOptions], None]

FORMATS: dict[str, Writer] = {
    "folders": write_classes,
    "imagefolder": write_image_folder,
    "huggingface": write_hugging_face,
    "labelstudio": write_label_studio,
    "fiftyone": write_fiftyone,
}


# What is written by a session of the studio instead, which every result can be opened as.
WITH_SESSION = ("labels", "model")
# What holds pictures, copied or linked; and what divides them into two parts.
WITH_PICTURES, DIVIDED = ("folders", "imagefolder", "huggingface", "fiftyone"), ("imagefolder",)


def check_format(name: str) -> None:
    """Raise ConfigError for a format that is not there."""
    if name not in (*FORMATS, *WITH_SESSION):
        raise ConfigError(f"there is no format {name[:40]!r}: give one of {', '.join((*FORMATS, *WITH_SESSION))}")


def check_options(to: str, *, link: bool, validation: float | None, seed: int | None) -> None:
    """Raise ConfigError for a format that is not there, and for an option that means nothing in it."""
    check_format(to)
    if link and to not in WITH_PICTURES:
        raise ConfigError(f"--link is for {', '.join(WITH_PICTURES)}; {to} holds no pictures: leave it out")
    if to not in DIVIDED and (validation, seed) != (None, None):
        option = "--seed" if validation is None else "--validation"
        raise ConfigError(f"{option} is for {', '.join(DIVIDED)}; {to} is not divided: leave it out")
