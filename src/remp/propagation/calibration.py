"""How far the probabilities of a model can be trusted: the temperature of its softmax, from held-out labels.

A softmax over logits states a probability that is right on average only at the right temperature. It is a number with a
posterior: a prior that was measured on other tasks, times the likelihood of the labels that were held out. These labels
also tell how much each kind of evidence counts, and so whether rectification is weakened or left out.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from remp.propagation import sample_of
from remp.propagation.adaptive import Adapted, EvidenceLogits, EvidenceWeights
from remp.propagation.held_out import MOST_FOLDS, HeldOut
from remp.propagation.shares import trust_in
from remp.rectification.propagate import Propagated

# "Sharpness" is the inverse temperature. Its logarithms that are considered, less the typical one.
_GRID = np.linspace(-5, 3, 161)
# The logarithm of the typical sharpness: -1.85 - (2.7 - 1.4 log(min(N, 5) / 2)) / √K + 2 a + 0.35 e, for K labels of
# each of N classes (the mean over these): the fewer labels, the less the logits are worth. a and e: agreement and
# equality, as in Signs. Measured on validation data: results/tries/robustness.md.
_CENTRE, _FALL, _RISE, _MOST_CLASSES, _BY_AGREEMENT, _BY_EQUALITY = -1.85, 2.7, 1.4, 5, 2.0, 0.35
# The same for the regression alone, without layers, for any number of labels.
_ALONE = 0.4
# The same for the paper's rule: -0.8 / K, for similarities of scale 10 (results/tries/label_quality.md).
_PAPER_FALL, _PAPER_SCALE = 0.8, 10.0
# What is subtracted if labelled rows are easier than others, times how much easier they are.
_EASY = 2.25
# The prior over the grid, whose median is the typical value: share, mean and standard deviation of two normal parts. In
# one collection of ten the features hardly tell the classes apart, however clear the clusters are that they form.
_PRIOR = ((0.9, 0.06, 0.45), (0.1, -2.0, 1.0))
# What the logarithm of the likelihood is multiplied with: rows that were held out share what the others taught, so that
# each tells less than an independent one.
_WEIGHT = 0.5
# Shares of given labels that may be wrong, each as probable: such a label says nothing of the temperature. And the one
# that is reckoned with while evidence is weighed.
WRONG_SHARES, _USUALLY_WRONG = (0.005, 0.02, 0.05, 0.08, 0.12, 0.16, 0.2), 0.08
# The range of the logarithm of the sharpness while evidence is weighed.
_SHARPNESSES = (-3.0, 3.0)
# Evidence is weighed if there are 2 held-out labels for each class; more than 2000 in all tell nothing new. A weight w
# costs 0.5 (w - 1)², which holds it at 1 if there are few; one below 0.1 becomes 0.
_LEAST_HELD_OUT, _MOST_HELD_OUT, _STAY, _NONE = 2, 2000, 0.5, 0.1
# It is not weighed if the held-out labels are of less than this share of the classes.
_COVERED = 0.8


class Signs(NamedTuple):
    """What unlabelled rows tell of how much the logits are worth; by default, what they do in most tasks.

    agreement: 0 … 1, how often two kinds of evidence have the same answer. equality: 0 … 1, the certainty that the
    classes are of equal size.
    """

    agreement: float = 0.87
    equality: float = 0.0


_TYPICAL = Signs()


def agreement_of(logits: EvidenceLogits) -> float:
    """How often two kinds of evidence have the same answer, over all pairs of kinds that say anything. logits: of
    unlabelled rows. With few rows, or a single kind, near to what is typical."""
    kinds = (logits.regression, logits.cosine, logits.graph)
    answers = [kind.argmax(1) for kind in kinds if kind.any()]  # without l2 there is no graph
    shares = [float((one == other).double().mean()) for place, one in enumerate(answers) for other in answers[:place]]
    found = float(np.mean(shares)) if shares else _TYPICAL.agreement
    return _TYPICAL.agreement + trust_in(len(logits.regression)) * (found - _TYPICAL.agreement)


@dataclass(frozen=True)
class Calibration:
    """sharpness: (g,) inverse temperatures, ascending; weights: (g,) their posterior probabilities."""

    sharpness: np.ndarray
    weights: np.ndarray

    @property
    def best(self) -> float:
        """The median sharpness."""
        return float(np.exp(np.interp(0.5, self.weights.cumsum() - self.weights / 2, np.log(self.sharpness))))

    def probabilities(self, logits: Tensor) -> Tensor:
        """Logits (m, N) -> probabilities (m, N), float64."""
        return torch.softmax(logits.double() * self.best, dim=-1)


def calibrate(
    model: Adapted | Propagated,
    held_out: HeldOut,
    counts: np.ndarray,
    *,
    signs: Signs = _TYPICAL,
    ease: float = 0.0,
) -> Calibration:
    """The posterior of the temperature; the prior where nothing could be held out.

    counts: (N,) labelled rows of each class. ease: how much easier labelled rows are than others, by `ease_of`.
    """
    typical = typical_sharpness(model, counts, signs)
    # Held-out rows were scored with the labels of one fold less, at which logits are worth less.
    fewer = typical_sharpness(model, np.maximum(1, counts - -(-counts // MOST_FOLDS)), signs)
    scores = held_out.scores.double()
    by_wrong = [_log_likelihoods(scores * value, held_out.labels) for value in np.exp(fewer + _GRID)]  # (g, shares)
    likelihood = np.logaddexp.reduce(_WEIGHT * held_out.covered * np.array(by_wrong), axis=1)
    prior = sum(share / width * np.exp(-((_GRID - mean) ** 2) / (2 * width**2)) for share, mean, width in _PRIOR)
    log_posterior = likelihood + np.log(prior)
    weights = np.exp(log_posterior - log_posterior.max())
    return Calibration(np.exp(typical + _GRID - _EASY * ease), weights / weights.sum())


def weigh_evidence(held_out: HeldOut) -> EvidenceWeights:
    """How much the regression, the graph and the cosine count: the weights by which the held-out labels are likeliest,
    at the temperature that is best for these weights, but not far from the usual ones unless many labels ask for it.
    All 1 where too few labels could be held out.

    The weighted logits vary as much between classes as before, so that they count as much beside the logarithms of the
    shares, which are added to them.
    """
    n_classes = held_out.scores.shape[1]
    if len(held_out) < _LEAST_HELD_OUT * n_classes or n_classes == 1 or held_out.covered < _COVERED:
        return EvidenceWeights()
    few = sample_of(np.arange(len(held_out)), _MOST_HELD_OUT)
    scores, plain, graph = (logits[few].double() for logits in (held_out.scores, held_out.plain, held_out.graph))
    labels, kinds = held_out.labels[few], torch.stack([plain, graph, scores - plain - graph])  # (3, m, N)

    def loss(numbers: np.ndarray) -> tuple[float, np.ndarray]:
        values = torch.tensor(numbers, requires_grad=True)
        sharpness, weights = values[0].exp(), values[1:]
        own = _of_labels(sharpness * torch.tensordot(weights, kinds, 1), labels)
        unlikely = -_log_of_given(own, n_classes, _USUALLY_WRONG)
        total = _WEIGHT * unlikely + _STAY * (weights - 1).square().sum()
        total.backward()
        return total.item(), values.grad.numpy()  # type: ignore[union-attr]

    from scipy.optimize import minimize

    start, bounds = [0.0, 1.0, 1.0, 1.0], [_SHARPNESSES, *[(0, None)] * 3]
    weights = torch.from_numpy(minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x[1:])
    width = torch.tensordot(weights, kinds, 1).std(1).mean()
    weights = weights * scores.std(1).mean() / width.clamp(min=1e-12)
    return EvidenceWeights(*(weights * (weights >= _NONE)).tolist())


def typical_sharpness(model: Adapted | Propagated, counts: np.ndarray, signs: Signs = _TYPICAL) -> float:
    """The logarithm of the sharpness that fits most tasks with so many labels of each class (N,) and these signs."""
    if isinstance(model, Adapted):
        if not model.settings.layers:
            return _ALONE
        fall = _FALL - _RISE * np.log(min(len(model.prototypes), _MOST_CLASSES) / 2)
        by_signs = _BY_AGREEMENT * signs.agreement + _BY_EQUALITY * signs.equality
        return float(_CENTRE - fall * np.mean(1 / np.sqrt(counts)) + by_signs)
    return -_PAPER_FALL * float(np.mean(1 / counts)) - float(np.log(model.settings.scale / _PAPER_SCALE))


def _log_likelihoods(logits: Tensor, labels: np.ndarray) -> list[float]:
    """The logarithm of the probability of all labels (m,), for each share of wrong ones."""
    own = _of_labels(logits, labels)
    return [float(_log_of_given(own, logits.shape[1], wrong)) for wrong in WRONG_SHARES]


def _of_labels(logits: Tensor, labels: np.ndarray) -> Tensor:
    """Logits (m, N) -> the probability of each label (m,)."""
    return torch.softmax(logits, dim=-1).gather(1, torch.from_numpy(labels).long()[:, None])[:, 0]


def _log_of_given(own: Tensor, n_classes: int, wrong: float) -> Tensor:
    """The logarithm of the probability that labels are given which are right with probability own (m,), if this share
    of all is drawn at random instead."""
    return torch.log((1 - wrong) * own + wrong / n_classes).sum()
