"""From features and a few labels to the outcome: propagate, calibrate, decide, and judge the result."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from remp.errors import ConfigError
from remp.labelling.calibration import calibrate
from remp.labelling.decision import decide
from remp.labelling.estimate import estimate_accuracy
from remp.labelling.held_out import hold_out
from remp.labelling.outcome import STATUSES, Labelling
from remp.labelling.sampling import sample_of
from remp.labelling.task import LabellingTask
from remp.propagation import Propagation, propagate
from remp.rows import Rows
from remp.sharding import Shard

_JUDGED, _MAPPED = 20_000, 2000
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
    with _timed("propagate", seconds):
        propagated = propagate(rows, task.labels, len(task.class_names), propagation, shard=shard)
    with _timed("judge", seconds):
        held_out = hold_out(propagated, rows, task.labels)
        calibration = calibrate(held_out)
    with _timed("label", seconds):
        decision = decide(propagated, calibration, rows, task.labels, shard)
    if decision is None:
        return None
    with _timed("judge", seconds):
        judged = sample_of(np.flatnonzero(~task.is_labelled), _JUDGED)
        logits = propagated.logits(rows.take(judged))
        estimate = estimate_accuracy(calibration, logits, int((~task.is_labelled).sum()), held_out)
        mapped = np.union1d(np.flatnonzero(task.is_labelled)[:_MAPPED], sample_of(judged, _MAPPED))
    status = _status(task, decision.probability, reject)
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
        sample_features=propagated.features(rows.take(mapped)).numpy(),
        prototypes_before=propagated.prototypes_before.numpy(),
        prototypes=propagated.prototypes.numpy(),
        estimate=estimate,
        findings=(),
        label_next=(),
        seconds=seconds,
    )


def _status(task: LabellingTask, probability: np.ndarray, reject: float | None) -> np.ndarray:
    status = np.full(len(task.names), STATUSES.index("labelled"), np.int8)
    if reject is not None:
        status[probability < reject] = STATUSES.index("uncertain")
    status[task.is_labelled] = STATUSES.index("given")
    return status


@contextmanager
def _timed(part: str, seconds: dict[str, float]) -> Iterator[None]:
    started = time.perf_counter()
    yield
    seconds[part] = seconds.get(part, 0.0) + time.perf_counter() - started
