"""FiftyOne's image classification data set: `data/` and `labels.json`."""

import json
import os
from pathlib import Path

from remp.export.labelled import ExportOptions, LabelledPictures
from remp.labelling.output.class_folders import FreeNames, put


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
