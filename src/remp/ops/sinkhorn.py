"""Sinkhorn's iteration: a matrix scaled to given row and column sums, for a batch of tasks that stop one by one."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

# Sweeps between two looks at which tasks have converged.
_LOOK_EVERY = 2


class Plan(NamedTuple):
    """matrix: (E, n, m), the scaled matrix. row_factors: (E, n), double, a start for the next, similar problem."""

    matrix: Tensor
    row_factors: Tensor


def sinkhorn(
    scores: Tensor,
    row_sums: Tensor,
    column_sums: Tensor,
    *,
    tolerance: float = 1e-6,
    max_sweeps: int = 1000,
    start: Tensor | None = None,
) -> Plan:
    """Scale rows and columns of exp(scores) so that they have the given sums.

    scores: (E, n, m). row_sums: (E, n) and column_sums: (E, m), none negative; row sums are first scaled to the total
    of the column sums. A task stops when a sweep changes no column sum by more than `tolerance`, looked at every few
    sweeps; its rows then sum exactly. start: row factors of an earlier plan, from which fewer sweeps are needed.

    Finite for all scores: of those of a column, the ones further below its best than exp can tell apart are raised.
    Computed in double precision: where a plan is nearly hard, its factors hang on tiny differences of sums.
    """
    kernel, column_sums = _kernel(scores.double()), column_sums.double()
    row_sums = _of_the_same_total(row_sums.double(), column_sums)
    rows = torch.ones_like(row_sums) if start is None else start.clone()
    columns = torch.zeros_like(column_sums)
    running = torch.arange(len(scores), device=scores.device)
    problems, part = (kernel, row_sums, column_sums), rows  # those of the tasks that are still running
    for first in range(0, max_sweeps, _LOOK_EVERY):
        part, part_columns, change = _sweep(*problems, part, min(_LOOK_EVERY, max_sweeps - first))
        rows[running], columns[running] = part, part_columns
        goes_on = change > tolerance
        if not goes_on.any():
            break
        if not goes_on.all():
            running, part = running[goes_on], part[goes_on]
            problems = (problems[0][goes_on], problems[1][goes_on], problems[2][goes_on])
    return Plan((rows.unsqueeze(-1) * kernel * columns.unsqueeze(-2)).to(scores.dtype), rows)


def _kernel(scores: Tensor) -> Tensor:
    """exp(scores), the best of each column 1 and none so small that products of factors could leave the dtype."""
    lowest = 0.7 * math.log(torch.finfo(scores.dtype).tiny)
    return (scores - scores.amax(-2, keepdim=True)).clamp(min=lowest).exp()


def _of_the_same_total(row_sums: Tensor, column_sums: Tensor) -> Tensor:
    total = row_sums.sum(-1, keepdim=True)
    return row_sums * (column_sums.sum(-1, keepdim=True) / _not_zero(total))


def _sweep(
    kernel: Tensor, row_sums: Tensor, column_sums: Tensor, rows: Tensor, sweeps: int
) -> tuple[Tensor, Tensor, Tensor]:
    """`sweeps` sweeps from the factors `rows` (E, n): new factors of rows, of columns (E, m), and the largest change of
    a column sum in the last sweep (E,)."""
    columns, mass = torch.zeros_like(column_sums), _column_mass(kernel, rows)
    before = sums = columns
    for _ in range(sweeps):
        columns = column_sums / _not_zero(mass)
        rows = row_sums / _not_zero((kernel * columns.unsqueeze(-2)).sum(-1))
        mass = _column_mass(kernel, rows)
        before, sums = sums, columns * mass
    return rows, columns, (sums - before).abs().amax(-1)


def _column_mass(kernel: Tensor, rows: Tensor) -> Tensor:
    return (kernel * rows.unsqueeze(-1)).sum(-2)


def _not_zero(x: Tensor) -> Tensor:
    """Zero only where nothing is to be shared out, as in a task without columns left."""
    return x.clamp(min=torch.finfo(x.dtype).tiny)
