"""Whether there is anything to label, and anything to label it by."""

import numpy as np

from remp.errors import DataError
from remp.labelling.tasks.task import UNLABELLED, LabellingTask


def checked(task: LabellingTask, source: str, how: str) -> LabellingTask:
    """The task without classes that have no example. source: what to call the input; how: where labels are given."""
    n_labelled = int(task.is_labelled.sum())
    if not task.names:
        raise DataError(f"{source} has nothing that can be read{_first_skipped(task)}")
    if not n_labelled:
        raise DataError(f"none of the {len(task.names)} items of {source} is labelled: {how}{_first_skipped(task)}")
    if n_labelled == len(task.names):
        raise DataError(f"all {n_labelled} items of {source} are labelled, so that nothing is left to label: {how}")
    return _with_examples_only(task)


def _with_examples_only(task: LabellingTask) -> LabellingTask:
    present = np.unique(task.labels[task.is_labelled])
    if len(present) == len(task.class_names):
        return task
    new_number = np.full(len(task.class_names), UNLABELLED)
    new_number[present] = np.arange(len(present))
    gone = [name for number, name in enumerate(task.class_names) if number not in present]
    return LabellingTask(
        names=task.names,
        labels=np.where(task.is_labelled, new_number[task.labels], UNLABELLED),
        class_names=tuple(task.class_names[number] for number in present),
        paths=task.paths,
        skipped=(*task.skipped, *((name, "a class without a readable example") for name in gone)),
    )


def _first_skipped(task: LabellingTask) -> str:
    if not task.skipped:
        return ""
    name, reason = task.skipped[0]
    return f" ({len(task.skipped)} were skipped; the first, {name!r}: {reason})"
