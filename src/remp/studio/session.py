"""A collection while it is being labelled: actions in, predictions out, everything kept in the journal."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from remp.backbones.embedding import Embedder
from remp.errors import ConfigError, DataError
from remp.labelling.outcome import Advice, Finding
from remp.labelling.tasks import Items
from remp.studio.checked_estimate import Check, Judged, checks_of, judge
from remp.studio.collection import Embedding, Features, Labels, Overtaken, Prediction, find_all, predict, predict_soon
from remp.studio.journal import Action, Journal, apply, as_needed, named_items, with_names, with_numbers
from remp.studio.plane import FEW, Cartographer, lay_out, main_directions, quick_plane
from remp.studio.proposals import Gain, Group, Point, expected_gain, find_groups, propose
from remp.studio.state import NONE, StudioState
from remp.untrusted import shortened

BATCH = 24  # pictures that are proposed at once
_LONG = 0.2  # seconds: if a prediction takes longer, the classes are shown before it is known how sure they are
_AGAIN = 3.0  # seconds until what the disk did not take is tried again
_LEFT_OVER = 6  # a batch stays until no more than this many of it have no label: it shall not change under one's hands


@dataclass(frozen=True)
class Insight:
    """What is known beyond the labels. Each part is None or empty until there is one.

    version: of the state that all parts were made from, -1 while some are older. of: the version that the prediction
    was made from. given: the labels of `version`.
    """

    version: int = -1
    prediction: Prediction | None = None
    label_next: tuple[Advice, ...] = ()
    findings: tuple[Finding, ...] = ()
    gain: Gain | None = None
    groups: tuple[Group, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    of: int = -1
    given: Labels | None = None


class Session:
    """One for each collection, shared by all its tabs. All public methods may be called from any thread."""

    def __init__(self, task: Items, journal: Journal, embedder: Embedder) -> None:
        self.task = task
        self.journal = journal
        self.state = StudioState.start(task.labels, task.class_names)
        self.embedding = Embedding(task, embedder)
        self.features: Features | None = None
        self.insight = Insight()
        self.plane: np.ndarray | None = None
        self.plane_version = 0
        self.history: list[Point] = []
        self.checks: dict[int, Check] = {}
        self.notices: list[str] = []
        self.lock = threading.RLock()
        self._listeners: set[Callable[[], None]] = set()
        self._wake = threading.Condition(self.lock)
        self._cartographer: Cartographer | None = None
        self._n_grouped = 0
        self.is_stopped = False
        self._replay()

    def start(self) -> None:
        """Begin to embed and to predict, in threads that end with the process."""
        for work in (self.embed, self._predict_forever, self._draw, self._write_forever):
            threading.Thread(target=work, daemon=True).start()

    def embed(self) -> None:
        """Embed everything now; if that fails, `final` says why."""
        self.embedding.run(self._embedded)

    def stop(self) -> None:
        self.embedding.stop()
        with self._wake:
            self.is_stopped = True
            self.journal.retry()
            if self._cartographer:
                self._cartographer.stop()
            self._wake.notify_all()
        self._tell()

    def act(self, action: Action) -> None:
        """Do what the page asks, and keep it. Raises ConfigError for what cannot be done; then nothing has changed."""
        with self._wake:
            said = self._said(action)
            apply(self.state, action)
            entry = {**with_names(as_needed(action), self.task.names), "at": round(time.time(), 1)}
            classes = self.state.classes
            checks = {one.item: one for one in said if self.state.labels[one.item] != NONE and one.predicted in classes}
            if checks:
                self.checks.update(checks)
                entry["said"] = [one.entry(self.task.names, classes[one.predicted].name) for one in checks.values()]
            self.journal.append(entry)
            self._wake.notify_all()
        self._tell()

    def _said(self, action: Action) -> list[Check]:
        """What is predicted of the pictures of Next that have no label yet, if the action is done in that view."""
        insight = self.insight
        if insight.prediction is None or action.get("view") != "next":
            return []
        proposed = [one for one in insight.label_next if self.state.labels[one.item] == NONE]
        return checks_of(insight.prediction, proposed)

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have a function called after every change; returns what ends that."""
        with self.lock:
            self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def wait(self, version: int | None = None, timeout: float = 60.0) -> Insight:
        """The insight of the present state, or of a later one, with all its parts. Raises DataError after a time."""
        until = time.monotonic() + timeout
        with self._wake:
            wanted = self.state.version if version is None else version
            while self.insight.version < wanted or not (self.embedding.is_done or self.embedding.problem):
                if not self._wake.wait(until - time.monotonic()):
                    raise DataError("the predictions are not ready yet: try again when the pictures are embedded")
            return self.insight

    def final(self) -> Prediction:
        """The prediction for the labels as they are at this moment, to be exported."""
        if self.embedding.problem:
            raise DataError(self.embedding.problem)
        with self.lock:
            features, given, checks = self.features, self._given(), self._valid_checks()
        if features is None or not self.embedding.is_done:
            raise DataError("not all pictures are embedded yet: export when the bar is full")
        if not (given.labels >= 0).any():
            raise ConfigError("nothing is labelled yet: name some pictures first")
        return judge(predict(self.task, features, given), given.labels, self.task.labels, checks).prediction

    def _replay(self) -> None:
        """Do again what the journal says; entries that make no sense any more are left out and counted."""
        numbers = {name: number for number, name in enumerate(self.task.names)}
        n_senseless, gone = 0, set[str]()
        for entry in self.journal.entries:
            try:
                gone |= named_items(entry) - numbers.keys()
                apply(self.state, with_numbers(entry, numbers))
            except (ConfigError, AttributeError, TypeError):
                n_senseless += 1
                self.state.leave_out()
                continue
            if isinstance(said := entry.get("said"), list):
                classes = {one.name: number for number, one in self.state.classes.items()}
                read = [Check.of_entry(one, numbers, classes) for one in said]
                self.checks.update({one.item: one for one in read if one is not None})
        if self.journal.n_damaged:
            lines = "line was" if self.journal.n_damaged == 1 else "lines were"
            self.notices.append(
                f"{self.journal.n_damaged} {lines} damaged in the journal, by a crash or a full disk, and left out"
            )
        if gone:
            pictures = "1 picture" if len(gone) == 1 else f"{len(gone):,} pictures"
            self.notices.append(
                f"{pictures} with labels in the journal, such as {shortened(min(gone))!r}, are not in the folder: put "
                "them back where they were, and their labels are there again"
            )
        if n_senseless:
            self.notices.append(f"actions of the journal that do not fit this collection were left out: {n_senseless}")

    def _given(self) -> Labels:
        return Labels(self.state.labels.copy(), self.state.classes)

    def _valid_checks(self) -> list[Check]:
        return [one for one in self.checks.values() if one.predicted in self.state.classes]

    def _embedded(self, features: Features | None) -> None:
        with self._wake:
            if features is not None:
                self.features = features
                self.insight = Insight(groups=self.insight.groups)
            self._wake.notify_all()
        self._tell()

    def _predict_forever(self) -> None:
        while True:
            with self._wake:
                while not self.is_stopped and (self.features is None or self.insight.version == self.state.version):
                    self._wake.wait()
                if self.is_stopped:
                    return
                assert self.features is not None  # for mypy: this is what was waited for
                features, given, version = self.features, self._given(), self.state.version
                checks = self._valid_checks()
            _import_libraries()  # not before there are features: until then the first page needs the processor
            try:
                self._predict(features, given, version, checks)
            except Exception as error:  # the page stays, and says what is wrong
                kept = Insight(version, groups=self.insight.groups)
                self._publish(features, kept, f"predictions failed: {error}")

    def _predict(self, features: Features, given: Labels, version: int, checks: list[Check]) -> None:
        """Publish the classes, then what to label next and what to look at, unless there are newer labels by then."""
        started = time.perf_counter()
        here = given.labels[features.items]
        if len(np.unique(here[here >= 0])) < 2:
            self._publish(features, Insight(version, groups=self._groups(features)))
            return
        before, seconds, model = self.insight, dict[str, float](), None
        if before.version >= 0 and before.given is not None and given.predict_the_same_as(before.given):
            self._publish(features, replace(before, version=version, of=version))
            return
        if before.prediction is not None and before.seconds.get("predict", 0.0) > _LONG:
            soon = predict_soon(self.task, features, given, before.prediction)
            if soon is not None:
                prediction, model = soon
                seconds["soon"] = time.perf_counter() - started
                self._publish(features, replace(before, version=-1, prediction=prediction, of=version))

        def is_wanted() -> bool:
            """Whether to go on: how sure the classes are may wait while somebody labels one picture after the other."""
            return model is None or self.state.version == version

        try:
            whole = predict(self.task, features, given, model, is_wanted)
        except Overtaken:
            return
        judged = judge(whole, given.labels, self.task.labels, checks)
        prediction = judged.prediction
        seconds["predict"] = time.perf_counter() - started
        is_newest = self.state.version == version
        gain = before.gain if is_newest else None
        first = replace(before, version=-1, prediction=prediction, seconds=seconds, of=version, given=None, gain=gain)
        self._publish(features, first)
        if not is_newest:
            return
        label_next = before.label_next
        if sum(given.labels[one.item] == NONE for one in label_next) <= _LEFT_OVER:
            label_next = tuple(propose(prediction, features, given, BATCH))
        gain = self._gain(judged, given, label_next)
        seconds = {**seconds, "advise": time.perf_counter() - started - seconds["predict"]}
        findings = tuple(find_all(prediction, features))
        made = replace(first, version=version, label_next=label_next, findings=findings, gain=gain, given=given)
        self._publish(features, replace(made, seconds=seconds))

    def _groups(self, features: Features) -> tuple[Group, ...]:
        """What is named while there are no two classes yet; looked for again if other pictures are embedded."""
        if self.insight.groups and self.embedding.is_done and len(features.items) == self._n_grouped:
            return self.insight.groups
        self._n_grouped = len(features.items)
        return tuple(find_groups(features.values, features.items))

    def _gain(self, judged: Judged, given: Labels, label_next: tuple[Advice, ...]) -> Gain:
        free = np.flatnonzero((given.labels == NONE) & (judged.prediction.best >= 0))
        batch = np.flatnonzero(np.isin(free, [one.item for one in label_next]))
        probability = judged.probability(free)
        n_labels = int((given.labels >= 0).sum())
        self.history = [point for point in self.history if point.n_labels < n_labels]
        self.history.append(Point(n_labels, float((1 - probability).sum())))
        return expected_gain(probability, batch.tolist(), self.history)

    def _publish(self, features: Features, insight: Insight, problem: str = "") -> None:
        with self._wake:
            if self.features is features:  # else more is embedded by now, and this is old
                self.insight = insight
            if problem and problem not in self.notices:
                self.notices.append(problem)
            self._wake.notify_all()
        self._tell()

    def _draw(self) -> None:
        """The map: a quick one as soon as all is embedded, then a good one."""
        with self._wake:
            while not (self.features is not None and self.embedding.is_done):
                if self.is_stopped or self.embedding.problem:
                    return
                self._wake.wait(1.0)
            features = self.features
        _import_libraries()
        reduced = main_directions(features.values)
        self._show_plane(features, quick_plane(reduced))
        if len(reduced) <= FEW:
            self._show_plane(features, lay_out(reduced))
            return
        with self.lock:
            if self.is_stopped:
                return
            self._cartographer = Cartographer(reduced)
        places = self._cartographer.places()
        if places is not None:
            self._show_plane(features, places)

    def _show_plane(self, features: Features, places: np.ndarray) -> None:
        with self.lock:
            self.plane = np.full((len(self.task.names), 2), np.nan, np.float32)
            self.plane[features.items] = places
            self.plane_version += 1
        self._tell()

    def _write_forever(self) -> None:
        """Write what a full disk did not take as soon as it has room, whether or not anybody acts meanwhile."""
        with self._wake:
            while not self.is_stopped:
                if self.journal.problem:
                    self.journal.retry()
                    if not self.journal.problem:
                        self._tell()
                self._wake.wait(_AGAIN if self.journal.problem else None)

    def _tell(self) -> None:
        for listener in tuple(self._listeners):
            listener()


def open_session(
    task: Items, folder: Path, journal: Path, embedder: Embedder, made_with: Mapping[str, Any] | None = None
) -> Session:
    """The session of a collection, as far as it had come. made_with: what a new journal says the features come from."""
    kept = Journal(journal)
    kept.check(folder, task.names, made_with)
    return Session(task, kept, embedder)


_IMPORTING = threading.Lock()


def _import_libraries() -> None:
    """What predicting and drawing need, in one thread at a time: two that import scikit-learn at once may each see it
    half made. From then on its products use one thread: limits are those of the whole process, and one that ends while
    the other thread is inside a loop of OpenMP makes OpenBLAS warn that it may hang."""
    with _IMPORTING:
        import sklearn.cluster
        import sklearn.linear_model
        import sklearn.manifold
        import sklearn.neighbors  # noqa: F401

        threadpool_limits(limits=1, user_api="blas")
