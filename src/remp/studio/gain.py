"""Whether to go on: what one more batch of labels is expected to bring."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# A batch that corrects fewer than this share of its pictures is not worth looking at.
_WORTH = 1 / 8


@dataclass(frozen=True)
class Point:
    """n_labels: given or accepted so far. wrong: expected number of wrong predictions among the rest."""

    n_labels: int
    wrong: float


@dataclass(frozen=True)
class Gain:
    """pictures: wrong ones that the batch is expected to correct, by itself and by what it changes in the others.
    wrong: expected now. batch: pictures in the batch."""

    pictures: float
    wrong: float
    batch: int

    @property
    def is_worth_it(self) -> bool:
        return self.pictures >= max(_WORTH * self.batch, 0.5)


def expected_gain(probability: np.ndarray, batch: Sequence[int], history: Sequence[Point]) -> Gain:
    """probability: (m,) of the predictions of unlabelled items; batch: which of these come next.

    What is labelled is right then: that much is sure. Beyond that the others get better, too; how much, the last labels
    have shown.
    """
    wrong = float((1 - probability).sum())
    sure = float((1 - probability[list(batch)]).sum())
    return Gain(min(max(sure, _by_history(history, len(batch))), wrong), wrong, len(batch))


def _by_history(history: Sequence[Point], batch: int) -> float:
    """The mean of what the last labels brought: at least a batch of them, or all there were."""
    if len(history) < 2:
        return 0.0
    last = history[-1]
    earlier = [point for point in history if point.n_labels <= last.n_labels - batch] or [history[0]]
    n_labels = last.n_labels - earlier[-1].n_labels
    if n_labels < max(batch / 2, 1):  # too little to tell from, or an undo took labels away
        return 0.0
    # Later labels bring less than earlier ones.
    return 0.5 * batch * max(earlier[-1].wrong - last.wrong, 0.0) / n_labels
