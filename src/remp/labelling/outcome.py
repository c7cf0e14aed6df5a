"""What came out of a labelling: the value that files and the report are written from."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from remp.checks import required
from remp.labelling.tasks import Items

if TYPE_CHECKING:
    from remp.labelling.embedding import Stage
    from remp.propagation.fit import Fitted

Status = Literal["given", "labelled", "uncertain", "unknown"]
STATUSES: tuple[Status, ...] = ("given", "labelled", "uncertain", "unknown")
FOLDERS = "folders"  # where labels came from, unless it was a file
_DECIMALS = 6


@dataclass(frozen=True)
class AccuracyEstimate:
    """The share of the unlabelled items whose `best` is right; the truth is in low … high in `level` of all tasks, and
    `low` reckons with a few strangers among the items. basis: in words, what it was computed from. is_checked: whether
    labels could be hidden to check it; if not, only the range means something."""

    accuracy: float
    low: float
    high: float
    level: float
    basis: str
    is_checked: bool = True


@dataclass(frozen=True)
class Finding:
    """Something the user should look at before trusting the labels.

    items: numbers of the items it is about. classes: names of the classes it is about: of a suspicious label the one it
    would be without, of duplicates those they carry. beside: numbers of examples to compare the items with.
    """

    kind: Literal[
        "unrecognised class",
        "suspicious label",
        "exact duplicates",
        "near duplicates",
        "single example",
        "similar classes",
    ]
    text: str
    items: tuple[int, ...] = ()
    classes: tuple[str, ...] = ()
    beside: tuple[int, ...] = ()


@dataclass(frozen=True)
class Advice:
    """An item that is worth labelling next, and why."""

    item: int
    reason: str


@dataclass(frozen=True)
class Labelling:
    """What `remp.label` returns. All arrays are over the n items; there are N classes.

    Attributes
    ----------
    task : Items
        The items: their `names`, given `labels`, `class_names`, `paths`, and what was `skipped`.
    labels : ndarray
        (n,) the answer: the given label, the predicted one, or -1 where the status is "uncertain" or "unknown".
    best, runner_up : ndarray
        (n,) the two likeliest classes, whatever the status (runner_up is -1 with one class). Where a label was given,
        that is the best, with probability and margin 1.
    probability, margin : ndarray
        (n,) calibrated, of `best`; and that minus the probability of the runner-up.
    status : ndarray
        (n,) 0 given, 1 labelled, 2 uncertain, 3 unknown.
    before : ndarray
        (n,) the likeliest class without rectification.
    confusion : ndarray
        (N, N) expected number of unlabelled items of class i that were labelled j, from the probabilities.
    expected_sizes : ndarray
        (N,) expected number of unlabelled items of each class.
    sample, sample_features : ndarray
        (m,) numbers of items whose features are kept for the map, and (m, d) those features.
    prototypes_before, prototypes : ndarray
        (N, d), in the space of `sample_features`.
    estimate : AccuracyEstimate or None
        How many of the labels are right: `accuracy`, `low`, `high`.
    no_estimate : str
        Why there is none, if there is none though items were labelled.
    findings : tuple of Finding
        What to look at before trusting the labels: suspicious labels, duplicates and so on.
    label_next : tuple of Advice
        Items worth labelling next, and why.
    rectified : float
        How much rectification counts against its usual weight, by the held-out labels; 0 if it was left out.
    reject : float or None
        The threshold that was asked for, if any.
    folder : Path or None
        Where the files are, if any were written.
    made_with : dict
        What the labels depend on besides the items: backbone, side, where labels came from, options.
    seconds, stages : dict
        What each part took; how many images each part of embedding has done, and how fast. What is in the cache is not
        done again.
    fitted : Fitted or None
        What was learned, to save it.

    Examples
    --------
    Two pictures with a label, two without:

    >>> import remp
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> colours = {"red/1": (250, 9, 9), "blue/1": (9, 9, 250), "2": (220, 30, 30), "3": (30, 30, 220)}
    >>> for name, colour in colours.items():
    ...     Path("colours", name).parent.mkdir(parents=True, exist_ok=True)
    ...     Image.new("RGB", (40, 40), colour).save(f"colours/{name}.png")
    >>> done = remp.label("colours", remp.LabelOptions(backbone="cifar-fs-convnet64-1shot"))
    >>> for record in done.records():
    ...     print(record["file"], record["label"], record["status"])
    2.png red labelled
    3.png blue labelled
    blue/1.png blue given
    red/1.png red given
    """

    task: Items
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
    no_estimate: str = ""
    rectified: float = 1.0
    reject: float | None = None
    folder: Path | None = None
    made_with: dict[str, Any] = field(default_factory=dict)
    fitted: "Fitted | None" = field(default=None, repr=False)
    stages: "dict[str, Stage]" = field(default_factory=dict)

    def __repr__(self) -> str:
        """In a line, as arrays of all items would fill a screen."""
        numbers = np.bincount(self.status, minlength=len(STATUSES))
        counts = [f"{number:,} {status}" for status, number in zip(STATUSES, numbers, strict=True) if number]
        classes = f"{len(self.task.class_names):,} class{'' if len(self.task.class_names) == 1 else 'es'}"
        right = f", right by estimate {self.estimate.accuracy:.1%}" if self.estimate else ""
        where = f", in {str(self.folder)!r}" if self.folder else ""
        return f"<Labelling of {len(self.task.names):,} items: {', '.join(counts)}, {classes}{right}{where}>"

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per item, in the order of the task: the columns of labels.csv."""
        return list(self.each_record())

    def each_record(self) -> Iterator[dict[str, Any]]:
        """The records, one after the other: millions of them need not be in memory at once."""
        name = self.task.class_name
        columns = (self.labels, self.probability, self.runner_up, self.margin, self.status, self.best)
        for item, label, probability, runner_up, margin, status, best in zip(self.task.names, *columns, strict=True):
            yield {
                "file": item,
                "label": "unknown" if STATUSES[status] == "unknown" else name(label),
                "probability": _number(probability),
                "runner-up": name(runner_up),
                "margin": _number(margin),
                "status": STATUSES[status],
                "likeliest": name(best),
            }

    def to_pandas(self) -> Any:
        """The records as a DataFrame, one row per item."""
        return required("pandas", "to_pandas").DataFrame(self.records())


def _number(value: float) -> float | None:
    return round(float(value), _DECIMALS) if np.isfinite(value) else None
