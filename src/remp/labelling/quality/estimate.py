"""The share of right labels among the unlabelled items, with an interval, before anybody looks at them."""

import numpy as np
import torch
from torch import Tensor

from remp.labelling.outcome import AccuracyEstimate
from remp.labelling.quality.calibration import Calibration
from remp.labelling.quality.held_out import HeldOut

LEVEL = 0.9
# What no temperature mends: the standard deviation of a task's accuracy around the best one, at an accuracy of 0.5.
_MISFIT = 0.06
_POINTS = np.linspace(0, 1, 1001)


def estimate_accuracy(
    calibration: Calibration, logits: Tensor, n_unlabelled: int, held_out: HeldOut
) -> AccuracyEstimate | None:
    """logits: (m, N) of a sample of the unlabelled items; None if there are none of them.

    At each temperature the accuracy is the mean probability of the likeliest class; the interval is that of the mixture
    over the temperatures, widened by the luck of `n_unlabelled` draws and by what no temperature mends.
    """
    if not len(logits):
        return None
    means, spreads = _by_sharpness(calibration, logits, n_unlabelled)
    points = torch.from_numpy((_POINTS[:, None] - means) / spreads)
    below = torch.special.ndtr(points).numpy() @ calibration.weights
    low, high = (float(np.interp(share, below, _POINTS)) for share in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    accuracy = float(np.clip(means @ calibration.weights, low, high))
    return AccuracyEstimate(accuracy, low, high, LEVEL, _basis(held_out, n_unlabelled))


def _by_sharpness(calibration: Calibration, logits: Tensor, n_unlabelled: int) -> tuple[np.ndarray, np.ndarray]:
    """Expected accuracy (g,) and its standard deviation (g,) at each sharpness."""
    margins = logits.double() - logits.double().amax(-1, keepdim=True)
    best = [1 / torch.exp(margins * float(value)).sum(-1) for value in calibration.sharpness]  # g times (m,)
    means = np.array([float(part.mean()) for part in best])
    luck = np.array([float((part * (1 - part)).mean()) for part in best]) / n_unlabelled
    return means, np.sqrt(luck + 4 * means * (1 - means) * _MISFIT**2) + 1e-6


def _basis(held_out: HeldOut, n_unlabelled: int) -> str:
    if not len(held_out):
        return (
            f"probabilities of {n_unlabelled:,} unlabelled items at a temperature measured on other tasks: no class "
            "has two labelled items, so none could be checked; a second one a class makes the interval narrower"
        )
    hits = int((held_out.logits.argmax(-1).numpy() == held_out.labels).sum())
    return (
        f"{hits} of {len(held_out)} labelled items were right when their label was hidden, and the probabilities of "
        f"{n_unlabelled:,} unlabelled items calibrated on them"
    )
