"""Alpha-TIM against autograd on the paper's loss, and its choice of alpha."""

from dataclasses import replace

import torch
import torch.nn.functional as F

from remp.methods.tim import TIMGD, AlphaTIM
from transductive_task import tasks


def by_autograd(support, labels, query, alpha: float, steps: int) -> torch.Tensor:
    support, query = F.normalize(support, dim=-1), F.normalize(query, dim=-1)
    prototypes = torch.nn.Parameter(torch.stack([support[labels == way].mean(0) for way in range(3)]))
    optimiser = torch.optim.Adam([prototypes], lr=1e-4)
    for _ in range(steps):
        p = (-7.5 * torch.cdist(query, prototypes).square()).softmax(-1)
        loss = F.cross_entropy(-7.5 * torch.cdist(support, prototypes).square(), labels)
        loss = loss - (1 - p.mean(0).pow(alpha).sum()) / (alpha - 1)
        loss = loss + ((1 - p.pow(alpha).sum(-1)) / (alpha - 1)).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return -7.5 * torch.cdist(query, prototypes.detach()).square()


def test_descent_goes_the_way_of_autograd():
    episodes = tasks()
    ours = AlphaTIM(alpha_few=3.0, steps=50).logits(episodes)
    for e in range(2):
        expected = by_autograd(episodes.support[e], episodes.support_labels[e], episodes.query[e], 3.0, 50)
        torch.testing.assert_close(ours[e], expected, rtol=1e-3, atol=1e-3)


def test_many_shots_have_an_alpha_of_their_own():
    episodes = tasks()
    support, labels = episodes.support.repeat(1, 3, 1), episodes.support_labels.repeat(1, 3)
    many = replace(episodes, support=support, support_labels=labels)  # 6 shots in the mean instead of 2
    few_as_many, method = AlphaTIM(alpha_few=7.0, steps=20), AlphaTIM(alpha_few=2.0, alpha_many=7.0, steps=20)
    assert not torch.equal(method.logits(episodes), few_as_many.logits(episodes))
    assert torch.equal(method.logits(many), few_as_many.logits(many))


def test_alpha_1_is_tim():
    settings = {"cross_entropy": 1.0, "conditional": 1.0, "steps": 20}
    expected = TIMGD(**settings).logits(tasks())
    torch.testing.assert_close(AlphaTIM(alpha_few=1.0, **settings).logits(tasks()), expected)
