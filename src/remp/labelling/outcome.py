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
    """The estimated share of the unlabelled items whose likeliest class is right, with an interval.

    Parameters
    ----------
    accuracy : float
        The estimate.
    low, high : float
        The interval. `low` allows for a few items that belong to none of the classes.
    level : float
        In what share of tasks the interval is meant to contain the truth.
    basis : str
        What it was computed from, in words.

    Examples
    --------
    >>> from remp import AccuracyEstimate
    >>> estimate = AccuracyEstimate(accuracy=0.93, low=0.88, high=0.96, level=0.9, basis="40 hidden labels")
    >>> f"{estimate.accuracy:.0%}, {estimate.low:.0%} to {estimate.high:.0%}"
    '93%, 88% to 96%'
    """

    accuracy: float
    low: float
    high: float
    level: float
    basis: str


@dataclass(frozen=True)
class Finding:
    """Something to look at before trusting the labels: one of `Labelling.findings`.

    Parameters
    ----------
    kind : str
        "hardly better than guessing", "unrecognised class", "suspicious label", "easy examples", "exact duplicates",
        "near duplicates", "single example" or "similar classes".
    text : str
        A sentence about it.
    items : tuple of int
        The numbers of the items it is about.
    classes : tuple of str
        The names of the classes it is about: for a suspicious label, the class that is predicted while the label is
        hidden; for duplicates, the classes that they are labelled as.
    beside : tuple of int
        The numbers of examples to compare the items with.

    Examples
    --------
    >>> from remp import Finding
    >>> Finding("single example", "cat has one example", classes=("cat",)).classes
    ('cat',)
    """

    kind: Literal[
        "hardly better than guessing",
        "unrecognised class",
        "suspicious label",
        "easy examples",
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
    """An item that is worth labelling next, and why: one of `Labelling.label_next`.

    Parameters
    ----------
    item : int
        The number of the item.
    reason : str
        Why, in words.

    Examples
    --------
    >>> from remp import Advice
    >>> Advice(3, "cat or dog?").item
    3
    """

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
        (N, N) expected number of unlabelled items of class i whose likeliest class is j, from the probabilities.
        Uncertain and unknown items count, too.
    expected_sizes : ndarray
        (N,) expected number of unlabelled items of each class, as if all were of one of them.
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
        How long each part took; how many images each step of the embedding processed, and how fast. What was in the
        cache is not counted.
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
        """One line, since arrays of all items would fill a screen."""
        numbers = np.bincount(self.status, minlength=len(STATUSES))
        counts = [f"{number:,} {status}" for status, number in zip(STATUSES, numbers, strict=True) if number]
        classes = f"{len(self.task.class_names):,} class{'' if len(self.task.class_names) == 1 else 'es'}"
        right = f", right by estimate {self.estimate.accuracy:.1%}" if self.estimate else ""
        where = f", in {str(self.folder)!r}" if self.folder else ""
        return f"<Labelling of {len(self.task.names):,} items: {', '.join(counts)}, {classes}{right}{where}>"

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per item, in the order of `task.names`: the lines of labels.csv.

        Returns
        -------
        list of dict
            With `file`, `label` (None if the status is "uncertain"), `probability`, `runner-up`, `margin`, `status`
            and `likeliest`. The class of this page has an example.
        """
        return list(self.each_record())

    def each_record(self) -> Iterator[dict[str, Any]]:
        """The records one after the other, so that millions of them need not be in memory at once.

        Yields
        ------
        dict
            As in `records`.
        """
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
        """The records as a table of pandas (`pip install pandas`).

        Returns
        -------
        DataFrame
            One row per item; the columns are the keys of `records`.

        Examples
        --------
        >>> import remp
        >>> remp.label("photos").to_pandas().query("status == 'uncertain'")  # doctest: +SKIP
        """
        return required("pandas", "to_pandas").DataFrame(self.records())


def _number(value: float) -> float | None:
    return round(float(value), _DECIMALS) if np.isfinite(value) else None
