"""The multi-class support vector machine of Crammer and Singer: its dual, solved for a batch of tasks at once."""

import torch
from torch import Tensor

from remp.episodes import one_hot_rows

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
        solution = solution - _Newton(scaled.detach(), barrier).step(gradient - gradient.detach())
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

    def step(self, right: Tensor) -> Tensor:
        return self.solve(right)[0]

    def _each(self, right: Tensor) -> Tensor:
        return (self.inverses @ right.unsqueeze(-1)).squeeze(-1)


def _inverse(matrices: Tensor) -> Tensor:
    """Of symmetric, positive definite matrices (…, n, n)."""
    return torch.cholesky_inverse(torch.linalg.cholesky(matrices))


def _longest_step(values: Tensor, change: Tensor) -> Tensor:
    """How much of the change, at most all, leaves all values of a task positive: (E, N, S) -> (E, 1, 1)"""
    shares = torch.where(change < 0, values / change.abs().clamp(min=torch.finfo(values.dtype).tiny), torch.inf)
    return (0.99 * shares.amin((1, 2), keepdim=True)).clamp(max=1)
