"""What lies around the labelled rows: how their labels spread along a graph of rows, and whether a class has any
unlabelled rows at all.

One label says little about how many rows its class has. Its surroundings say more: if the class is among the unlabelled
rows, a labelled row has neighbours there as near as those of an unlabelled row; if it is not, they are further away.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from remp.propagation.logistic import Linear

# A row's distance is to its 5 nearest unlabelled rows. A class counts as present while its labels are at most 1.6
# standard deviations further from these than unlabelled rows are; each further one takes 2 from its logit.
_NEIGHBOURS, _TOLERATED, _TAKES = 5, 1.6, 2.0
# No more is taken than 8. The mean over K labels counts as that of 2 independent ones at most: labels that people
# choose are often odd ones.
_LEAST, _INDEPENDENT = -8.0, 2
# The least standard deviation of cosines, for rows that are copies of each other.
_LEAST_SPREAD = 1e-6
# If the squared norm of the centre of rows of norm 1 is nearer to 1 than this, float32 does not tell them apart.
_ALIKE = 0.01
# Two rows are linked by exp(20 (cosine - 1)); of what is at a row, 0.8 goes on to its neighbours in each step.
_SHARPNESS, _SPREAD = 20.0, 0.8
# How far the logarithm of a class may lie below that of the largest; the penalty of the ridge regression on these.
_LEAST_LOG, _PENALTY = -10.0, 0.1


@dataclass(frozen=True)
class Neighbours:
    """Logits of any row by the graph itself: by how near the rows of the graph are, and what arrives at these.

    rows: (s, d) of the graph, of norm 1, float32. arrived: (s, N) how much of each class arrives at each of them,
    divided by the root of its degree, float64. weight: what the logits are multiplied with.
    """

    rows: Tensor
    arrived: Tensor
    weight: float = 1.0

    def __call__(self, cosines: Tensor) -> Tensor:
        """Cosines (m, s) of m rows with those of the graph -> (m, N) logarithms of what would arrive at the m rows if
        they were linked to the graph. For an unlabelled row of the graph itself that is what arrives there: its link to
        itself multiplies the numbers of all classes alike."""
        links = cosines.sub(1).mul_(_SHARPNESS).exp_()
        return self.weight * _logs(links @ self.arrived.to(links)).to(cosines)

    def __mul__(self, factor: float) -> "Neighbours":
        return replace(self, weight=self.weight * factor)


class Graph:
    """A graph of rows, along which labels spread.

    Zhou et al., "Learning with Local and Global Consistency", 2004. Rows that are near each other share their labels,
    so that classes may have any shape. Here the graph is of the labelled rows and of a sample of the others. Any other
    row gets its logits by its neighbours in the graph (`neighbours`), or, at the price of one product, by a linear
    function that is fitted to the logits of the graph's own rows (`linear`).
    """

    def __init__(self, rows: Tensor, cosines: Tensor) -> None:
        """rows: (s, d) of norm 1; all is computed in their precision. cosines: (s, s) of these.

        The matrices are factored here, once for any number of labellings of these rows.
        """
        self._rows = rows
        links = cosines.sub(1).mul_(_SHARPNESS).exp_().fill_diagonal_(0)
        degrees = links.sum(1).clamp(min=1e-12).rsqrt()
        links.mul_(degrees[:, None]).mul_(degrees).mul_(-_SPREAD).diagonal().add_(1)
        self._spread, self._degrees = _solver(links), degrees
        # in the space of the rows, whose products are known, unless it is much the larger one
        self._is_dual = len(rows) <= 2 * rows.shape[1]
        products = cosines.clone() if self._is_dual else rows.T @ rows
        products.diagonal().add_(_PENALTY)
        self._ridge = _solver(products)

    def spread(self, labels: np.ndarray, n_classes: int) -> Tensor:
        """How much of each class arrives at each row (s, N): (1 - a S)^-1 Y with a = 0.8 and S = D^-1/2 W D^-1/2; in Y,
        each of K labels of a class counts 1 / K. labels: (s,), -1 for unlabelled."""
        given = torch.zeros(len(labels), n_classes, dtype=self._rows.dtype)
        labelled = np.flatnonzero(labels >= 0)
        given[labelled, labels[labelled]] = 1
        return self._spread(given / given.sum(0).clamp(min=1))

    def neighbours(self, arrived: Tensor) -> Neighbours:
        """Logits of any row, from what arrives at the rows of the graph (s, N)."""
        return Neighbours(self._rows.float(), (arrived * self._degrees[:, None]).double().contiguous())

    def linear(self, arrived: Tensor) -> Linear:
        """A linear function, fitted to the logarithms of what arrives at the rows of the graph (s, N)."""
        logs = _logs(arrived)
        bias = logs.mean(0)
        targets = (logs - bias).to(self._rows)
        if self._is_dual:
            weights = (self._ridge(targets).T @ self._rows).T
        else:
            weights = self._ridge((targets.T @ self._rows).T)
        return Linear(weights.double(), bias)


def _logs(arrived: Tensor) -> Tensor:
    """Logarithms of what arrives (m, N), float64: each row cut off at 10 below its largest, then minus its mean."""
    logs = arrived.double().clamp(min=1e-300).log()
    logs = (logs - logs.amax(1, keepdim=True)).clamp(min=_LEAST_LOG)
    return logs - logs.mean(1, keepdim=True)


def _solver(matrix: Tensor) -> Callable[[Tensor], Tensor]:
    """The function from targets to X with matrix @ X = targets. By Cholesky, since these matrices are symmetric and
    positive definite; another way only if numbers that are not finite or too large prevent that."""
    factor, failed = torch.linalg.cholesky_ex(matrix)
    if failed:
        return lambda targets: torch.linalg.solve(matrix, targets)
    return lambda targets: torch.cholesky_solve(targets, factor)


@dataclass(frozen=True)
class LocalEvidence:
    """What the surroundings of the labelled rows say of the classes.

    graph: logits by the graph, as a linear function. neighbours: logits by the graph itself, if they are asked for.
    presence: (N,) 0, or less where the labels of a class have no near unlabelled rows; added to the logits.
    """

    graph: Linear
    neighbours: Neighbours | None
    presence: Tensor


@dataclass(frozen=True)
class Surroundings:
    """A sample of labelled and unlabelled rows, for any labels of these.

    numbers: (s,) which rows they are, ascending. cosines: (s, s) of these, not centred. graph: of these, centred; None
    without l2. dim: d of a row. asks_graph: whether rows get their logits by the graph itself, not only by the linear
    function.
    """

    numbers: np.ndarray
    cosines: Tensor
    graph: Graph | None
    dim: int
    asks_graph: bool

    def evidence(self, labels: np.ndarray, n_classes: int) -> LocalEvidence:
        """What they say with these labels (n,) of all rows, -1 for unlabelled, of which some may be hidden."""
        here = labels[self.numbers]
        presence = log_presence(self.cosines, here, n_classes)
        if self.graph is None:
            return LocalEvidence(Linear.zero(self.dim, n_classes), None, presence)
        arrived = self.graph.spread(here, n_classes)
        neighbours = self.graph.neighbours(arrived) if self.asks_graph else None
        return LocalEvidence(self.graph.linear(arrived), neighbours, presence)


def surroundings_of(
    numbers: np.ndarray, rows: Tensor, centre: Tensor | None, *, has_graph: bool, asks_graph: bool = False
) -> Surroundings:
    """numbers: (s,) which rows they are. rows: (s, d) transformed except for centring, of norm 1 if `has_graph`.
    centre: (d,) what is then subtracted, or None.

    In float32, which takes half the time, unless the rows are nearly the same.
    """
    is_alike = centre is not None and 1 - float(centre.double() @ centre.double()) < _ALIKE
    if is_alike or not has_graph:
        rows = rows.double()
    products = rows @ rows.T
    if not has_graph:
        lengths = products.diagonal().clamp(min=1e-24).sqrt()
        return Surroundings(numbers, products / lengths[:, None] / lengths, None, rows.shape[1], False)
    if centre is None:
        graph = Graph(rows, products)
    else:
        centre = centre.to(rows)
        along = rows @ centre  # products of centred rows follow from those that are known
        centred = products - along[:, None] - along + centre @ centre
        lengths = centred.diagonal().clamp(min=1e-24).sqrt()
        centred.div_(lengths[:, None]).div_(lengths)
        graph = Graph((rows - centre) / lengths[:, None], centred)
    return Surroundings(numbers, products, graph, rows.shape[1], asks_graph)


def log_presence(cosines: Tensor, labels: np.ndarray, n_classes: int) -> Tensor:
    """(s, s), (s,) -> (N,): 0 for a class whose labels are as near to unlabelled rows as these are to each other, less
    for others.

    Nearness is the mean cosine of a row with the nearest unlabelled rows; a class's distance is how far its labels are
    below the mean nearness of unlabelled rows, in standard deviations of the latter.
    """
    free, labelled = torch.from_numpy(np.flatnonzero(labels < 0)), np.flatnonzero(labels >= 0)
    if len(free) <= _NEIGHBOURS:
        return torch.zeros(n_classes, dtype=torch.float64)
    to_free = cosines[:, free].index_put((free, torch.arange(len(free))), cosines.new_tensor(-2.0))  # not themselves
    near = to_free.topk(_NEIGHBOURS, dim=1).values.double().mean(1)
    of_free = near[free]
    counts = torch.from_numpy(np.bincount(labels[labelled], minlength=n_classes))
    sums = torch.zeros(n_classes, dtype=torch.float64)
    sums.index_add_(0, torch.from_numpy(labels[labelled]).long(), near[labelled] - of_free.mean())
    distance = -sums / counts.clamp(min=1) / of_free.std().clamp(min=_LEAST_SPREAD)
    distance = distance * counts.clamp(max=_INDEPENDENT).double().sqrt()
    presence = -_TAKES * (distance - _TOLERATED).clamp(min=0)
    return (presence - presence.max()).clamp(min=_LEAST)
