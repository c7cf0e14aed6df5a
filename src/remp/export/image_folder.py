"""`train/CLASS/…` and `val/CLASS/…`: what Ultralytics, torchvision, Hugging Face, FiftyOne and CVAT read."""

from pathlib import Path

import numpy as np

from remp.export.class_folders import fill_classes
from remp.export.labelled import ExportOptions, LabelledPictures


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
        n_held = round(options.validation * len(members))
        if options.validation and len(members) > 1:
            n_held = min(max(n_held, 1), len(members) - 1)
        validation += random.permutation(members)[:n_held].tolist()
    held = set(validation)
    return [number for number in pictures.labelled if number not in held], sorted(validation)
