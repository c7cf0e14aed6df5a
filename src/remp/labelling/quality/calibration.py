"""How far the probabilities of a labelling can be trusted: the temperature of its softmax, from held-out labels.

A softmax over logits states a probability that is right on average only at the right temperature. It is a number with a
posterior: a prior that was measured on other tasks, times the likelihood of the labels that were held out.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from remp.labelling.quality.held_out import HeldOut

# Logarithms of the inverse temperature that are considered, around the centre of the prior.
_GRID = np.linspace(-3, 3, 121)
# The prior: normal in the logarithm, for logits of scale 10. Its centre falls with the mean of 1 / labels of a class:
# the fewer labels, the less a prototype is worth. Measured on validation classes: results/tries/label_quality.md.
_CENTRE, _FALL, _WIDTH, _SCALE = 0.1, 0.8, 0.5, 10.0
# Items that were held out share prototypes, so that each tells less than an independent one: part of the likelihood.
_WEIGHT = 0.5


@dataclass(frozen=True)
class Calibration:
    """sharpness: (g,) inverse temperatures; weights: (g,) their posterior probabilities."""

    sharpness: np.ndarray
    weights: np.ndarray

    @property
    def best(self) -> float:
        """The mean sharpness, of its logarithm."""
        return float(np.exp((self.weights * np.log(self.sharpness)).sum()))

    def probabilities(self, logits: Tensor) -> Tensor:
        """(m, N) -> (m, N)"""
        return torch.softmax(logits.double() * self.best, dim=-1)


def calibrate(held_out: HeldOut, counts: np.ndarray, scale: float = _SCALE) -> Calibration:
    """The posterior of the temperature; the prior where nothing could be held out.

    counts: (N,) labelled items of each class. scale: that of the similarities in the logits.
    """
    centre = _CENTRE - _FALL * np.mean(1 / counts) - np.log(scale / _SCALE)
    sharpness = np.exp(centre + _GRID)
    log_likelihood = np.array([_log_likelihood(held_out, float(value)) for value in sharpness])
    log_posterior = _WEIGHT * log_likelihood - _GRID**2 / (2 * _WIDTH**2)
    weights = np.exp(log_posterior - log_posterior.max())
    return Calibration(sharpness, weights / weights.sum())


def _log_likelihood(held_out: HeldOut, sharpness: float) -> float:
    logs = torch.log_softmax(held_out.logits.double() * sharpness, dim=-1)
    return float(logs.gather(1, torch.from_numpy(held_out.labels)[:, None]).sum())
