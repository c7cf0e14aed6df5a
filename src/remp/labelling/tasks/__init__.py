"""What is to be labelled, from a folder or from embeddings: items, some with a label, and whether that can be done."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from remp.errors import DataError

UNLABELLED = -1


@dataclass(frozen=True)
class Items:
    """The n items to be labelled, and the labels that some of them have: `Labelling.task`.

    Parameters
    ----------
    names : tuple of str
        (n,) what the user calls an item: a path below the folder, or the number of a row.
    labels : ndarray
        (n,) int64 index into `class_names`, or -1 for no label.
    class_names : tuple of str
        The classes.
    paths : tuple of Path
        (n,) the pictures, or () for embeddings.
    skipped : tuple
        (name, reason) of whatever could not be read; such items are not among `names`.

    Examples
    --------
    >>> import numpy as np
    >>> from remp import Items
    >>> items = Items(names=("1.jpg", "2.jpg"), labels=np.array([0, -1]), class_names=("cat",))
    >>> items.is_labelled.tolist(), items.class_name(0)
    ([True, False], 'cat')
    """

    names: tuple[str, ...]
    labels: np.ndarray
    class_names: tuple[str, ...]
    paths: tuple[Path, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()

    @property
    def is_labelled(self) -> np.ndarray:
        """(n,) bool: which items have a label."""
        return self.labels != UNLABELLED

    def class_name(self, number: int) -> str | None:
        """The name of a class, None for -1, which is no class."""
        return self.class_names[number] if number >= 0 else None

    def without(self, reasons: dict[int, str]) -> "Items":
        """The task without the items of these numbers, which go to `skipped` with their reason."""
        kept = [number for number in range(len(self.names)) if number not in reasons]
        return Items(
            names=tuple(self.names[number] for number in kept),
            labels=self.labels[kept],
            class_names=self.class_names,
            paths=tuple(self.paths[number] for number in kept) if self.paths else (),
            skipped=(*self.skipped, *((self.names[number], reason) for number, reason in sorted(reasons.items()))),
        )


def make_task(
    names: Sequence[str],
    classes: Sequence[str | None],
    *,
    folder: Path | None = None,
    skipped: Sequence[tuple[str, str]] = (),
) -> Items:
    """The task of items with the name of their class, or None; classes are numbered in the order of their names."""
    class_names = tuple(sorted({label for label in classes if label is not None}))
    number = {name: index for index, name in enumerate(class_names)}
    return Items(
        names=tuple(names),
        labels=np.array([UNLABELLED if label is None else number[label] for label in classes], dtype=np.int64),
        class_names=class_names,
        paths=tuple(folder / name for name in names) if folder else (),
        skipped=tuple(skipped),
    )


def unlabelled_task(
    names: Sequence[str],
    class_names: tuple[str, ...],
    paths: tuple[Path, ...] = (),
    skipped: tuple[tuple[str, str], ...] = (),
) -> Items:
    """The task of items without any label, and of classes that are known already."""
    return Items(tuple(names), np.full(len(names), UNLABELLED, np.int64), class_names, paths, skipped)


def checked(task: Items, source: str, how: str) -> Items:
    """The task without classes that have no example. source: what to call the input; how: where labels are given."""
    n_labelled = int(task.is_labelled.sum())
    check_not_empty(task, source)
    if not n_labelled:
        raise DataError(f"none of the {len(task.names)} items of {source} is labelled: {how}{_first_skipped(task)}")
    if n_labelled == len(task.names):
        raise DataError(f"all {n_labelled} items of {source} are labelled, so that nothing is left to label: {how}")
    present = np.unique(task.labels[task.is_labelled])
    if len(present) == len(task.class_names):
        return task
    new_number = np.full(len(task.class_names), UNLABELLED)
    new_number[present] = np.arange(len(present))
    gone = [name for number, name in enumerate(task.class_names) if number not in present]
    return replace(
        task,
        labels=np.where(task.is_labelled, new_number[task.labels], UNLABELLED),
        class_names=tuple(task.class_names[number] for number in present),
        skipped=(*task.skipped, *((name, "a class without a readable example") for name in gone)),
    )


def check_not_empty(task: Items, source: str) -> None:
    """Raise DataError, with the first reason, if nothing could be read."""
    if not task.names:
        raise DataError(
            f"{source} has nothing that can be read{_first_skipped(task)}: is it the folder or file you meant?"
        )


def _first_skipped(task: Items) -> str:
    if not task.skipped:
        return ""
    name, reason = task.skipped[0]
    n = len(task.skipped)
    return f" ({name!r} was skipped: {reason})" if n == 1 else f" ({n} were skipped; the first, {name!r}: {reason})"
