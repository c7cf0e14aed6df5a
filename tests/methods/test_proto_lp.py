"""ProtoLP against the paper's loop, one task at a time, with an SVD and vectors instead of weights."""

import pytest
import torch
import torch.nn.functional as F

from remp.methods.proto_lp import ProtoLP
from transductive_task import even_plan, one_hot, tasks


def naive(support, labels, query, *, dimensions: int, steps: int) -> torch.Tensor:
    items = F.normalize((torch.cat([support, query]) + 1e-6) ** 0.5, dim=-1)
    items = items @ torch.linalg.svd(items, full_matrices=False).Vh[:dimensions].T
    items = F.normalize(items - items.mean(0), dim=-1)
    y, query = one_hot(labels), items[len(labels) :]
    means = F.normalize(y.T @ items[: len(labels)] / y.sum(0)[:, None], dim=-1)
    for _ in range(steps):
        z = torch.cat([y, even_plan(-10 * torch.cdist(query, means) ** 2)])
        graph = torch.eye(3) - z.T @ z @ torch.diag(1 / z.sum(0))
        labels_of_prototypes = torch.linalg.inv(y.T @ y + graph) @ y.T @ y
        propagated = torch.cat([y, even_plan((z @ labels_of_prototypes)[len(labels) :].log())])
        weights = 0.6 * propagated + 0.4 * z
        means = means + 0.2 * (weights.T @ items / weights.sum(0)[:, None] - means)
    return even_plan(-10 * torch.cdist(query, means) ** 2)


@pytest.mark.parametrize("dimensions", [4, 40])
def test_the_assignments_are_those_of_the_papers_loop(dimensions):
    episodes = tasks()
    ours = ProtoLP(dimensions=dimensions, steps=12, tolerance=1e-7).logits(episodes).exp()
    for e in range(2):
        task = episodes.support[e], episodes.support_labels[e], episodes.query[e]
        expected = naive(*task, dimensions=dimensions, steps=12)
        torch.testing.assert_close(ours[e], expected, rtol=1e-2, atol=1e-3)


def test_every_class_gets_as_many_queries():
    shares = ProtoLP(steps=5).logits(tasks()).exp()
    torch.testing.assert_close(shares.sum(1), torch.full((2, 3), 4.0))
