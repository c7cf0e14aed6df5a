"""How many predictions are right, when a person chose what to label: learned from what was said of pictures before
they were named.

The estimate of `remp label` hides labels and looks whether they are found again. That is fair for labels that are like
the rest of the collection. Groups that were named as a whole are easier than the rest, and so are predictions that were
accepted from the top of a class. What Next proposes is chosen without knowing its class, a part of it at random: there
a probability that was said before can be held against what the picture turned out to be.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit, log_expit, logit, ndtr

from remp.labelling.outcome import AccuracyEstimate, Advice
from remp.labelling.quality.estimate import LEVEL
from remp.studio.collection import Prediction
from remp.studio.proposals import CHECK
from remp.studio.state import NONE

# All probabilities are moved by one number in their logits. Before any check it is normal: its mean is the first number
# times the share of labels that were not checks, its deviation the second plus the third times that share. Each check
# counts as so much of an independent one, more if it was drawn at random. The numbers were found on the validation
# classes of three feature sets; benchmarks/studio_person.py measures the interval on the test classes.
_BULK_MEAN, _LEAST_DEVIATION, _BULK_DEVIATION = -1.5, 0.5, 0.8
_WEIGHT_OF_RANDOM, _WEIGHT_OF_CHOSEN = 0.3, 0.2
_SUREST = 0.98  # no probability is taken for more
_MISFIT = 0.03  # standard deviation, at an accuracy of 0.5, of errors that no move of the logits corrects
_TOO_WIDE = 0.5
_MOVES = np.linspace(-5, 3, 161)
_POINTS = np.linspace(0, 1, 1001)


@dataclass(frozen=True)
class Check:
    """What was said of an item before it was named. predicted: the number of a class."""

    item: int
    predicted: int
    probability: float
    is_random: bool

    def entry(self, names: Sequence[str], class_name: str) -> list[Any]:
        """The check as the journal keeps it: by names, which stay when pictures or classes are added."""
        return [names[self.item], class_name, round(self.probability, 4), self.is_random]

    @classmethod
    def of_entry(cls, entry: Any, numbers: Mapping[str, int], classes: Mapping[str, int]) -> "Check | None":
        """The check that the journal has kept; None for what is no check, or of a picture or a class that is gone.
        numbers, classes: the number of each picture and of each class, by name."""
        try:
            name, predicted, probability, is_random = entry
            return cls(numbers[name], classes[predicted], float(probability), is_random is True)
        except (TypeError, ValueError, KeyError, OverflowError):
            return None


@dataclass(frozen=True)
class Judged:
    """A prediction with the estimate by checks in its labelling. move: what is added to the logits of all its
    probabilities, on average."""

    prediction: Prediction
    move: float = 0.0

    def probability(self, items: np.ndarray) -> np.ndarray:
        """(k,) of the predictions of these items, as the checks leave it."""
        probability = self.prediction.probability[items]
        return probability if self.move == 0 else expit(_logits(probability) + self.move)


def checks_of(prediction: Prediction, proposed: Iterable[Advice]) -> list[Check]:
    """What is said of the proposed items now."""
    return [
        Check(
            one.item,
            int(prediction.best[one.item]),
            float(prediction.probability[one.item]),
            one.reason.endswith(CHECK),
        )
        for one in proposed
        if prediction.best[one.item] >= 0
    ]


def judge(prediction: Prediction, labels: np.ndarray, before: np.ndarray, checks: Iterable[Check]) -> Judged:
    """Estimate by the checks how many predictions are right. labels: (n,) as in StudioState; before: (n,) those of the
    files. Without a label from the page, the estimate stays that of `remp label`; while no proposed picture was named,
    there is none."""
    labelling = prediction.labelling
    valid = [one for one in checks if labels[one.item] != NONE]
    by_hand = (labels >= 0) & (labels != before)
    free = np.flatnonzero((labels == NONE) & (prediction.best >= 0))
    if labelling.estimate is None or not by_hand.any() or not len(free):
        return Judged(prediction)
    checked = np.zeros(len(labels), bool)
    checked[[one.item for one in valid]] = True
    bulk = float((by_hand & ~checked).sum() / (labels >= 0).sum())
    weights = _posterior(valid, labels, bulk)
    means, spreads = _by_move(prediction.probability[free])
    below = ndtr((_POINTS[:, None] - means) / spreads) @ weights
    low, high = (float(np.interp(share, below, _POINTS)) for share in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    accuracy = float(np.clip(means @ weights, low, high))
    move = float(weights @ _MOVES)
    unknown = ""
    if not valid:
        unknown = "no picture of Next was named yet, and what was labelled so far may be easier than the rest"
    elif high - low > _TOO_WIDE:
        unknown = f"it may be anything from {low:.0%} to {high:.0%}: what was labelled so far is easier than the rest"
    if unknown:
        reason = f"{unknown}. Name the pictures of Next, which tell more"
        return Judged(replace(prediction, labelling=replace(labelling, estimate=None, no_estimate=reason)), move)
    estimate = AccuracyEstimate(accuracy, low, high, LEVEL, _basis(valid, labels))
    return Judged(replace(prediction, labelling=replace(labelling, estimate=estimate)), move)


def _posterior(checks: list[Check], labels: np.ndarray, bulk: float) -> np.ndarray:
    """How probable each of _MOVES is after the checks. bulk: the share of labels that were not checks."""
    deviation = _LEAST_DEVIATION + _BULK_DEVIATION * bulk
    logs = -((_MOVES - _BULK_MEAN * bulk) ** 2) / (2 * deviation**2)
    for one in checks:
        moved = _logits(np.array(one.probability)) + _MOVES
        is_right = labels[one.item] == one.predicted
        logs += (_WEIGHT_OF_RANDOM if one.is_random else _WEIGHT_OF_CHOSEN) * log_expit(moved if is_right else -moved)
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def _by_move(probability: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The expected accuracy at each move and its standard deviation, from a histogram of the probabilities (k,)."""
    counts, edges = np.histogram(np.clip(probability, 0, 1), bins=400, range=(0, 1))
    moved = expit(_logits((edges[1:] + edges[:-1]) / 2)[:, None] + _MOVES)  # (bins, moves)
    shares = counts / counts.sum()
    means, luck = shares @ moved, shares @ (moved * (1 - moved)) / len(probability)
    return means, np.sqrt(luck + 4 * means * (1 - means) * _MISFIT**2) + 0.005


def _logits(probability: np.ndarray) -> np.ndarray:
    return logit(np.clip(np.nan_to_num(probability), 1e-4, _SUREST))


def _basis(checks: list[Check], labels: np.ndarray) -> str:
    n_right = sum(labels[one.item] == one.predicted for one in checks)
    said = sum(one.probability for one in checks)
    return (
        f"of {len(checks)} pictures of Next the prediction was right for {n_right} before they were named, where "
        f"{said:.0f} were expected: all probabilities are corrected by that"
    )
