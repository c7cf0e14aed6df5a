"""Logistic regression on the labelled rows: what many labels know better than class means."""

import threading
import warnings
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from threadpoolctl import ThreadpoolController
from torch import Tensor

from remp.rows import Shard

# Strength of the fit, for rows of norm 1: scikit-learn's C.
_FREEDOM = 10.0
_MOST_STEPS, _TOLERANCE = 200, 1e-4
# Multiplications of one step beyond which class means stand in: minutes for thousands of classes with a label each.
_MOST_WORK = 5e9
# The length of the class means then, about that of the weights of a regression on one row per class.
_LENGTH = 4.0


@dataclass(frozen=True)
class Linear:
    """weights: (d, N), bias: (N,): logits of rows (m, d) are rows @ weights + bias."""

    weights: Tensor
    bias: Tensor

    @classmethod
    def zero(cls, dim: int, n_classes: int) -> "Linear":
        """The function that says nothing."""
        return cls(torch.zeros(dim, n_classes, dtype=torch.float64), torch.zeros(n_classes, dtype=torch.float64))

    def __add__(self, other: "Linear") -> "Linear":
        return Linear(self.weights + other.weights, self.bias + other.bias)

    def __mul__(self, factor: float) -> "Linear":
        return Linear(self.weights * factor, self.bias * factor)


def fit_logistic(features: Tensor, labels: np.ndarray, n_classes: int, shard: Shard) -> Linear:
    """Multinomial logistic regression, ridge penalty, classes of equal weight however many labels they have.

    features: (s, d) of the labelled rows, labels: (s,). Fitted in the first process; all get the same numbers.
    """
    found = Linear.zero(features.shape[1], n_classes)
    weights, bias = found.weights, found.bias
    if shard.rank == 0 and n_classes > 1:
        basis, rows = _in_span(features.double())
        if len(features) * rows.shape[1] * n_classes > _MOST_WORK:
            weights = _LENGTH * _unit_means(features.double(), labels, n_classes).T
        else:
            inside, bias = _regress(rows.numpy(), labels)
            weights = basis @ inside
    return Linear(*shard.sums(weights, bias))


def _in_span(features: Tensor) -> tuple[Tensor, Tensor]:
    """A basis (d, k) of the span of few rows, and the rows in it (s, k): the penalty keeps the weights in that span."""
    if len(features) > features.shape[1] / 2:  # not few: finding the basis takes longer than it saves
        return torch.eye(features.shape[1], dtype=features.dtype), features
    basis, _ = torch.linalg.qr(features.T)
    return basis, features @ basis


def _regress(rows: np.ndarray, labels: np.ndarray) -> tuple[Tensor, Tensor]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=_FREEDOM, max_iter=_MOST_STEPS, tol=_TOLERANCE, class_weight="balanced")
    # Filters and limits are those of the whole process. With two threads the small products of a fit take longer.
    with _ONE_FIT, _libraries().limit(limits=1, user_api="blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # near enough: the logits are calibrated later
        warnings.filterwarnings("ignore", "The number of unique classes")  # there are few labels of each, as ever here
        model.fit(rows, labels)
    weights, bias = torch.from_numpy(model.coef_.T.copy()), torch.from_numpy(model.intercept_.copy())
    if len(model.classes_) == 2:  # one column for two classes
        weights, bias = torch.cat([-weights / 2, weights / 2], 1), torch.cat([-bias / 2, bias / 2])
    return weights, bias


_ONE_FIT = threading.Lock()


@cache
def _libraries() -> ThreadpoolController:
    """Those that are loaded when the first regression is fitted; looking for them takes as long as a small fit."""
    return ThreadpoolController()


def _unit_means(features: Tensor, labels: np.ndarray, n_classes: int) -> Tensor:
    sums = torch.zeros(n_classes, features.shape[1], dtype=features.dtype)
    sums.index_add_(0, torch.from_numpy(labels).long(), features)
    return torch.nn.functional.normalize(sums, dim=1)
