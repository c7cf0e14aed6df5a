"""How many of the unlabelled rows are of each class, and how far that can be believed.

Saerens, Latinne and Decaestecker, "Adjusting the outputs of a classifier to new a priori probabilities", 2002: the
shares that make the rows likeliest, found by EM from probabilities that are right on average. But a classifier of a few
labels prefers some classes by chance, and EM makes more of that in each step. Without a part of the labels it prefers
others: shares that change when labels are hidden are mostly chance. So the logarithms of the shares are multiplied with
the part of their variance that is not chance, as James and Stein shrink means towards each other; the jackknife tells
how much is chance, from how the shares change without the labels of each fold.

Classes of about equal size look unequal for the same reason. Where the preferences are no larger than such labels cause
by chance, the classes count as equal, and what the classifier prefers is subtracted.
"""

from typing import NamedTuple

import torch
from torch import Tensor

# In each step of EM, so much of all rows is added to the classes, in equal parts; the number of steps; how many times
# the variance by chance is subtracted from that of the shares: results/tries/robustness.md.
_EQUAL, _STEPS, _CAUTION = 0.1, 60, 2.0
# With so many unlabelled rows, their shares count half.
_FEW = 5.0
# What a classifier prefers counts half as chance if its standard deviation between classes is 0.45 / K^0.15 of that of
# a row's logits, for K labels of each class; it falls with the 8th power of that. Steps in which it is found.
_BY_CHANCE, _FALLS, _POWER, _STEPS_TO_EQUAL = 0.45, 0.15, 8, 30
# With so many unlabelled rows of each class, it is trusted half: their own numbers differ by chance, too.
_FEW_OF_A_CLASS = 4.0


def log_shares(logits: Tensor, of_folds: Tensor) -> Tensor:
    """Logarithms of the shares (N,), to be added to the logits; their mean is 0.

    logits: (m, N) of unlabelled rows, calibrated, as if all classes had equal shares. of_folds: (F, m, N) the same by F
    classifiers, each without the labels of one fold.
    """
    found, without = _likeliest(logits), _likeliest(of_folds)
    n_folds, n_classes = without.shape
    by_chance = (n_folds - 1) / n_folds * (without - without.mean(0)).square().sum(0).mean()
    variance = found.square().sum() / (n_classes - 1)
    agreed = (1 - _CAUTION * by_chance / variance.clamp(min=1e-12)).clamp(min=0)
    return found * agreed * trust_in(logits.shape[0])


class Equality(NamedTuple):
    """Whether the classes are of about equal size. offsets: (N,) what must be added to the logits so that all classes
    get as many rows; their mean is 0. certainty: 0 … 1, how far such offsets are no more than chance."""

    offsets: Tensor
    certainty: float


def equality_of(logits: Tensor, n_shot: float) -> Equality:
    """logits: (m, N) of unlabelled rows, about calibrated, as if all classes had equal shares; m at least 1, N at least
    2. n_shot: labels of each class, the harmonic mean over classes."""
    n_rows, n_classes = logits.shape
    offsets = torch.zeros(n_classes, dtype=logits.dtype)
    for _ in range(_STEPS_TO_EQUAL):
        masses = torch.softmax(logits + offsets, -1).sum(0)
        offsets = offsets - torch.log(masses.clamp(min=1e-12) * n_classes / n_rows)
    offsets = offsets - offsets.mean()
    preference = float(offsets.std() / logits.std(1, correction=0).mean().clamp(min=1e-12))
    by_chance = 1 / (1 + (preference * n_shot**_FALLS / _BY_CHANCE) ** _POWER)
    return Equality(offsets, by_chance * n_rows / (n_rows + _FEW_OF_A_CLASS * n_classes))


def trust_in(n_rows: float) -> float:
    """What the logarithms of shares are multiplied with that so many unlabelled rows have, 0 … 1: those of one row say
    hardly anything of rows to come."""
    return n_rows / (n_rows + _FEW)


def _likeliest(logits: Tensor) -> Tensor:
    """Logits (…, m, N) -> logarithms of the shares that make the rows likeliest, with mean 0 (…, N).

    In the loop the shares are numbers of rows, which a common factor does not change.
    """
    n_rows, n_classes = logits.shape[-2:]
    likelihoods = torch.exp(logits - logits.amax(-1, keepdim=True))
    shares = torch.ones_like(likelihoods[..., 0, :])
    for _ in range(_STEPS):
        of_rows = likelihoods @ shares.unsqueeze(-1)  # (…, m, 1)
        counts = shares * (likelihoods.mT @ of_rows.reciprocal()).squeeze(-1)  # (…, N) rows expected of each class
        shares = counts + _EQUAL * n_rows / n_classes
    logs = shares.log()
    return logs - logs.mean(-1, keepdim=True)
