"""Labels that spread along a graph of rows, as a linear function: what rows know that lie between the labels.

Zhou et al., "Learning with Local and Global Consistency", 2004. Rows that are near each other share their labels, so
that classes may have any shape. Here the graph is of the labelled rows and of a sample of the others, and what it says
of these is fitted by a ridge regression: so any other row gets an answer, at the price of one product. The matrices are
factored once, for as many labellings of the same rows as there are.
"""

import numpy as np
import torch
from torch import Tensor

from remp.propagation.logistic import Linear

# Two rows are linked by exp(20 (cosine - 1)), and a label keeps a fifth of its weight where it was given.
_SHARPNESS, _SPREAD = 20.0, 0.8
# The least logarithm of a class's share of a row below the largest, and the penalty of the ridge regression.
_LEAST, _PENALTY = -10.0, 0.1


class Graph:
    """Of rows (s, d) of norm 1, in their precision. cosines: (s, s) of these, if they are known."""

    def __init__(self, rows: Tensor, cosines: Tensor | None = None) -> None:
        self._rows = rows
        cosines = rows @ rows.T if cosines is None else cosines
        links = cosines.sub(1).mul_(_SHARPNESS).exp_().fill_diagonal_(0)
        degrees = links.sum(1).clamp(min=1e-12).rsqrt()
        links.mul_(degrees[:, None]).mul_(degrees).mul_(-_SPREAD).diagonal().add_(1)
        self._spread = _Solver(links)
        # in the space of the rows, whose products are known, unless it is much the larger one
        self._is_dual = len(rows) <= 2 * rows.shape[1]
        products = cosines.clone() if self._is_dual else rows.T @ rows
        products.diagonal().add_(_PENALTY)
        self._ridge = _Solver(products)

    def spread(self, labels: np.ndarray, n_classes: int) -> Tensor:
        """How much of each class arrives at each row (s, N): (1 - a S)^-1 Y, S = D^-1/2 W D^-1/2, a label of each class
        counting one over their number. labels: (s,), -1 for unlabelled."""
        given = torch.zeros(len(labels), n_classes, dtype=self._rows.dtype)
        labelled = np.flatnonzero(labels >= 0)
        given[labelled, labels[labelled]] = 1
        return self._spread(given / given.sum(0).clamp(min=1))

    def linear(self, labels: np.ndarray, n_classes: int) -> Linear:
        """A linear function fitted to the logarithms of what arrives."""
        logs = self.spread(labels, n_classes).double().clamp(min=1e-300).log()
        logs = (logs - logs.amax(1, keepdim=True)).clamp(min=_LEAST)
        logs = logs - logs.mean(1, keepdim=True)
        bias = logs.mean(0)
        targets = (logs - bias).to(self._rows)
        if self._is_dual:
            weights = (self._ridge(targets).T @ self._rows).T
        else:
            weights = self._ridge((targets.T @ self._rows).T)
        return Linear(weights.double(), bias)


class _Solver:
    """By Cholesky, since these matrices are symmetric and positive definite, unless numbers that are not finite or too
    large keep it from that."""

    def __init__(self, matrix: Tensor) -> None:
        self._factor, failed = torch.linalg.cholesky_ex(matrix)
        self._matrix = matrix if failed else None

    def __call__(self, targets: Tensor) -> Tensor:
        if self._matrix is not None:
            return torch.linalg.solve(self._matrix, targets)
        return torch.cholesky_solve(targets, self._factor)
