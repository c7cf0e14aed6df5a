"""A matrix scaled to given row and column sums, for a batch of tasks that stop one by one: Sinkhorn, with Newton steps."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

_SWEEPS_FIRST = 3  # cheaper than steps of Newton, and enough where the plan is soft
_ROUND_OFF = 1e-13  # share of the dual objective that is no difference


class Plan(NamedTuple):
    """matrix: (E, n, m), the scaled matrix. row_factors: (E, n), double, a start for the next, similar problem."""

    matrix: Tensor
    row_factors: Tensor


class _Problem(NamedTuple):
    """Find factors of rows a and of columns b such that a K b has the given sums."""

    kernel: Tensor  # K (E, n, m)
    row_sums: Tensor  # (E, n)
    column_sums: Tensor  # (E, m)

    def of(self, tasks: Tensor) -> "_Problem":
        return _Problem(self.kernel[tasks], self.row_sums[tasks], self.column_sums[tasks])


def sinkhorn(
    scores: Tensor,
    row_sums: Tensor,
    column_sums: Tensor,
    *,
    tolerance: float = 1e-6,
    max_steps: int = 1000,
    start: Tensor | None = None,
) -> Plan:
    """Scale rows and columns of exp(scores) so that they have the given sums.

    scores: (E, n, m). row_sums: (E, n) and column_sums: (E, m), none negative; row sums are first scaled to the total
    of the column sums. A task stops when, columns exact, no row sum is missed by more than `tolerance`; its rows are
    then made exact instead. start: row factors of an earlier plan, from which fewer steps are needed.

    The factors of the rows minimise a convex function, the dual, of as many variables as there are rows. A step is one
    of Newton where that lowers the function, otherwise a sweep of Sinkhorn, which always does: the same plan as by
    sweeps alone, in a few steps instead of up to thousands where the plan is nearly hard.

    Finite for all scores: of those of a column, the ones further below its best than exp can tell apart are raised.
    Computed in double precision: where a plan is nearly hard, its factors hang on tiny differences of sums.
    """
    column_sums = column_sums.double()
    whole = _Problem(_kernel(scores.double()), _of_the_same_total(row_sums.double(), column_sums), column_sums)
    rows = torch.ones_like(whole.row_sums) if start is None else start.clone()
    running, problem, part = torch.arange(len(scores), device=scores.device), whole, rows
    for number in range(max_steps):
        columns, per_factor = _columns(problem, part)
        sums = part * per_factor
        goes_on = (sums - problem.row_sums).abs().amax(-1) > tolerance
        if not goes_on.any():
            break
        swept = problem.row_sums / _not_zero(per_factor)
        part = swept if number < _SWEEPS_FIRST else _newton(problem, part, columns, sums, otherwise=swept)
        if not goes_on.all():
            running, problem, part = running[goes_on], problem.of(goes_on), part[goes_on]
        rows[running] = part
    columns, per_factor = _columns(whole, rows)
    rows = whole.row_sums / _not_zero(per_factor)
    return Plan((rows.unsqueeze(-1) * whole.kernel * columns.unsqueeze(-2)).to(scores.dtype), rows)


def _kernel(scores: Tensor) -> Tensor:
    """exp(scores), the best of each column 1 and none so small that products of factors could leave the dtype."""
    lowest = 0.7 * math.log(torch.finfo(scores.dtype).tiny)
    return (scores - scores.amax(-2, keepdim=True)).clamp_(min=lowest).exp_()


def _of_the_same_total(row_sums: Tensor, column_sums: Tensor) -> Tensor:
    total = row_sums.sum(-1, keepdim=True)
    return row_sums * (column_sums.sum(-1, keepdim=True) / _not_zero(total))


def _columns(problem: _Problem, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Column factors (E, m) that make the columns exact, and the sum of each row with them, by its factor (E, n)."""
    columns = problem.column_sums / _not_zero(_column_mass(problem, rows))
    return columns, (problem.kernel * columns.unsqueeze(-2)).sum(-1)


def _newton(problem: _Problem, rows: Tensor, columns: Tensor, sums: Tensor, *, otherwise: Tensor) -> Tensor:
    """Row factors (E, n) after a step of Newton from `rows`, `otherwise` where that does not lower the dual.

    A common factor of all rows changes nothing; adding a constant to the matrix chooses the direction without one.
    """
    shares = problem.kernel * rows.unsqueeze(-1)
    plan = shares * columns.unsqueeze(-2)
    mass = shares.sum(-2)
    weighted = plan / _not_zero(mass).unsqueeze(-2)
    curvature = torch.diag_embed(torch.where(sums > 0, sums, 1.0)) + sums.mean(-1)[:, None, None]
    curvature = torch.baddbmm(curvature, weighted, shares.transpose(-1, -2), alpha=-1)
    there = rows * torch.linalg.solve_ex(curvature, problem.row_sums - sums)[0].exp()
    value, reached = _dual(problem, rows, mass), _dual(problem, there, _column_mass(problem, there))
    is_lower = reached <= value + _ROUND_OFF * value.abs()  # not if it is not a number
    return torch.where(is_lower.unsqueeze(-1), there, otherwise)


def _dual(problem: _Problem, rows: Tensor, mass: Tensor) -> Tensor:
    """The function that row factors (E, n) minimise, given the column sums of a K (E, m) -> (E,)."""
    return problem.column_sums.xlogy(mass).sum(-1) - problem.row_sums.xlogy(rows).sum(-1)


def _column_mass(problem: _Problem, rows: Tensor) -> Tensor:
    return (problem.kernel * rows.unsqueeze(-1)).sum(-2)


def _not_zero(x: Tensor) -> Tensor:
    """Zero only where nothing is to be shared out, as in a task without columns left."""
    return x.clamp(min=torch.finfo(x.dtype).tiny)
