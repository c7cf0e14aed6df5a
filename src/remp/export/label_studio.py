"""Tasks for Label Studio: given labels as annotations, the others as predictions with their score."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any
from urllib.parse import quote

from remp.export.labelled import ExportOptions, LabelledPictures
from remp.version import __version__

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
