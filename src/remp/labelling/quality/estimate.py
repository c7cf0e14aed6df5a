"""How many labels are right before anybody looks at them: of all unlabelled items, with an interval, and of those that
`--reject` would leave, for each threshold."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from remp.labelling.outcome import STATUSES, AccuracyEstimate, Labelling
from remp.propagation.calibration import Calibration
from remp.propagation.held_out import HeldOut

LEVEL = 0.9
# What no temperature corrects: the standard deviation of a task's accuracy around the best one, at an accuracy of 0.5,
# is the first over √K for K labels per class, and no less than the second. Measured: results/tries/robustness.md.
_MISFIT, _LEAST_MISFIT = 0.14, 0.05
# Strangers among the unlabelled items are all wrong, and hardly seen: shares that are reckoned with, and how probable.
_STRANGERS = {0.0: 0.4, 0.05: 0.2, 0.1: 0.2, 0.15: 0.2}
# So large a share of items may resemble no class by chance; if more do, there are the more strangers among the others.
_BY_CHANCE = 0.15
_POINTS = np.linspace(0, 1, 1001)


def estimate_accuracy(
    calibration: Calibration,
    logits: Tensor,
    n_unlabelled: int,
    held_out: HeldOut,
    counts: np.ndarray,
    unlike: float = 0.0,
) -> AccuracyEstimate:
    """logits: (m, N) of a sample of the unlabelled items, at least one; N at least 2. counts: (N,) labelled items of
    each class. unlike: the share of the unlabelled items that resemble no class.

    The accuracy is the mean probability of the likeliest class; the interval is that of the mixture over all
    temperatures, widened by the luck of `n_unlabelled` draws and by errors that no temperature corrects; its
    lower end also by items of other classes that may be among them.
    """
    n_shot = float(1 / np.mean(1 / counts))
    misfit = max(_MISFIT / np.sqrt(n_shot), _LEAST_MISFIT)
    means, spreads = _by_sharpness(calibration, logits, n_unlabelled, misfit)
    more = max(0.0, unlike - _BY_CHANCE)
    strangers = {min(0.95, share + place * more): weight for place, (share, weight) in enumerate(_STRANGERS.items())}
    low = _quantile((1 - LEVEL) / 2, calibration, means, spreads, strangers)
    high = _quantile((1 + LEVEL) / 2, calibration, means, spreads, {0.0: 1.0})
    accuracy = float(np.clip(float(calibration.probabilities(logits).amax(-1).mean()), low, high))
    return AccuracyEstimate(accuracy, low, high, LEVEL, _basis(held_out, n_unlabelled))


def _by_sharpness(
    calibration: Calibration, logits: Tensor, n_unlabelled: int, misfit: float
) -> tuple[np.ndarray, np.ndarray]:
    """Expected accuracy (g,) and its standard deviation (g,) at each sharpness."""
    margins = logits.double() - logits.double().amax(-1, keepdim=True)
    best = [1 / torch.exp(margins * float(value)).sum(-1) for value in calibration.sharpness]  # g times (m,)
    means = np.array([float(part.mean()) for part in best])
    luck = np.array([float((part * (1 - part)).mean()) for part in best]) / n_unlabelled
    return means, np.sqrt(luck + 4 * means * (1 - means) * misfit**2) + 0.005


def _quantile(
    share: float, calibration: Calibration, means: np.ndarray, spreads: np.ndarray, strangers: dict[float, float]
) -> float:
    """The quantile of the accuracy, over the temperatures and the shares of strangers (share -> how probable)."""
    below = np.zeros(len(_POINTS))
    for part, probability in strangers.items():
        points = torch.from_numpy((_POINTS[:, None] - (1 - part) * means) / spreads)
        below += probability * (torch.special.ndtr(points).numpy() @ calibration.weights)
    return float(np.interp(share, below, _POINTS))


def _basis(held_out: HeldOut, n_unlabelled: int) -> str:
    hits = int((held_out.scores.argmax(-1).numpy() == held_out.labels).sum())
    return (
        f"{hits} of {len(held_out)} labelled items were right when their label was hidden, and the probabilities of "
        f"{n_unlabelled:,} unlabelled items calibrated on them"
    )


THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


class Kept(NamedTuple):
    """n: how many of the unlabelled items have a label of this probability or more; right: the share of these that is
    right, by their probabilities; None if there are none, or if it cannot be estimated."""

    threshold: float
    n: int
    right: float | None


def rejection_table(labelling: Labelling) -> list[Kept]:
    """A line for each of the usual thresholds and the one that was asked for, those that leave nothing after the first
    left out.

    Items that resemble no class are not counted: they get no label at any threshold. With one class there is no line:
    every probability is 1.
    """
    values = _probabilities(labelling)
    lines = [_kept(labelling, values, threshold) for threshold in sorted({0.0, *THRESHOLDS, labelling.reject or 0.0})]
    n_lines = 1 + sum(line.n > 0 for line in lines)
    return lines[:n_lines] if len(values) and len(labelling.task.class_names) > 1 else []


def with_a_label(labelling: Labelling) -> Kept:
    """How many items got a label, and the share of these that is right, by their probabilities."""
    return _kept(labelling, labelling.probability[labelling.status == STATUSES.index("labelled")], 0.0)


def largest_threshold(labelling: Labelling) -> float:
    """The largest threshold that leaves an item, in hundredths, or in thousandths and so on if it is near to 1; 0
    without any."""
    largest = float(_probabilities(labelling).max(initial=0.0))
    steps = next((10**digits for digits in range(2, 9) if largest < 1 - 10.0**-digits), 10**8)
    return float(np.floor(steps * largest) / steps)


def _probabilities(labelling: Labelling) -> np.ndarray:
    can_be_labelled = np.isin(labelling.status, [STATUSES.index("labelled"), STATUSES.index("uncertain")])
    return labelling.probability[can_be_labelled]


def _kept(labelling: Labelling, values: np.ndarray, threshold: float) -> Kept:
    kept = values[values >= threshold]
    return Kept(threshold, len(kept), float(kept.mean()) if len(kept) and labelling.estimate else None)
