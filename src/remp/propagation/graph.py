"""Labels that spread along a graph of rows, as a linear function: what rows know that lie between the labels.

Zhou et al., "Learning with Local and Global Consistency", 2004. Rows that are near each other share their labels, so
that classes may have any shape. Here the graph is of the labelled rows and of a sample of the others, and what it says
of these is fitted by a ridge regression: so any other row gets an answer, at the price of one product.
"""

import numpy as np
import torch
from torch import Tensor

from remp.propagation.logistic import Linear
from remp.rectification.similarity import unit
from remp.rows import Shard

# Two rows are linked by exp(20 (cosine - 1)), and a label keeps a fifth of its weight where it was given.
_SHARPNESS, _SPREAD = 20.0, 0.8
# The least logarithm of a class's share of a row below the largest, and the penalty of the ridge regression.
_LEAST, _PENALTY = -10.0, 0.1


def fit_graph(features: Tensor, labels: np.ndarray, n_classes: int, shard: Shard) -> Linear:
    """Spread the labels over the rows, and fit a linear function to the logarithms of what arrives.

    features: (s, d) of norm 1; labels: (s,), -1 for unlabelled. Fitted in the first process; all get the same numbers.
    """
    weights = torch.zeros(features.shape[1], n_classes, dtype=torch.float64)
    bias = torch.zeros(n_classes, dtype=torch.float64)
    if shard.rank == 0:
        rows = features.double()
        products = rows @ rows.T
        lengths = products.diagonal().clamp(min=1e-24).sqrt()
        logs = _spread(products / lengths[:, None] / lengths, labels, n_classes).clamp(min=1e-300).log()
        logs = (logs - logs.amax(1, keepdim=True)).clamp(min=_LEAST)
        logs = logs - logs.mean(1, keepdim=True)
        bias = logs.mean(0)
        weights = _ridge(rows, products, logs - bias)
    weights, bias = shard.sums(weights, bias)
    return Linear(weights, bias)


def spread_labels(rows: Tensor, labels: np.ndarray, n_classes: int) -> Tensor:
    """How much of each class arrives at each row (s, N): (1 - a S)^-1 Y, S = D^-1/2 W D^-1/2, a label of each class
    counting one over their number."""
    rows = unit(rows)
    return _spread(rows @ rows.T, labels, n_classes)


def _spread(cosines: Tensor, labels: np.ndarray, n_classes: int) -> Tensor:
    links = torch.exp(_SHARPNESS * (cosines - 1)).fill_diagonal_(0)
    degrees = links.sum(1).clamp(min=1e-12).sqrt()
    links = links / degrees[:, None] / degrees
    given = torch.zeros(len(links), n_classes, dtype=links.dtype)
    labelled = np.flatnonzero(labels >= 0)
    given[labelled, labels[labelled]] = 1
    given = given / given.sum(0).clamp(min=1)
    return _solve(torch.eye(len(links), dtype=links.dtype) - _SPREAD * links, given)


def _ridge(rows: Tensor, products: Tensor, targets: Tensor) -> Tensor:
    """(s, d), their products (s, s), (s, N) -> (d, N). In the space of the rows, since their products are known, unless
    it is much the larger one."""
    if len(rows) <= 2 * rows.shape[1]:
        return rows.T @ _solve(products + _PENALTY * torch.eye(len(rows)), targets)
    return _solve(rows.T @ rows + _PENALTY * torch.eye(rows.shape[1]), rows.T @ targets)


def _solve(matrix: Tensor, targets: Tensor) -> Tensor:
    """By Cholesky, since all these matrices are symmetric and positive definite, unless numbers that are not finite or
    too large keep it from that."""
    factor, failed = torch.linalg.cholesky_ex(matrix)
    return torch.linalg.solve(matrix, targets) if failed else torch.cholesky_solve(targets, factor)
