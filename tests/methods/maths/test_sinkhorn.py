"""Sinkhorn's iteration against a naive loop, its sums, and the ends of the number range."""

import numpy as np
import pytest
import torch

from remp.methods.maths.sinkhorn import sinkhorn


def problem(n_tasks: int = 3, n: int = 4, m: int = 9) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    scores = 3 * torch.randn(n_tasks, n, m, generator=generator)
    row_sums = 0.5 + torch.rand(n_tasks, n, generator=generator)
    column_sums = 0.5 + torch.rand(n_tasks, m, generator=generator)
    return scores, row_sums * (column_sums.sum(1) / row_sums.sum(1))[:, None], column_sums


def naive(scores: np.ndarray, row_sums: np.ndarray, column_sums: np.ndarray) -> np.ndarray:
    plan = np.exp(scores)
    for _ in range(5000):
        plan *= column_sums[None, :] / plan.sum(0)[None, :]
        plan *= row_sums[:, None] / plan.sum(1)[:, None]
    return plan


def test_the_plan_of_each_task_is_that_of_a_naive_loop():
    scores, row_sums, column_sums = problem()
    plans = sinkhorn(scores, row_sums, column_sums).matrix
    for task in range(len(scores)):
        expected = naive(*(x[task].double().numpy() for x in (scores, row_sums, column_sums)))
        np.testing.assert_allclose(plans[task].numpy(), expected, rtol=1e-3, atol=1e-5)


def test_a_single_row_or_column_takes_all():
    scores = problem(2, 1, 5)[0]
    plan = sinkhorn(scores, torch.full((2, 1), 5.0), torch.ones(2, 5)).matrix
    torch.testing.assert_close(plan, torch.ones(2, 1, 5))
    plan = sinkhorn(scores.transpose(1, 2), torch.ones(2, 5), torch.full((2, 1), 5.0)).matrix
    torch.testing.assert_close(plan, torch.ones(2, 5, 1))


def test_rows_sum_to_their_share_of_the_columns_total():
    scores, row_sums, column_sums = problem()
    plan = sinkhorn(scores, 7 * row_sums, column_sums).matrix
    torch.testing.assert_close(plan.sum(2), row_sums, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(plan.sum(1), column_sums, rtol=1e-3, atol=1e-4)


def test_a_task_stops_by_itself_whatever_its_batch():
    scores, row_sums, column_sums = problem(n_tasks=8)
    scores[3] *= 4  # takes many more sweeps than the others
    together = sinkhorn(scores, row_sums, column_sums).matrix
    for task in range(8):
        one = slice(task, task + 1)
        alone = sinkhorn(scores[one], row_sums[one], column_sums[one]).matrix
        torch.testing.assert_close(alone[0], together[task], rtol=1e-5, atol=1e-6)


def test_a_start_from_the_answer_gives_the_answer():
    scores, row_sums, column_sums = problem()
    plan = sinkhorn(scores, row_sums, column_sums, tolerance=1e-7)
    again = sinkhorn(scores, row_sums, column_sums, max_steps=1, start=plan).matrix
    torch.testing.assert_close(again, plan.matrix, rtol=1e-4, atol=1e-5)


def test_rows_and_columns_that_get_nothing_are_zero():
    scores, row_sums, column_sums = problem()
    row_sums[:, 1], column_sums[:, 2], column_sums[0] = 0, 0, 0
    plan = sinkhorn(scores, row_sums, column_sums).matrix
    assert (plan[:, 1] == 0).all()
    assert (plan[:, :, 2] == 0).all()
    assert (plan[0] == 0).all()
    torch.testing.assert_close(plan[1:].sum((1, 2)), column_sums[1:].sum(1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [0.0, 1e-30, 1e3, 1e30])
def test_scores_of_any_size_have_a_finite_plan(dtype, size):
    scores, row_sums, column_sums = (x.to(dtype) for x in problem())
    plan = sinkhorn(scores * size, row_sums, column_sums, max_steps=50).matrix
    assert plan.isfinite().all()
    torch.testing.assert_close(plan.sum(2), row_sums, rtol=1e-3, atol=1e-3)


def test_a_row_that_no_column_wants_still_gets_its_sum():
    scores = torch.zeros(1, 2, 6)
    scores[:, 1] = -1e20
    plan = sinkhorn(scores, torch.full((1, 2), 3.0), torch.ones(1, 6)).matrix
    torch.testing.assert_close(plan, torch.full((1, 2, 6), 0.5))


def test_a_nearly_hard_plan_takes_a_few_steps_where_sweeps_alone_take_hundreds():
    scores, row_sums, column_sums = (x.double() for x in problem(n_tasks=20, n=5, m=75))
    scores = 15 * scores
    plan = sinkhorn(scores, row_sums, column_sums, max_steps=30).matrix
    torch.testing.assert_close(plan.sum(1), column_sums, rtol=0, atol=1e-5)
    torch.testing.assert_close(plan.sum(2), row_sums, rtol=0, atol=1e-5)
    factors = plan.clamp(min=1e-300).log() - scores  # of rows plus of columns
    mixed = factors - factors.mean(1, keepdim=True) - factors.mean(2, keepdim=True) + factors.mean((1, 2), keepdim=True)
    torch.testing.assert_close(mixed, torch.zeros_like(mixed), rtol=0, atol=1e-6)
    by_sweeps = torch.ones(20, 5, dtype=torch.float64)
    kernel = (scores - scores.amax(1, keepdim=True)).exp()
    for _ in range(300):
        columns = column_sums / (kernel * by_sweeps.unsqueeze(-1)).sum(1)
        by_sweeps = row_sums / (kernel * columns.unsqueeze(1)).sum(2)
    left = (by_sweeps.unsqueeze(-1) * kernel * columns.unsqueeze(1)).sum(1) - column_sums
    assert left.abs().max() > 1e-3
