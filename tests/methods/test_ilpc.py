"""iLPC against the paper's loop, one task at a time, with a linear layer trained by torch."""

import pytest
import torch
import torch.nn.functional as F

from remp.errors import ConfigError
from remp.methods.ilpc import ILPC, mean_losses
from transductive_task import tasks

STEPS, NEIGHBOURS, SELECTED = 30, 5, 2


def propagated(items, labelled: dict[int, int]) -> torch.Tensor:
    """Labels spread over the graph of nearest neighbours, (n, 3)."""
    cosines, n = items @ items.T, len(items)
    graph = torch.zeros(n, n)
    for i in range(n):
        others = sorted((j for j in range(n) if j != i), key=lambda j: -cosines[i, j])[:NEIGHBOURS]
        graph[i, others] = cosines[i, others].clamp(min=0) ** 3
    graph = graph + graph.T
    degrees = graph.sum(1)
    y = torch.zeros(n, 3)
    for item, label in labelled.items():
        y[item, label] = 1
    return torch.linalg.solve(torch.eye(n) - 0.8 * graph / (degrees[:, None] * degrees[None]).sqrt(), y).clamp(min=0)


def shared_out(scores: torch.Tensor, sums: torch.Tensor) -> torch.Tensor:
    plan = scores.double()
    for _ in range(400):
        plan = plan / plan.sum(1, keepdim=True)
        plan = plan * (sums / sums.sum() * len(plan) / plan.sum(0).clamp(min=1e-300))
    return plan


def losses_in_training(items, labels: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    layer, total = torch.nn.Linear(items.shape[1], 3), torch.zeros(len(items))
    layer.weight.data, layer.bias.data = start.clone(), torch.zeros(3)
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    for _ in range(STEPS):
        losses = F.cross_entropy(layer(items), labels, reduction="none")
        total += losses.detach()
        optimiser.zero_grad()
        losses.mean().backward()
        optimiser.step()
    return total


def naive(support, support_labels, query) -> list[int]:
    items = F.normalize((torch.cat([support, query]) + 1e-6) ** 0.5, dim=-1)
    items = F.normalize(items - items.mean(0), dim=-1)
    labelled = {i: int(label) for i, label in enumerate(support_labels)}
    while open_items := [i for i in range(len(items)) if i not in labelled]:
        taken = torch.bincount(torch.tensor([labelled[i] for i in labelled if i >= len(support)] or [3]), minlength=4)
        scores = propagated(items, labelled)[open_items]
        plan = shared_out((scores / scores.sum(1, keepdim=True)) ** 3, (len(query) / 3 - taken[:3]).clamp(min=0))
        pseudo = {item: int(plan[row].argmax()) for row, item in enumerate(open_items)}
        all_labels = torch.tensor([{**labelled, **pseudo}[i] for i in range(len(items))])
        known = [torch.tensor([i for i in labelled if labelled[i] == way]) for way in range(3)]
        start = torch.stack([F.normalize(items[rows].mean(0), dim=0) for rows in known])
        losses = losses_in_training(items, all_labels, start)
        for way in range(3):
            of_way = sorted((i for i in open_items if pseudo[i] == way), key=lambda i: losses[i])
            labelled.update({i: way for i in of_way[:SELECTED]})
    return [labelled[i] for i in range(len(support), len(items))]


def test_the_labels_are_those_of_the_papers_loop():
    episodes = tasks(n_tasks=3)
    ours = ILPC(cleaning_steps=STEPS, neighbours=NEIGHBOURS, selected=SELECTED).logits(episodes).argmax(-1)
    for e in range(3):
        assert ours[e].tolist() == naive(episodes.support[e], episodes.support_labels[e], episodes.query[e])


def test_a_task_that_is_done_earlier_is_not_changed_by_the_others():
    episodes = tasks(n_tasks=3)
    method = ILPC(cleaning_steps=10, selected=1)
    together = method.logits(episodes)
    for e in range(3):
        torch.testing.assert_close(method.logits(episodes[e : e + 1])[0], together[e], rtol=1e-4, atol=1e-4)


def test_a_graph_that_outweighs_all_labels_is_an_error():
    with pytest.raises(ConfigError, match="spreading is 1"):
        ILPC(spreading=1.0)


def test_the_mean_losses_are_those_of_a_linear_layer_trained_by_torch():
    torch.manual_seed(0)
    items, labels = torch.randn(6, 10), torch.tensor([0, 1, 2, 0, 1, 0])
    start = torch.rand(3, 6)
    layer = torch.nn.Linear(10, 3)
    with torch.no_grad():
        layer.weight.copy_(start @ items)
        layer.bias.zero_()
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    total = torch.zeros(6)
    for _ in range(25):
        losses = torch.nn.functional.cross_entropy(layer(items), labels, reduction="none")
        total += losses.detach()
        optimiser.zero_grad()
        losses.mean().backward()
        optimiser.step()
    targets = torch.nn.functional.one_hot(labels, 3).T.float()
    ours = mean_losses(start[None], (items @ items.T)[None], targets[None], steps=25, rate=0.1)
    torch.testing.assert_close(ours[0], total / 25, rtol=1e-4, atol=1e-5)
