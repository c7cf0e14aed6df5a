"""Labels in the form that other tools read: one writer per format, and the table of them."""

import csv
import json
import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from remp.errors import ConfigError
from remp.export.labelled import ExportOptions, LabelledPictures
from remp.labelling.output.class_folders import FreeNames, distinct_names, put, safe_name
from remp.version import __version__


def write_classes(pictures: LabelledPictures, folder: Path, options: ExportOptions) -> None:
    """`CLASS/…`, and nothing that has no label."""
    fill_classes(pictures, pictures.labelled, folder, options)


def fill_classes(pictures: LabelledPictures, numbers: list[int], folder: Path, options: ExportOptions) -> None:
    """Put these pictures into folders of their classes; a class without any gets its folder, too, so that every part of
    a split has the same classes."""
    class_names = pictures.class_names
    places = dict(zip(class_names, distinct_names([safe_name(name) for name in class_names]), strict=True))
    taken = {name: FreeNames() for name in class_names}
    for place in places.values():
        (folder / place).mkdir(parents=True)
    for number in numbers:
        label, path = pictures.labels[number], pictures.paths[number]
        assert label is not None
        put(path, folder / places[label] / taken[label].new(path.name), options.way)


def write_image_folder(pictures: LabelledPictures, folder: Path, options: ExportOptions) -> None:
    """Every folder in train/ and val/ is a class for those who read it, so nothing uncertain is inside."""
    train, validation = split(pictures, options)
    fill_classes(pictures, train, folder / "train", options)
    if validation:
        fill_classes(pictures, validation, folder / "val", options)


def split(pictures: LabelledPictures, options: ExportOptions) -> tuple[list[int], list[int]]:
    """Numbers for training and for validation: the same share of each class, one at least if it has two."""
    random = np.random.default_rng(options.seed)
    validation: list[int] = []
    for name in pictures.class_names:
        members = [number for number in pictures.labelled if pictures.labels[number] == name]
        n_held = min(round(options.validation * len(members)), len(members) - 1)  # a class without training is none
        if options.validation and len(members) > 1:
            n_held = max(n_held, 1)
        validation += random.permutation(members)[:n_held].tolist()
    held = set(validation)
    return [number for number in pictures.labelled if number not in held], sorted(validation)


def write_hugging_face(pictures: LabelledPictures, folder: Path, options: ExportOptions) -> None:
    """With metadata.csv, names of folders mean nothing there: the label is a column."""
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
    """Labels are by the name of a file without its ending, so that no two may share that."""
    (folder / "data").mkdir()
    class_names, taken = pictures.class_names, FreeNames()
    labels: dict[str, int] = {}
    for number in pictures.labelled:
        stem, suffix = os.path.splitext(pictures.paths[number].name)
        stem = taken.new(stem)
        put(pictures.paths[number], folder / "data" / f"{stem}{suffix}", options.way)
        label = pictures.labels[number]
        assert label is not None
        labels[stem] = class_names.index(label)
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


def find_format(name: str) -> Writer:
    """The writer of a format; raises ConfigError for one that is not there."""
    if name not in FORMATS:
        raise ConfigError(f"there is no format {str(name)[:40]!r}: give one of {', '.join((*FORMATS, *WITH_SESSION))}")
    return FORMATS[name]
