"""What lies around the labelled rows: along which ways their labels spread, and whether their classes are there at all.

One label says little about how many rows its class has. Its surroundings say more: if the class is among the unlabelled
rows, a labelled row has neighbours there as near as unlabelled rows have; if it is not, its neighbours are far away.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

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


@dataclass(frozen=True)
class Neighbours:
    """What a graph says of any row, by how near each row of the graph is to it.

    rows: (s, d) of the graph, of norm 1, float32. arrived: (s, N) how much of each class arrives at each, over the root
    of its degree, float64. weight: what the logarithms are multiplied with.
    """

    rows: Tensor
    arrived: Tensor
    weight: float = 1.0

    def __call__(self, cosines: Tensor) -> Tensor:
        """Cosines (m, s) of m rows with those of the graph -> (m, N) logarithms of what would arrive at these, if they
        were linked to the graph. For an unlabelled row of the graph that is what arrives there: its link to itself
        multiplies the numbers of all classes alike."""
        links = cosines.sub(1).mul_(_SHARPNESS).exp_()
        return self.weight * _logs(links @ self.arrived.to(links)).to(cosines)

    def __mul__(self, factor: float) -> "Neighbours":
        return replace(self, weight=self.weight * factor)


class Graph:
    """Labels that spread along a graph of rows (s, d) of norm 1: what rows know that lie between the labels. In the
    precision of the rows. cosines: (s, s) of these, if they are known.

    Zhou et al., "Learning with Local and Global Consistency", 2004. Rows that are near each other share their labels,
    so that classes may have any shape. Here the graph is of the labelled rows and of a sample of the others. Any other
    row gets its answer by its neighbours in the graph, or, at the price of one product, by a linear function that is
    fitted to what the graph says of its own rows. The matrices are factored once, for as many labellings of the same
    rows as there are.
    """

    def __init__(self, rows: Tensor, cosines: Tensor | None = None) -> None:
        self._rows = rows
        cosines = rows @ rows.T if cosines is None else cosines
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
        """How much of each class arrives at each row (s, N): (1 - a S)^-1 Y, S = D^-1/2 W D^-1/2, a label of each class
        counting one over their number. labels: (s,), -1 for unlabelled."""
        given = torch.zeros(len(labels), n_classes, dtype=self._rows.dtype)
        labelled = np.flatnonzero(labels >= 0)
        given[labelled, labels[labelled]] = 1
        return self._spread(given / given.sum(0).clamp(min=1))

    def neighbours(self, arrived: Tensor) -> Neighbours:
        """Answers for any row by what arrives at the rows of the graph (s, N)."""
        return Neighbours(self._rows.float(), (arrived * self._degrees[:, None]).double().contiguous())

    def linear(self, arrived: Tensor) -> Linear:
        """A linear function fitted to the logarithms of what arrives (s, N)."""
        logs = _logs(arrived)
        bias = logs.mean(0)
        targets = (logs - bias).to(self._rows)
        if self._is_dual:
            weights = (self._ridge(targets).T @ self._rows).T
        else:
            weights = self._ridge((targets.T @ self._rows).T)
        return Linear(weights.double(), bias)


def _logs(arrived: Tensor) -> Tensor:
    """Of what arrives (m, N), those far below the largest cut off, in float64; their mean over the classes is 0."""
    logs = arrived.double().clamp(min=1e-300).log()
    logs = (logs - logs.amax(1, keepdim=True)).clamp(min=_LEAST_LOG)
    return logs - logs.mean(1, keepdim=True)


def _solver(matrix: Tensor) -> Callable[[Tensor], Tensor]:
    """By Cholesky, since these matrices are symmetric and positive definite, unless numbers that are not finite or too
    large keep it from that."""
    factor, failed = torch.linalg.cholesky_ex(matrix)
    if failed:
        return lambda targets: torch.linalg.solve(matrix, targets)
    return lambda targets: torch.cholesky_solve(targets, factor)


@dataclass(frozen=True)
class LocalEvidence:
    """graph: labels that spread along it, as a linear function. neighbours: the same as the graph itself has it, if it
    is to be asked. presence: (N,) at most 0, what is added to the logits of classes whose labels have no neighbours."""

    graph: Linear
    neighbours: Neighbours | None
    presence: Tensor


@dataclass(frozen=True)
class Surroundings:
    """numbers: (s,) of the rows that are looked at, ascending. cosines: (s, s) of these, not centred. graph: of the
    centred ones, None where there can be none. asks_graph: whether rows are answered by the graph itself."""

    numbers: np.ndarray
    cosines: Tensor
    graph: Graph | None
    dim: int
    asks_graph: bool

    def evidence(self, labels: np.ndarray, n_classes: int) -> LocalEvidence:
        """labels: (n,) of all rows, -1 for unlabelled; some that were labelled before may be hidden."""
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
    """numbers: (s,) of these rows. rows: (s, d) transformed but for centring, of norm 1 if there is to be a graph.

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
