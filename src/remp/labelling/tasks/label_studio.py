"""Reading the labels in an export of Label Studio (JSON)."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from remp.errors import DataError
from remp.labelling.tasks.label_table import LabelRow


def read_label_studio(path: Path) -> list[LabelRow]:
    """A row for each task: the file of its picture, and the choice of its last annotation that was not cancelled. The
    full export (JSON) and the short one (JSON-MIN) are both read."""
    try:
        tasks = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise DataError(f"the labels {str(path)!r} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is no JSON: {error}. Needed an export of Label Studio, or a CSV file") from error
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise DataError(f"{path} is no export of Label Studio: needed a list of tasks")
    rows = [LabelRow(number + 1, _file(task), _choice(task)) for number, task in enumerate(tasks)]
    if tasks and not any(row.key for row in rows):
        raise DataError(f"{path} is no export of Label Studio: no task has data with an image")
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
        for result in annotation.get("result") or []:
            choices = result.get("value", {}).get("choices") if isinstance(result, dict) else None
            if isinstance(choices, list) and choices and isinstance(choices[0], str):
                return choices[0].strip() or None
    return None
