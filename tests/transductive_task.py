"""Small tasks with unequal shots for the oracles of the transductive classifiers."""

import torch

from remp.episodes import Episodes


def tasks(n_tasks: int = 2, n_query: int = 12, dim: int = 8) -> Episodes:
    """Noisy non-negative features around three classes, with 2, 1 and 3 shots."""
    generator = torch.Generator().manual_seed(3)
    labels = torch.tensor([0, 0, 1, 2, 2, 2]).expand(n_tasks, -1)
    query_labels = (torch.arange(n_query) % 3).expand(n_tasks, -1)
    centres = 2 * torch.rand(n_tasks, 3, dim, generator=generator)

    def around(ways: torch.Tensor) -> torch.Tensor:
        means = centres.gather(1, ways.unsqueeze(-1).expand(-1, -1, dim))
        return (means + 0.7 * torch.randn(means.shape, generator=generator)).relu()

    return Episodes(around(labels), labels, around(query_labels), query_labels, 3)


def one_hot(labels: torch.Tensor) -> torch.Tensor:
    """(S,) -> (S, 3)"""
    return torch.nn.functional.one_hot(labels, 3).float()


def even_plan(scores: torch.Tensor) -> torch.Tensor:
    """exp(scores) (Q, N) scaled until every query sums to 1 and every class to Q / N."""
    plan = scores.double().exp()
    for _ in range(400):
        plan = plan / plan.sum(1, keepdim=True)
        plan = plan * (len(plan) / plan.shape[1]) / plan.sum(0, keepdim=True)
    return plan.float()
