"""A folder of pictures as a task: sub-folders are classes, the rest is to be labelled."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from remp.labelling.tasks.picture_tree import PictureTree, find_pictures
from remp.labelling.tasks.task import UNLABELLED, LabellingTask

TO_LABEL = ("unlabelled", "unlabeled", "unsorted")


def folder_task(folder: Path) -> LabellingTask:
    """Pictures in `cat/` and below it are examples of cat; loose ones and those in `unlabelled/` are to be labelled."""
    tree = find_pictures(folder)
    classes = [_class_of(name) for name in tree.names]
    skipped = (*tree.skipped, *_empty_classes(tree))
    return make_task(tree.names, classes, folder=folder, skipped=skipped)


def make_task(
    names: Sequence[str],
    classes: Sequence[str | None],
    *,
    folder: Path | None = None,
    skipped: Sequence[tuple[str, str]] = (),
) -> LabellingTask:
    """The task of items with the name of their class, or None; classes are numbered in the order of their names."""
    class_names = tuple(sorted({label for label in classes if label is not None}))
    number = {name: index for index, name in enumerate(class_names)}
    return LabellingTask(
        names=tuple(names),
        labels=np.array([UNLABELLED if label is None else number[label] for label in classes], dtype=np.int64),
        class_names=class_names,
        paths=tuple(folder / name for name in names) if folder else (),
        skipped=tuple(skipped),
    )


def _class_of(name: str) -> str | None:
    outermost, _, rest = name.partition("/")
    return outermost if rest and outermost.casefold() not in TO_LABEL else None


def _empty_classes(tree: PictureTree) -> list[tuple[str, str]]:
    """Folders that look like classes and hold no picture; one with anything that was skipped is named already."""
    filled = {name.partition("/")[0] for name in [*tree.names, *(name for name, _ in tree.skipped)]}
    named = [folder for folder in tree.folders if folder not in filled and folder.casefold() not in TO_LABEL]
    return [(folder, "a folder without pictures is no class") for folder in named]
