"""TIM by gradient descent and by alternating directions, against the papers' formulas one task at a time."""

import torch
import torch.nn.functional as F

from remp.methods.tim import TIMADM, TIMGD
from transductive_task import one_hot, tasks


def half_distances(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.cdist(a, b).square() / 2


def class_means(support: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return torch.stack([support[labels == way].mean(0) for way in range(3)])


def by_autograd(support, labels, query, steps: int) -> torch.Tensor:
    support, query = F.normalize(support, dim=-1), F.normalize(query, dim=-1)
    prototypes = torch.nn.Parameter(class_means(support, labels))
    optimiser = torch.optim.Adam([prototypes], lr=1e-4)
    for _ in range(steps):
        p = (-15 * half_distances(query, prototypes)).softmax(-1)
        marginal = p.mean(0)
        loss = 0.1 * F.cross_entropy(-15 * half_distances(support, prototypes), labels)
        loss = loss + (marginal * marginal.log()).sum() - 0.1 * (p * p.log()).sum(-1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return -15 * half_distances(query, prototypes.detach())


def by_alternation(support, labels, query, steps: int) -> torch.Tensor:
    support, query, y = F.normalize(support, dim=-1), F.normalize(query, dim=-1), one_hot(labels)
    w, r, t = class_means(support, labels), 0.1 / 1.1, len(support) / len(query)
    for _ in range(steps):
        p_s = (-15 * half_distances(support, w)).softmax(-1)
        p_q = (-15 * half_distances(query, w)).softmax(-1)
        q = p_q**1.1 / (p_q**1.1).sum(0) ** 0.5
        q = q / q.sum(1, keepdim=True)
        for n in range(3):
            top = r * (y[:, n] @ support + p_s[:, n].sum() * w[n] - p_s[:, n] @ support)
            top = top + t * (q[:, n] @ query + p_q[:, n].sum() * w[n] - p_q[:, n] @ query)
            w[n] = top / (r * y[:, n].sum() + t * q[:, n].sum())
    return (-15 * half_distances(query, w)).log_softmax(-1)


def test_gradient_descent_goes_the_way_of_autograd():
    episodes = tasks()
    ours = TIMGD(steps=60).logits(episodes)
    for e in range(2):
        expected = by_autograd(episodes.support[e], episodes.support_labels[e], episodes.query[e], 60)
        torch.testing.assert_close(ours[e], expected, rtol=1e-3, atol=1e-3)


def test_alternation_goes_the_way_of_the_formula():
    episodes = tasks()
    ours = TIMADM(steps=20).logits(episodes)
    for e in range(2):
        expected = by_alternation(episodes.support[e], episodes.support_labels[e], episodes.query[e], 20)
        torch.testing.assert_close(ours[e], expected, rtol=1e-3, atol=1e-3)


def test_without_steps_both_are_nearest_class_mean():
    episodes = tasks()
    means = class_means(F.normalize(episodes.support[0], dim=-1), episodes.support_labels[0])
    expected = -15 * half_distances(F.normalize(episodes.query[0], dim=-1), means)
    torch.testing.assert_close(TIMGD(steps=0).logits(episodes)[0], expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(TIMADM(steps=0).logits(episodes)[0], expected.log_softmax(-1), rtol=1e-4, atol=1e-4)


def test_descent_works_where_evaluation_runs():
    with torch.inference_mode():
        assert TIMGD(steps=3).logits(tasks()).shape == (2, 12, 3)
