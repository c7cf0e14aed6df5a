"""What lies around the labelled rows: along which ways their labels spread, and whether their classes are there at all.

One label says little of how many rows its class has. Its surroundings do: a row of a class that is among the others has
neighbours as near as theirs are, a row of a class that is not has none.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from remp.propagation.logistic import Linear

# So many nearest unlabelled rows are looked at. A class whose labels are this many standard deviations further from
# them than unlabelled rows are counts as present; each further one takes 2 from the logarithm of its share.
_NEIGHBOURS, _AT_HOME, _TAKES = 5, 1.6, 2.0
# The least that is added, and how many labels count as independent: those that people choose are often odd ones.
_LEAST, _INDEPENDENT = -8.0, 2
# The least standard deviation of cosines, for rows that are copies of each other.
_LEAST_SPREAD = 1e-6
# If the squared norm of the centre of rows of norm 1 is nearer to 1 than this, float32 does not tell them apart.
_ALIKE = 0.01
# Two rows are linked by exp(20 (cosine - 1)), and a label keeps a fifth of its weight where it was given.
_SHARPNESS, _SPREAD = 20.0, 0.8
# The least logarithm of a class's share of a row below the largest, and the penalty of the ridge regression.
_LEAST_LOG, _PENALTY = -10.0, 0.1


class Graph:
    """Labels that spread along a graph of rows (s, d) of norm 1, as a linear function: what rows know that lie between
    the labels. In the precision of the rows. cosines: (s, s) of these, if they are known.

    Zhou et al., "Learning with Local and Global Consistency", 2004. Rows that are near each other share their labels,
    so that classes may have any shape. Here the graph is of the labelled rows and of a sample of the others, and what
    it says of these is fitted by a ridge regression: so any other row gets an answer, at the price of one product. The
    matrices are factored once, for as many labellings of the same rows as there are.
    """

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
        logs = (logs - logs.amax(1, keepdim=True)).clamp(min=_LEAST_LOG)
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


@dataclass(frozen=True)
class Told:
    """graph: labels that spread along it. presence: (N,) at most 0, what is added to the logits of classes whose labels
    have no neighbours."""

    graph: Linear
    presence: Tensor


@dataclass(frozen=True)
class Surroundings:
    """numbers: (s,) of the rows that are looked at, ascending. cosines: (s, s) of these, not centred. graph: of the
    centred ones, None where there can be none."""

    numbers: np.ndarray
    cosines: Tensor
    graph: Graph | None
    dim: int

    def of(self, labels: np.ndarray, n_classes: int) -> Told:
        """labels: (n,) of all rows, -1 for unlabelled; some that were labelled before may be hidden."""
        here = labels[self.numbers]
        graph = nothing(self.dim, n_classes) if self.graph is None else self.graph.linear(here, n_classes)
        return Told(graph, log_presence(self.cosines, here, n_classes))


def surroundings_of(numbers: np.ndarray, rows: Tensor, centre: Tensor | None, has_graph: bool) -> Surroundings:
    """numbers: (s,) of these rows. rows: (s, d) transformed but for centring, of norm 1 if there is to be a graph.

    In float32, which takes half the time, unless the rows are nearly the same.
    """
    is_alike = centre is not None and 1 - float(centre.double() @ centre.double()) < _ALIKE
    if is_alike or not has_graph:
        rows = rows.double()
    products = rows @ rows.T
    cosines = products
    if not has_graph:
        lengths = products.diagonal().clamp(min=1e-24).sqrt()
        cosines = products / lengths[:, None] / lengths
        return Surroundings(numbers, cosines, None, rows.shape[1])
    if centre is None:
        return Surroundings(numbers, cosines, Graph(rows, products), rows.shape[1])
    centre = centre.to(rows)
    along = rows @ centre  # products of centred rows follow from those that are known
    centred = products - along[:, None] - along + centre @ centre
    lengths = centred.diagonal().clamp(min=1e-24).sqrt()
    centred.div_(lengths[:, None]).div_(lengths)
    return Surroundings(numbers, cosines, Graph((rows - centre) / lengths[:, None], centred), rows.shape[1])


def log_presence(cosines: Tensor, labels: np.ndarray, n_classes: int) -> Tensor:
    """(s, s), (s,) -> (N,): 0 for a class whose labels are at home among the unlabelled rows, less for others.

    How near the nearest unlabelled rows are, on average, in units of how that differs among the unlabelled rows.
    """
    free = torch.from_numpy(np.flatnonzero(labels < 0))
    is_known = np.flatnonzero(labels >= 0)
    if len(free) <= _NEIGHBOURS:
        return torch.zeros(n_classes, dtype=torch.float64)
    to_free = cosines[:, free].index_put((free, torch.arange(len(free))), cosines.new_tensor(-2.0))  # not themselves
    near = to_free.topk(_NEIGHBOURS, dim=1).values.double().mean(1)
    own = near[free]
    counts = torch.from_numpy(np.bincount(labels[is_known], minlength=n_classes))
    sums = torch.zeros(n_classes, dtype=torch.float64)
    sums.index_add_(0, torch.from_numpy(labels[is_known]).long(), near[is_known] - own.mean())
    distance = (
        -sums
        / counts.clamp(min=1)
        / own.std().clamp(min=_LEAST_SPREAD)
        * counts.clamp(max=_INDEPENDENT).double().sqrt()
    )
    presence = -_TAKES * (distance - _AT_HOME).clamp(min=0)
    return (presence - presence.max()).clamp(min=_LEAST)


def nothing(dim: int, n_classes: int) -> Linear:
    """A linear function that says nothing."""
    return Linear(torch.zeros(dim, n_classes, dtype=torch.float64), torch.zeros(n_classes, dtype=torch.float64))
