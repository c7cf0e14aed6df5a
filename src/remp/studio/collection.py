"""Where the studio meets the rest of remp: pictures, their embeddings, and what is predicted of them."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from remp.backbones.embedding import Embedder
from remp.errors import DataError
from remp.labelling.decision import choose
from remp.labelling.embedding import EmbeddingRun
from remp.labelling.outcome import STATUSES, Finding, Labelling
from remp.labelling.pipeline import LabelOptions, label_rows
from remp.labelling.quality.duplicates import Duplicates, duplicate_findings, equal_groups, find_duplicates, near_groups
from remp.labelling.tasks import Items
from remp.labelling.tasks.folder import folder_task, listed_task
from remp.propagation import sample_of
from remp.propagation.adaptive import Adapted, Adaptive, adapt, without_root_of_signed
from remp.propagation.fit import fit_rows
from remp.propagation.held_out import learn
from remp.propagation.label_counts import about_equal
from remp.propagation.surroundings import Surroundings
from remp.rectification.propagate import Propagated
from remp.rectification.transform import FeatureTransform, fit_transform
from remp.rows import ArrayRows, Shard
from remp.studio.state import UNKNOWN, StudioClass
from remp.system.files import home
from remp.system.progress import progress

_PORTION, _PORTIONS = 256, 100  # pictures are embedded in at most 100 portions of at least 256
_SOON = 1500  # unlabelled pictures that the first answer to an action is learned from, at most
_MOST_TWINS = 40  # pictures that look alike in one finding
# Features are kept rooted, unless they are signed, and of unit length; the rest of the transform depends on the labels.
_PARTS, _SETTINGS = FeatureTransform.parse("power+l2"), Adaptive(transform="l2+centre")
_OPTIONS = LabelOptions(n_next=0, propagation=_SETTINGS)


def open_collection(folder: Path, labels: Path | None = None) -> Items:
    """The pictures below a folder with the labels that there are, if any. The folder is only read."""
    task = listed_task(folder, labels) if labels else folder_task(folder)
    if not task.names:
        first = next((f" (the first that was skipped, {name!r}: {reason})" for name, reason in task.skipped), "")
        raise DataError(f"{folder} has no picture that can be read{first}")
    return task


@dataclass(frozen=True)
class Features:
    """What is embedded so far. items: (m,) numbers, ascending. values: (m, dim), of unit length. content_hashes,
    picture_hashes: (m,), to find duplicates by. is_rooted: whether the root of the values was taken; that of features
    which are negative as often as positive is not."""

    items: np.ndarray
    values: np.ndarray
    content_hashes: np.ndarray
    picture_hashes: np.ndarray
    is_rooted: bool

    @cached_property
    def duplicates(self) -> Duplicates:
        """Rows that are the same file or look the same: labels do not change that."""
        groups = [*equal_groups(self.content_hashes), *near_groups(self.picture_hashes)]
        twins = np.unique(np.concatenate([np.empty(0, np.int64), *groups]))  # few: only these are compared again
        found = find_duplicates(
            len(twins),
            self.content_hashes[twins],
            self.picture_hashes[twins],
            lambda rows: torch.from_numpy(self.values[twins[rows]]),
        )
        # Drawings on white are linked to each other one by one until all are; that many are no duplicates.
        near = [twins[group] for group in found.near if len(group) <= _MOST_TWINS]
        return Duplicates([twins[group] for group in found.exact], near)


class Embedding:
    """Embeds a collection, what is in the cache first.

    n_done: how many are. reasons: number -> why it cannot be read. problem: what ended it, or empty.
    """

    def __init__(self, task: Items, embedder: Embedder) -> None:
        self.total, self.n_done, self.problem, self.is_done = len(task.names), 0, "", False
        self.reasons: dict[int, str] = {}
        self.embedder = embedder
        self._task, self._stop = task, threading.Event()

    def run(self, tell: Callable[[Features | None], None]) -> None:
        """Embed everything. tell: called with None on progress, with features when there are twice as many or all."""
        try:
            self._run(tell)
        except Exception as error:  # shown on the page: without features there is still a grid to label by hand
            self.problem = str(error) or type(error).__name__
            tell(None)

    def stop(self) -> None:
        self._stop.set()

    def _run(self, tell: Callable[[Features | None], None]) -> None:
        run = EmbeddingRun(self._task.paths, self.embedder, home() / "embeddings")
        try:
            run.take_cached()
            told = 0
            with progress("embedding", self.total, unit="pictures", done=int(run.is_done.sum())) as bar:
                left, n_portion = run.left(), max(_PORTION, self.total // _PORTIONS)
                while not self._stop.is_set() and left:
                    if int(run.is_done.sum()) >= max(2 * told, _PORTION):
                        told = int(run.is_done.sum())
                        tell(_features(run, in_place=False))
                    portion, left = left[:n_portion], left[n_portion:]
                    run.embed(portion)
                    bar.advance(len(portion))
                    if not left:  # fills in what has the content of another; once, as it looks at all
                        run.take_cached()
                        left = run.left()
                    self.n_done, self.reasons = int(run.is_done.sum()), dict(run.reasons)
                    tell(None)
        finally:
            run.close()
        self.n_done, self.reasons, self.is_done = int(run.is_done.sum()), dict(run.reasons), not run.left()
        if self.is_done and not self.n_done:
            raise DataError(f"no picture can be read; the first, {self._task.names[0]!r}: {self.reasons[0]}")
        if self.n_done and not self._stop.is_set():
            tell(_features(run, in_place=True))


def _features(run: EmbeddingRun, *, in_place: bool) -> Features:
    """What a run has embedded. in_place: its values may be changed, so that there is one copy of them in memory."""
    items = np.flatnonzero(run.is_done)
    values = run.values if in_place and len(items) == len(run.values) else run.values[items]
    parts = without_root_of_signed(_PARTS, ArrayRows(values))
    transform, _ = fit_transform(ArrayRows(values), parts, Shard())
    start = 0
    for chunk in ArrayRows(values).chunks():
        values[start : start + len(chunk)] = transform(chunk).numpy()
        start += len(chunk)
    contents = np.array([run.contents[number].hex() for number in items], dtype=str)
    return Features(items, values, contents, run.pictures[items], parts.power)


@dataclass(frozen=True)
class Labels:
    """What a prediction starts from: the labels (n,) of all items as in StudioState, and its classes."""

    labels: np.ndarray
    classes: Mapping[int, StudioClass]

    def predict_the_same_as(self, other: "Labels") -> bool:
        """Whether they differ in nothing but colours."""
        names, others = ({number: one.name for number, one in each.classes.items()} for each in (self, other))
        return names == others and np.array_equal(self.labels, other.labels)

    def task(self, task: Items, features: Features) -> tuple[Items, np.ndarray]:
        """The task of `remp label` on the embedded items, its classes in the order of their names as there; and the
        number of each of its classes here (N,)."""
        labels = self.labels[features.items]
        present = np.unique(labels[labels >= 0]).tolist()
        numbers = np.array(sorted(present, key=lambda number: self.classes[number].name), np.int64)
        codes = np.full(max([*self.classes, 0]) + 1, -1)
        codes[numbers] = np.arange(len(numbers))
        is_all = len(features.items) == len(task.names)
        made = Items(
            names=task.names if is_all else tuple(task.names[item] for item in features.items),
            labels=np.where(labels >= 0, codes[np.maximum(labels, 0)], -1).astype(np.int64),
            class_names=tuple(self.classes[number].name for number in numbers),
            paths=task.paths if is_all else tuple(task.paths[item] for item in features.items),
            skipped=task.skipped,
        )
        return made, numbers


@dataclass(frozen=True)
class Prediction:
    """What is predicted of all n items.

    best, runner_up: (n,) numbers of classes, -1 for what is not embedded. probability, margin: (n,), 0 for that.
    status: (n,) index into STATUSES. labelling: of the embedded items, as `remp label` makes it. class_numbers: (N,) of
    its classes in the studio. surroundings: what the rule looked at around the labels, for the next `predict_soon`.
    """

    best: np.ndarray
    runner_up: np.ndarray
    probability: np.ndarray
    margin: np.ndarray
    status: np.ndarray
    labelling: Labelling
    class_numbers: np.ndarray
    surroundings: Surroundings | None = None


Model = Adapted | Propagated


class Overtaken(Exception):
    """A prediction that nobody waits for any more: there are other labels by now."""


class _WantedRows(ArrayRows):
    """Rows that raise Overtaken when they are read after nobody waits for the prediction any more."""

    def __init__(self, values: np.ndarray, is_wanted: Callable[[], bool]) -> None:
        super().__init__(values)
        self._is_wanted = is_wanted

    def chunks(self, start: int = 0, stop: int | None = None) -> Iterator[Tensor]:
        for chunk in super().chunks(start, stop):
            self._check()
            yield chunk

    def take(self, numbers: Sequence[int] | np.ndarray) -> Tensor:
        self._check()
        return super().take(numbers)

    def _check(self) -> None:
        if not self._is_wanted():
            raise Overtaken


def predict(
    task: Items,
    features: Features,
    given: Labels,
    model: Model | None = None,
    is_wanted: Callable[[], bool] = lambda: True,
) -> Prediction:
    """What `remp label` says of the same labels, by the same functions; what to label next is `next_items`.

    model: what was learned of the same labels before, by `predict_soon`. is_wanted: asked on the way; Overtaken is
    raised when it says no.
    """
    made, numbers = given.task(task, features)
    rows = _WantedRows(features.values, is_wanted)
    model = model or learn(rows, made.labels, len(numbers), _SETTINGS)
    fitted = fit_rows(rows, made.labels, len(numbers), _SETTINGS, model=model)
    labelling = label_rows(made, rows, _OPTIONS, fitted=fitted)
    assert labelling is not None  # None is for the other processes of several
    marked = given.labels[features.items] == UNKNOWN
    status = np.where(marked, STATUSES.index("unknown"), labelling.status).astype(labelling.status.dtype)
    labelling = replace(labelling, status=status, labels=np.where(marked, -1, labelling.labels))
    return _of_all(len(task.names), features, numbers, labelling, _surroundings(model))


def predict_soon(
    task: Items, features: Features, given: Labels, last: Prediction
) -> tuple[Prediction, Model | None] | None:
    """The classes by the same rule, before labels are hidden to see how sure they are: probabilities and what resembles
    no class are by what the last prediction learned of that. None if the last one had other classes or items.

    The rule looks at a sample of the unlabelled items, if they are many, and at the same surroundings as the last time,
    and answers for all: the classes are nearly those of `predict`, which follows. If they are few, they are those of
    `predict`, unless the hidden labels then ask for other evidence or other shares of the classes; and what was learned
    is returned, too, for `predict`.
    """
    made, numbers = given.task(task, features)
    before = last.labelling
    fitted = before.fitted
    if fitted is None or made.class_names != before.task.class_names or len(made.names) != len(before.task.names):
        return None
    rows, labels = ArrayRows(features.values), made.labels
    unlabelled = np.flatnonzero(labels < 0)
    is_whole, local = len(unlabelled) <= _SOON, None
    shifts = fitted.model.shifts if isinstance(fitted.model, Adapted) else None
    if not is_whole:
        local = last.surroundings.evidence(labels, len(numbers)) if last.surroundings else None
        few = np.sort(np.concatenate([np.flatnonzero(labels >= 0), sample_of(unlabelled, _SOON)]))
        rows, labels = ArrayRows(features.values[few]), labels[few]
    model = shown = adapt(rows, labels, len(numbers), _SETTINGS, local=local, shifts=shifts)
    if isinstance(fitted.model, Adapted):
        shown = replace(model, evidence=fitted.model.evidence, surroundings=None)
    chosen = choose(replace(fitted, model=shown), ArrayRows(features.values), made.labels)
    status = np.where(before.status == STATUSES.index("given"), STATUSES.index("labelled"), before.status)
    status[made.is_labelled] = STATUSES.index("given")
    status[given.labels[features.items] == UNKNOWN] = STATUSES.index("unknown")
    soon = replace(before, status=status.astype(before.status.dtype), **chosen)  # type: ignore[arg-type]
    around = _surroundings(model) if is_whole else last.surroundings
    return _of_all(len(task.names), features, numbers, soon, around), model if is_whole and about_equal(
        labels, len(numbers)
    ) else None


def _surroundings(model: Model) -> Surroundings | None:
    return model.surroundings if isinstance(model, Adapted) else None


def _of_all(
    n: int, features: Features, numbers: np.ndarray, labelling: Labelling, surroundings: Surroundings | None
) -> Prediction:
    """A labelling of the embedded items as a prediction of all n. numbers: (N,) of its classes in the studio."""
    named = np.append(numbers, -1)  # -1 stays -1
    return Prediction(
        best=_spread(named[labelling.best], features.items, n, -1),
        runner_up=_spread(named[labelling.runner_up], features.items, n, -1),
        probability=_spread(labelling.probability, features.items, n, 0),
        margin=_spread(labelling.margin, features.items, n, 0),
        status=_spread(labelling.status, features.items, n, STATUSES.index("uncertain")),
        labelling=labelling,
        class_numbers=numbers,
        surroundings=surroundings,
    )


def find_all(prediction: Prediction, features: Features) -> list[Finding]:
    """The findings of `remp label`, duplicates too, by numbers of the collection."""
    labelling = prediction.labelling
    of_rows = [*labelling.findings, *duplicate_findings(labelling.task, features.duplicates, most=None)]
    return [replace(one, items=tuple(int(features.items[item]) for item in one.items)) for one in of_rows]


def _spread(values: np.ndarray, items: np.ndarray, n: int, empty: int) -> np.ndarray:
    """Values (m,) of some items at their place among all n."""
    everything = np.full(n, empty, values.dtype)
    everything[items] = values
    return everything
