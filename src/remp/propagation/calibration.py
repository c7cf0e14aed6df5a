"""How far the probabilities of a model can be trusted: the temperature of its softmax, from held-out labels.

A softmax over logits states a probability that is right on average only at the right temperature. It is a number with a
posterior: a prior that was measured on other tasks, times the likelihood of the labels that were held out. These labels
also tell whether rectification is left out.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from remp.propagation.adaptive import Adapted
from remp.propagation.held_out import MOST_FOLDS, HeldOut
from remp.rectification.propagate import Propagated

# Logarithms of the inverse temperature that are considered, around the centre of the prior.
_GRID = np.linspace(-3, 3, 121)
# The prior: normal in the logarithm. Its centre falls with 1 / √K for K labels of a class (the mean over classes): the
# fewer labels, the less the logits are worth; less so with more classes that are there, of which more than ten count as
# ten. Measured on validation data: results/tries/robustness.md.
_CENTRE, _FALL, _RISE, _MOST_CLASSES, _WIDTH = 0.1, 2.2, 0.47, 10.0, 0.5
# Its centre for the regression or the graph alone.
_ALONE = 0.5
# The same for the paper's rule: it falls with 1 / K, for similarities of scale 10 (results/tries/label_quality.md).
_PAPER_CENTRE, _PAPER_FALL, _PAPER_SCALE = 0.1, 0.8, 10.0
# Rows that were held out share what the others taught, so that each tells less than an independent one.
_WEIGHT = 0.5
# The share of given labels that may be wrong: such a label says nothing of the temperature.
_WRONG = 0.08
# Others are this much less sure than held-out rows, which had a part in the centre.
_SHRINK = 0.9
# Rectification is left out if the held-out labels are likelier without it by this many standard errors, and if there
# are this many of them for each class.
_HURTS, _LEAST_HELD_OUT = 1.0, 3


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


def calibrate(model: Adapted | Propagated, held_out: HeldOut, counts: np.ndarray) -> Calibration:
    """The posterior of the temperature; the prior where nothing could be held out.

    counts: (N,) labelled rows of each class.
    """
    typical = typical_sharpness(model, counts)
    logs = typical + _GRID
    # held-out rows were scored with fewer labels, at which logits are worth less
    fewer = typical_sharpness(model, np.maximum(1, counts - -(-counts // MOST_FOLDS)))
    held = _log_likelihoods(held_out.scores, held_out.labels, np.exp(logs + fewer - typical))
    log_posterior = _WEIGHT * held - _GRID**2 / (2 * _WIDTH**2)
    weights = np.exp(log_posterior - log_posterior.max())
    return Calibration(_SHRINK * np.exp(logs), weights / weights.sum())


def best_evidence(held_out: HeldOut) -> Literal["all", "regression", "graph"]:
    """What the held-out labels are likeliest by, each at its best temperature: all logits together, unless the
    regression or the graph alone is clearly better."""
    if len(held_out) < _LEAST_HELD_OUT * held_out.scores.shape[1]:
        return "all"
    sharpness = np.exp(np.linspace(-4, 4, 81))
    together = _best_logs(held_out.scores, held_out.labels, sharpness)

    def gain(scores: Tensor) -> float:
        difference = _best_logs(scores, held_out.labels, sharpness) - together
        return float(difference.sum() - _HURTS * difference.std(ddof=1) * np.sqrt(len(difference)))

    regression, graph = gain(held_out.plain), gain(held_out.graph)
    if max(regression, graph) <= 1e-9:
        return "all"
    return "regression" if regression >= graph else "graph"


def typical_sharpness(model: Adapted | Propagated, counts: np.ndarray) -> float:
    """The logarithm of the inverse temperature that fits most tasks with so many labels (N,)."""
    if isinstance(model, Adapted):
        if model.evidence != "all":
            return _ALONE
        shares = torch.softmax(model.log_shares, 0)
        n_there = float(torch.special.entr(shares).sum().exp())  # N if they are equal, 1 if there is but one class
        fall = _FALL - _RISE * np.log(min(n_there, _MOST_CLASSES) / 2)
        return _CENTRE - float(fall * np.mean(1 / np.sqrt(counts)))
    return _PAPER_CENTRE - _PAPER_FALL * float(np.mean(1 / counts)) - float(np.log(model.settings.scale / _PAPER_SCALE))


def _log_likelihoods(scores: Tensor, labels: np.ndarray, sharpness: np.ndarray) -> np.ndarray:
    """(g,) of all labels together, at each sharpness."""
    return np.array([_logs(scores, labels, float(value)).sum() for value in sharpness])


def _best_logs(scores: Tensor, labels: np.ndarray, sharpness: np.ndarray) -> np.ndarray:
    """(m,) of each label, at the sharpness that is best for all."""
    return _logs(scores, labels, float(sharpness[_log_likelihoods(scores, labels, sharpness).argmax()]))


def _logs(scores: Tensor, labels: np.ndarray, sharpness: float) -> np.ndarray:
    """(m,) logarithm of the probability of each label, a few of which may be wrong."""
    probabilities = torch.softmax(scores.double() * sharpness, dim=-1)
    own = probabilities.gather(1, torch.from_numpy(labels).long()[:, None])[:, 0].numpy()
    return np.log((1 - _WRONG) * own + _WRONG / scores.shape[1])
