"""How many of the unlabelled rows are of each class, and how far that can be believed.

Saerens, Latinne and Decaestecker, "Adjusting the outputs of a classifier to new a priori probabilities", 2002: the
shares that make the rows likeliest, found by EM from probabilities that are right on average. But a few labels make a
classifier that prefers some classes by chance, and EM makes more of that in each step. Without a part of the labels it
prefers others: shares that change when labels are hidden are mostly chance. They are shrunk towards equal ones by as
much, as James and Stein shrink means towards each other; how much they change is the jackknife's estimate.
"""

import torch
from torch import Tensor

# So much of all rows is added to the classes, in equal parts; steps of EM; how often the variance by chance is taken
# from that of the shares: results/tries/robustness.md.
_EQUAL, _STEPS, _CAUTION = 0.1, 60, 2.0
# With so many unlabelled rows, their shares count half.
_FEW = 5.0


def log_shares(logits: Tensor, of_folds: Tensor) -> Tensor:
    """(m, N) calibrated logits of unlabelled rows as if all classes had equal shares, and the same by classifiers that
    lack the labels of one of F folds each (F, m, N) -> (N,) what is to be added to the logits; its mean is 0."""
    found, without = _likeliest(logits), _likeliest(of_folds)
    n_folds, n_classes = without.shape
    by_chance = (n_folds - 1) / n_folds * (without - without.mean(0)).square().sum(0).mean()
    variance = found.square().sum() / (n_classes - 1)
    agreed = (1 - _CAUTION * by_chance / variance.clamp(min=1e-12)).clamp(min=0)
    return found * agreed * trust_in(logits.shape[0])


def trust_in(n_rows: float) -> float:
    """How far the shares of so many unlabelled rows count for rows to come, 0 … 1: of one row, hardly at all."""
    return n_rows / (n_rows + _FEW)


def _likeliest(logits: Tensor) -> Tensor:
    """Logarithms of the shares that make the rows likeliest, with mean 0: (…, m, N) -> (…, N). On the way, the shares
    are counts of rows: a common factor changes nothing."""
    n_rows, n_classes = logits.shape[-2:]
    likelihoods = torch.exp(logits - logits.amax(-1, keepdim=True))
    shares = torch.ones_like(likelihoods[..., 0, :])
    for _ in range(_STEPS):
        of_rows = likelihoods @ shares.unsqueeze(-1)  # (…, m, 1)
        counts = shares * (likelihoods.mT @ of_rows.reciprocal()).squeeze(-1)  # (…, N) rows that are expected of each
        shares = counts + _EQUAL * n_rows / n_classes
    logs = shares.log()
    return logs - logs.mean(-1, keepdim=True)
