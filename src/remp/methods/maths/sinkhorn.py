"""A matrix scaled to given row and column sums by Sinkhorn and Newton, for a batch of tasks that stop one by one."""

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
    start: Plan | None = None,
) -> Plan:
    """Scale rows and columns of exp(scores) so that they have the given sums.

    scores: (E, n, m). row_sums: (E, n) and column_sums: (E, m), none negative; row sums are first scaled to the total
    of the column sums. A task stops when, columns exact, no row sum is missed by more than `tolerance`; its rows are
    then made exact instead. start: the plan of an earlier, similar problem, from which fewer steps are needed.

    The factors of the rows minimise a convex function, the dual, of as many variables as there are rows. A step is one
    of Newton where that lowers the function, otherwise a sweep of Sinkhorn, which always does: the same plan as by
    sweeps alone, in a few steps instead of up to thousands where the plan is nearly hard.

    Finite for all scores: of those of a column, the ones further below its best than exp can tell apart are raised.
    Computed in double precision: where a plan is nearly hard, its factors hang on tiny differences of sums.
    """
    column_sums = column_sums.double()
    whole = _Problem(_kernel(scores.double()), _of_the_same_total(row_sums.double(), column_sums), column_sums)
    rows = torch.ones_like(whole.row_sums) if start is None else start.row_factors.clone()
    running, problem, part = torch.arange(len(scores), device=scores.device), whole, rows
    longest = torch.full_like(rows[:, :1], torch.inf)
    for number in range(max_steps):
        columns, per_factor = _columns(problem, part)
        sums = part * per_factor
        goes_on = (sums - problem.row_sums).abs().amax(-1) > tolerance
        if not goes_on.any():
            break
        swept = problem.row_sums / _not_zero(per_factor)
        if number < _SWEEPS_FIRST:
            part = swept
        else:
            part, longest = _newton(problem, part, columns, sums, longest, otherwise=swept)
        if not goes_on.all():
            running, problem = running[goes_on], problem.of(goes_on)
            part, longest = part[goes_on], longest[goes_on]
        rows[running] = part
    columns, per_factor = _columns(whole, rows)
    rows = whole.row_sums / _not_zero(per_factor)
    return Plan((rows.unsqueeze(-1) * whole.kernel * columns.unsqueeze(-2)).to(scores.dtype), rows)


def balanced(scores: Tensor, *, tolerance: float, start: Plan | None = None) -> Plan:
    """Queries shared out over the classes by their scores (E, N, Q), all of each query and as many to every class."""
    n_episodes, n_way, n_query = scores.shape
    each_class = scores.new_full((n_episodes, n_way), n_query / n_way)
    return sinkhorn(scores, each_class, scores.new_ones(n_episodes, n_query), tolerance=tolerance, start=start)


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


def _newton(
    problem: _Problem, rows: Tensor, columns: Tensor, sums: Tensor, longest: Tensor, *, otherwise: Tensor
) -> tuple[Tensor, Tensor]:
    """Row factors (E, n) after a step of Newton from `rows`, `otherwise` where that does not lower the dual.

    longest: (E, 1), by how much the step may change the logarithm of a factor; returned as it is for the next step,
    longer after one that was good. A nearly hard plan has a dual of flat pieces, over which a step goes too far.
    """
    shares = problem.kernel * rows.unsqueeze(-1)
    mass = shares.sum(-2)
    direction = _direction(shares, shares * columns.unsqueeze(-2) / _not_zero(mass).unsqueeze(-2), sums, problem)
    length = direction.abs().amax(-1, keepdim=True)
    there = rows * (direction * (longest / _not_zero(length)).clamp(max=1)).exp()
    value, reached = _dual(problem, rows, mass), _dual(problem, there, _column_mass(problem, there))
    is_lower = (reached <= value + _ROUND_OFF * value.abs()).unsqueeze(-1)  # not if it is not a number
    taken = torch.minimum(length, longest).nan_to_num(nan=1.0, posinf=1.0)
    return torch.where(is_lower, there, otherwise), torch.where(is_lower, torch.maximum(longest, 2 * taken), taken / 4)


def _direction(shares: Tensor, weighted: Tensor, sums: Tensor, problem: _Problem) -> Tensor:
    """Change of the logarithms of the row factors: minus the gradient of the dual by its second derivative, (E, n).

    A common factor of all rows changes nothing; adding a constant to the matrix chooses the direction without one.
    """
    curvature = torch.diag_embed(torch.where(sums > 0, sums, 1.0)) + sums.mean(-1)[:, None, None]
    curvature = torch.baddbmm(curvature, weighted, shares.transpose(-1, -2), alpha=-1)
    return torch.linalg.solve_ex(curvature, problem.row_sums - sums)[0]


def _dual(problem: _Problem, rows: Tensor, mass: Tensor) -> Tensor:
    """The function that row factors (E, n) minimise, given the column sums of a K (E, m) -> (E,)."""
    return problem.column_sums.xlogy(mass).sum(-1) - problem.row_sums.xlogy(rows).sum(-1)


def _column_mass(problem: _Problem, rows: Tensor) -> Tensor:
    return (problem.kernel * rows.unsqueeze(-1)).sum(-2)


def _not_zero(x: Tensor) -> Tensor:
    """Zero only where nothing is to be shared out, as in a task without columns left."""
    return x.clamp(min=torch.finfo(x.dtype).tiny)
