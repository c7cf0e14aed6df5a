"""What came out of a labelling: the value that files and the report are written from."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from remp.labelling.tasks.task import LabellingTask

Status = Literal["given", "labelled", "uncertain", "unknown"]
STATUSES: tuple[Status, ...] = ("given", "labelled", "uncertain", "unknown")


@dataclass(frozen=True)
class AccuracyEstimate:
    """The share of the unlabelled items whose `best` is right, if each is of one of the classes; the truth is in
    low … high in `level` of all tasks. basis: in words, what it was computed from."""

    accuracy: float
    low: float
    high: float
    level: float
    basis: str


@dataclass(frozen=True)
class Finding:
    """Something the user should look at before trusting the labels.

    items: numbers of the items it is about. classes: names of the classes it is about: of a suspicious label the one it
    would be without, of duplicates those they carry.
    """

    kind: Literal["suspicious label", "exact duplicates", "near duplicates", "single example", "similar classes"]
    text: str
    items: tuple[int, ...] = ()
    classes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Advice:
    """An item that is worth labelling next, and why."""

    item: int
    reason: str


@dataclass(frozen=True)
class Labelling:
    """All arrays are over the n items of the task, classes are numbered as in `task.class_names` (N of them).

    labels: (n,) the answer: the given label, the predicted one, or -1 where status is "uncertain" or "unknown".
    best, runner_up: (n,) the two likeliest classes, whatever the status (runner_up is -1 with one class). Where a label
    was given, that is the best, with probability and margin 1.
    probability: (n,) calibrated, of `best`; margin: (n,) that minus the probability of the runner-up.
    status: (n,) index into STATUSES. before: (n,) the likeliest class without rectification.
    confusion: (N, N) expected number of unlabelled items of class i that were labelled j, from the probabilities.
    expected_sizes: (N,) expected number of unlabelled items of each class.
    sample: (m,) numbers of items whose features are kept for the map, and sample_features: (m, d) those features.
    prototypes_before, prototypes: (N, d), in the space of sample_features.
    """

    task: LabellingTask
    labels: np.ndarray
    best: np.ndarray
    runner_up: np.ndarray
    probability: np.ndarray
    margin: np.ndarray
    status: np.ndarray
    before: np.ndarray
    confusion: np.ndarray
    expected_sizes: np.ndarray
    sample: np.ndarray
    sample_features: np.ndarray
    prototypes_before: np.ndarray
    prototypes: np.ndarray
    estimate: AccuracyEstimate | None
    findings: tuple[Finding, ...]
    label_next: tuple[Advice, ...]
    seconds: dict[str, float]
