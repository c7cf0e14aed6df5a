"""MetaOptNet: a linear classifier that is optimal for each task, as a support vector machine or by ridge regression."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remp.checks import require_at_least, require_below_one, require_positive
from remp.episodes import Episodes, one_hot_rows
from remp.methods.base import Method
from remp.rectification.number_range import to_double, to_dtype


class MetaOptNet(Method):
    """Lee, Maji, Ravichandran, Soatto: Meta-Learning with Differentiable Convex Optimization, 2019.
    https://arxiv.org/abs/1904.03758

    Each task gets the linear classifier that is best for its support, the minimum of a convex function. The backbone
    learns features for which those classifiers also fit the queries: gradients go through the minimum, in terms of the
    products of the support with itself, so that their cost does not grow with the size of a feature.
    """

    def __init__(self, *args: Any, label_smoothing: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        require_below_one(label_smoothing=label_smoothing)
        self.label_smoothing = label_smoothing
        self.scale = nn.Parameter(torch.ones(()))

    def coefficients(self, kernel: Tensor, labels: Tensor, n_way: int) -> Tensor:
        """Weight of each support item in the classifier of each class: products (E, S, S), (E, S) -> (E, N, S)"""
        raise NotImplementedError

    def logits(self, episodes: Episodes) -> Tensor:
        support, query = to_double(episodes.support), to_double(episodes.query)
        coefficients = self.coefficients(support @ support.transpose(1, 2), episodes.support_labels, episodes.n_way)
        scores = query @ support.transpose(1, 2) @ coefficients.transpose(1, 2)
        return to_dtype(self.scale * scores, episodes.query.dtype)

    def loss(self, episodes: Episodes, progress: float = 0.0) -> dict[str, Tensor]:
        logits, labels = self.score(episodes).flatten(0, 1), episodes.known_query_labels.flatten()
        return {"local": F.cross_entropy(logits, labels, label_smoothing=self.label_smoothing)}

    def learning_rate_factor(self, parameter_name: str, progress: float) -> float:
        return 0.1 if parameter_name == "scale" else 1.0  # at the full rate a scale runs ahead of the features


class MetaOptNetSVM(MetaOptNet):
    """MetaOptNet with the support vector machine of Crammer and Singer, the paper's best head.

    Lee, Maji, Ravichandran, Soatto: Meta-Learning with Differentiable Convex Optimization, 2019.
    https://arxiv.org/abs/1904.03758

    The classifier of a task separates the classes of its support by a margin. Items that cannot be separated cost, at
    most `cost` each. See MetaOptNet for how it learns.

    Ours solves the dual by an interior point method of its own, to the end, where the paper's code stops after 15
    iterations of a general solver; products are in float64.

    cost: bound C of a coefficient. ridge: added to the product of each support item with itself. label_smoothing: of
    the training loss.
    """

    def __init__(
        self, *args: Any, cost: float = 0.1, ridge: float = 1.0, label_smoothing: float = 0.1, **kwargs: Any
    ) -> None:
        super().__init__(*args, label_smoothing=label_smoothing, **kwargs)
        require_positive(cost=cost)
        require_at_least(0, ridge=ridge)
        self.cost, self.ridge = cost, ridge

    def coefficients(self, kernel: Tensor, labels: Tensor, n_way: int) -> Tensor:
        ridge = self.ridge * torch.eye(kernel.shape[1], dtype=kernel.dtype, device=kernel.device)
        return crammer_singer(kernel + ridge, labels, n_way, cost=self.cost)


class MetaOptNetRidge(MetaOptNet):
    """MetaOptNet with ridge regression to one-hot labels, in closed form.

    Lee, Maji, Ravichandran, Soatto: Meta-Learning with Differentiable Convex Optimization, 2019.
    https://arxiv.org/abs/1904.03758

    The classifier of a task comes nearest to 1 for items of its class and 0 for others, in squares, with a penalty on
    its weights: W = Xᵀ (X Xᵀ + ridge I)⁻¹ Y. See MetaOptNet for how it learns.

    ridge: the penalty. label_smoothing: of the training loss.
    """

    def __init__(self, *args: Any, ridge: float = 50.0, label_smoothing: float = 0.1, **kwargs: Any) -> None:
        super().__init__(*args, label_smoothing=label_smoothing, **kwargs)
        require_at_least(0, ridge=ridge)
        self.ridge = ridge

    def coefficients(self, kernel: Tensor, labels: Tensor, n_way: int) -> Tensor:
        size = kernel.detach().diagonal(dim1=1, dim2=2).amax(1).clamp(min=1)[:, None, None]
        eye = torch.eye(kernel.shape[1], dtype=kernel.dtype, device=kernel.device)
        # At least 1e-9 of the kernel's size: where the ridge is lost in rounding, there is still one solution.
        matrix = kernel / size + (self.ridge / size).clamp(min=1e-9) * eye
        targets = one_hot_rows(labels, n_way, kernel.dtype)
        return torch.linalg.solve(matrix, targets.transpose(1, 2)).transpose(1, 2) / size


ITERATIONS = 30
CENTRING = 0.1  # share of the gap that an iteration aims to leave
SOLVED = 1e-13  # gap at which a task stops
RIDGE = 1e-9  # keeps matrices invertible where the ridge of the kernel is lost in rounding


def crammer_singer(kernel: Tensor, labels: Tensor, n_way: int, *, cost: float) -> Tensor:
    """Coefficients a that minimise ½ Σ_n a_nᵀ K a_n - Σ_i a_{y_i,i}, where a_ni ≤ cost [n = y_i] and Σ_n a_ni = 0.

    kernel: K (E, S, S) in float64, positive definite; labels: (E, S) -> (E, N, S). Differentiable in the kernel, by
    the implicit function theorem: the conditions of the optimum are linearised where it was found.
    """
    # The same minimum of a problem whose numbers are near 1: a in units of `cost`, the function divided by `size`.
    size = (cost * kernel.detach().diagonal(dim1=1, dim2=2).amax(1)).clamp(min=1)[:, None, None]
    scaled = kernel * (cost / size)
    upper = one_hot_rows(labels, n_way, kernel.dtype)
    with torch.no_grad():
        solution, barrier = _interior_point(scaled, upper, size)
    if torch.is_grad_enabled() and kernel.requires_grad:
        gradient = solution @ scaled
        step, _ = _Newton(scaled.detach(), barrier).solve(gradient - gradient.detach())
        solution = solution - step
    return cost * solution


def _interior_point(kernel: Tensor, upper: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
    """The minimum (E, N, S), and how stiffly each coefficient is held there by its bound (E, N, S).

    Follows the central path: slack = upper - a and pressure, the multiplier of the bound, stay positive while their
    products go to zero. A solved task is left as it is, whatever the others of its batch still need.
    """
    slack = torch.full_like(upper, 1 / upper.shape[1])  # makes the coefficients of an item sum to zero
    pressure = torch.ones_like(upper)
    balance = torch.zeros_like(upper[:, :1])  # multiplier of that sum
    for _ in range(ITERATIONS):
        gap = (slack * pressure).mean((1, 2), keepdim=True)
        newton = _Newton(kernel, pressure / slack)
        residual = (upper - slack) @ kernel - upper / size + pressure + balance
        to_centre = CENTRING * gap / slack - pressure
        change, balance_change = newton.solve(-residual - to_centre)
        pressure_change = to_centre + pressure / slack * change
        length = _longest_step(slack, -change).minimum(_longest_step(pressure, pressure_change))
        length = torch.where(gap > SOLVED, length, 0)
        slack, pressure = slack - length * change, pressure + length * pressure_change
        balance = balance + length * balance_change
    return upper - slack, pressure / slack


class _Newton:
    """Solves (K + diag(barrier_n)) x_n + z = r_n for all classes n, with z such that Σ_n x_n = 0."""

    def __init__(self, kernel: Tensor, barrier: Tensor) -> None:
        blocks = kernel.unsqueeze(1) + torch.diag_embed(barrier + RIDGE)  # (E, N, S, S)
        self.inverses = _inverse(blocks)
        self.of_sum = _inverse(self.inverses.sum(1))

    def solve(self, right: Tensor) -> tuple[Tensor, Tensor]:
        """r (E, N, S) -> x (E, N, S), z (E, 1, S)"""
        free = self._each(right)
        shared = free.sum(1, keepdim=True) @ self.of_sum
        return free - self._each(shared.expand_as(free)), shared

    def _each(self, right: Tensor) -> Tensor:
        return (self.inverses @ right.unsqueeze(-1)).squeeze(-1)


def _inverse(matrices: Tensor) -> Tensor:
    """Of symmetric, positive definite matrices (…, n, n)."""
    return torch.cholesky_inverse(torch.linalg.cholesky(matrices))


def _longest_step(values: Tensor, change: Tensor) -> Tensor:
    """How much of the change, at most all, leaves all values of a task positive: (E, N, S) -> (E, 1, 1)"""
    shares = torch.where(change < 0, values / change.abs().clamp(min=torch.finfo(values.dtype).tiny), torch.inf)
    return (0.99 * shares.amin((1, 2), keepdim=True)).clamp(max=1)
