"""From features and a few labels to the outcome: propagate, calibrate, decide, and judge the result."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from remp.errors import ConfigError
from remp.labelling.decision import Decision, decide
from remp.labelling.few_labels import with_fitting_share
from remp.labelling.outcome import STATUSES, AccuracyEstimate, Advice, Labelling
from remp.labelling.quality.advice import MOST_CANDIDATES, advise
from remp.labelling.quality.calibration import Calibration, calibrate
from remp.labelling.quality.estimate import estimate_accuracy
from remp.labelling.quality.findings import duplicates, similar_classes, single_examples, suspicious_labels
from remp.labelling.quality.held_out import HeldOut, hold_out, sample_of
from remp.labelling.quality.unknown import smallest_known
from remp.labelling.tasks.task import LabellingTask
from remp.rectification.propagate import Propagated, Propagation, propagate
from remp.rows import Rows, Shard

# Unlabelled items that the accuracy is estimated from, and items of either kind that the map shows.
_JUDGED, _MAPPED = 20_000, 2000
# Labelled items that candidates for labelling are compared with.
_MOST_LABELLED = 4000
_DEFAULTS = Propagation()


def label_rows(
    task: LabellingTask,
    rows: Rows,
    *,
    reject: float | None = None,
    unknown: bool = True,
    n_next: int = 10,
    propagation: Propagation = _DEFAULTS,
    content_hashes: np.ndarray | None = None,
    picture_hashes: np.ndarray | None = None,
    shard: Shard | None = None,
) -> Labelling | None:
    """Label all items of `task` from their features, and say how good that is.

    rows: n rows, as the items of the task. reject: leave items below this probability unlabelled. unknown: leave those
    unlabelled that resemble no class. n_next: how many items to propose for labelling. content_hashes: (n,), equal for
    equal files; picture_hashes: (n,) uint64, of few different bits for pictures that look the same. With a shard, every
    process passes over its rows, and the first has the outcome; the others get None.
    """
    if reject is not None and not 0 <= reject <= 1:
        raise ConfigError(f"reject is {reject}; needed a probability: 0 … 1")
    shard, seconds = shard or Shard(), dict[str, float]()
    counts = np.bincount(task.labels[task.is_labelled], minlength=len(task.class_names))
    with _timed("propagate", seconds):
        settings = with_fitting_share(propagation, np.maximum(counts, 1))
        propagated = propagate(rows, task.labels, len(task.class_names), settings, shard=shard)
    with _timed("judge", seconds):
        held_out = hold_out(propagated, rows, task.labels)
        calibration = calibrate(held_out, counts, propagation.scale)
    with _timed("label", seconds):
        decision = decide(propagated, calibration, rows, task.labels, shard)
    if decision is None:
        return None
    with _timed("judge", seconds):
        estimate = _estimate(task, rows, propagated, calibration, held_out)
        findings = (
            *suspicious_labels(task, held_out, calibration),
            *duplicates(task, content_hashes, picture_hashes),
            *single_examples(task),
            *similar_classes(task, decision.confusion),
        )
        status = _status(task, decision, held_out if unknown else None, reject)
        label_next = _label_next(task, rows, propagated, decision, status, n_next)
        mapped = np.union1d(
            *(sample_of(np.flatnonzero(part), _MAPPED) for part in (task.is_labelled, ~task.is_labelled))
        )
        mapped_features = propagated.features(rows.take(mapped)).numpy()
    return Labelling(
        task=task,
        labels=np.where(status <= STATUSES.index("labelled"), decision.best, -1),
        best=decision.best,
        runner_up=decision.runner_up,
        probability=decision.probability,
        margin=decision.margin,
        status=status,
        before=decision.before,
        confusion=decision.confusion,
        expected_sizes=decision.confusion.sum(1),
        sample=mapped,
        sample_features=mapped_features,
        prototypes_before=propagated.prototypes_before.numpy(),
        prototypes=propagated.prototypes.numpy(),
        estimate=estimate,
        findings=findings,
        label_next=label_next,
        seconds=seconds,
    )


def _estimate(
    task: LabellingTask, rows: Rows, propagated: Propagated, calibration: Calibration, held_out: HeldOut
) -> AccuracyEstimate | None:
    """The accuracy, from a sample of the unlabelled items."""
    unlabelled = np.flatnonzero(~task.is_labelled)
    logits = propagated.logits(rows.take(sample_of(unlabelled, _JUDGED)))
    return estimate_accuracy(calibration, logits, len(unlabelled), held_out)


def _status(task: LabellingTask, decision: Decision, held_out: HeldOut | None, reject: float | None) -> np.ndarray:
    """(n,) index into STATUSES; nothing is unknown without the held-out items."""
    status = np.full(len(task.names), STATUSES.index("labelled"), np.int8)
    if reject is not None:
        status[decision.probability < reject] = STATUSES.index("uncertain")
    if held_out is not None:
        least = smallest_known(held_out.resemblance, decision.resemblance[~task.is_labelled])
        status[decision.resemblance < least] = STATUSES.index("unknown")
    status[task.is_labelled] = STATUSES.index("given")
    return status


def _label_next(
    task: LabellingTask, rows: Rows, propagated: Propagated, decision: Decision, status: np.ndarray, n_next: int
) -> tuple[Advice, ...]:
    """Advice among a sample of the unlabelled items that resemble a class."""
    if n_next == 0:
        return ()
    free = (status != STATUSES.index("given")) & (status != STATUSES.index("unknown"))
    candidates = sample_of(np.flatnonzero(free), MOST_CANDIDATES)
    labelled = sample_of(np.flatnonzero(task.is_labelled), _MOST_LABELLED)
    return advise(
        candidates,
        propagated.features(rows.take(candidates)),
        decision.margin[candidates],
        propagated.features(rows.take(labelled)),
        [(task.class_names[decision.best[item]], task.class_name(decision.runner_up[item])) for item in candidates],
        n_next,
    )


@contextmanager
def _timed(part: str, seconds: dict[str, float]) -> Iterator[None]:
    started = time.perf_counter()
    yield
    seconds[part] = seconds.get(part, 0.0) + time.perf_counter() - started
