"""Pictures with metadata.csv, as the imagefolder builder of Hugging Face `datasets` reads them."""

import csv
from pathlib import Path

from remp.export.labelled import ExportOptions, LabelledPictures
from remp.labelling.output.class_folders import FreeNames, put


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
