"""PT-MAP against the paper's loop, one task at a time and with vectors instead of weights."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from remp.errors import ConfigError
from remp.methods.pt_map import PTMAP
from transductive_task import even_plan, one_hot, tasks


def naive(support, labels, query, *, steps: int, step_size: float, centre: bool) -> torch.Tensor:
    support, query = (F.normalize((x + 1e-6) ** 0.5, dim=-1) for x in (support, query))
    if centre:
        support, query = (F.normalize(x - x.mean(0), dim=-1) for x in (support, query))
    y, items = one_hot(labels), torch.cat([support, query])
    means = y.T @ support / y.sum(0)[:, None]
    for _ in range(steps):
        shares = torch.cat([y, even_plan(-10 * torch.cdist(query, means) ** 2)])
        means = means + step_size * (shares.T @ items / shares.sum(0)[:, None] - means)
    return even_plan(-10 * torch.cdist(query, means) ** 2)


@pytest.mark.parametrize("settings", [{}, {"centre": False, "steps": 10}, {"steps": 30, "step_size": 0.3}])
def test_the_assignments_are_those_of_the_papers_loop(settings):
    episodes = tasks()
    ours = PTMAP(tolerance=1e-7, **settings).logits(episodes).exp()
    full = {"steps": 20, "step_size": 0.2, "centre": True, **settings}
    for e in range(2):
        expected = naive(episodes.support[e], episodes.support_labels[e], episodes.query[e], **full)
        torch.testing.assert_close(ours[e], expected, rtol=1e-2, atol=1e-3)


def test_every_class_gets_as_many_queries():
    shares = PTMAP().logits(tasks()).exp()
    torch.testing.assert_close(shares.sum(1), torch.full((2, 3), 4.0))


def test_the_order_of_the_support_does_not_show_in_small_tasks():
    episodes, order = tasks(n_tasks=64, n_query=6), torch.tensor([3, 0, 5, 1, 4, 2])
    moved = replace(episodes, support=episodes.support[:, order], support_labels=episodes.support_labels[:, order])
    torch.testing.assert_close(PTMAP().logits(moved), PTMAP().logits(episodes), rtol=1e-5, atol=1e-5)


def test_settings_out_of_range_are_errors():
    with pytest.raises(ConfigError, match="exponent is 0"):
        PTMAP(exponent=0.0)
    with pytest.raises(ConfigError, match="steps is -1"):
        PTMAP(steps=-1)
