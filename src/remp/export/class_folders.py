"""A folder for each class."""

from pathlib import Path

from remp.export.labelled import ExportOptions, LabelledPictures
from remp.labelling.output.class_folders import FreeNames, distinct_names, put, safe_name


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
