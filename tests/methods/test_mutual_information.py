"""The written-out gradient of TIM's loss against autograd on the loss as the papers write it."""

from dataclasses import replace

import pytest
import torch

from remp.errors import ConfigError
from remp.methods.tim import InformationLoss, adam

LOSS = InformationLoss(cross_entropy=0.3, marginal=1.1, conditional=0.7, temperature=5.0)


def entropy(p: torch.Tensor, alpha: float) -> torch.Tensor:
    return -(p * p.log()).sum(-1) if alpha == 1 else (1 - p.pow(alpha).sum(-1)) / (alpha - 1)


def loss_of_one_task(prototypes, support, support_labels, query, loss: InformationLoss) -> torch.Tensor:
    support_logits = -loss.temperature / 2 * torch.cdist(support, prototypes).square()
    p = (-loss.temperature / 2 * torch.cdist(query, prototypes).square()).softmax(-1)
    cross_entropy = torch.nn.functional.cross_entropy(support_logits, support_labels)
    return (
        loss.cross_entropy * cross_entropy
        - loss.marginal * entropy(p.mean(0), loss.alpha)
        + loss.conditional * entropy(p, loss.alpha).mean()
    )


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0, 7.0])
def test_the_gradient_is_that_of_autograd(alpha):
    torch.manual_seed(0)
    loss = replace(LOSS, alpha=alpha)
    labels = torch.tensor([[0, 1, 2, 2], [2, 1, 0, 1]])
    prototypes = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    items = torch.randn(2, 9, 6, dtype=torch.float64) * 0.5
    one_hot = torch.nn.functional.one_hot(labels, 3).transpose(1, 2).double()
    total = sum(loss_of_one_task(prototypes[e], items[e, :4], labels[e], items[e, 4:], loss) for e in range(2))
    (expected,) = torch.autograd.grad(total, prototypes)
    torch.testing.assert_close(loss.gradient(prototypes.detach(), items, one_hot), expected)


def test_weights_and_temperatures_out_of_range_are_errors():
    with pytest.raises(ConfigError, match="temperature is 0"):
        replace(LOSS, temperature=0.0)
    with pytest.raises(ConfigError, match="marginal is -1"):
        replace(LOSS, marginal=-1.0)


def test_the_way_is_that_of_the_optimiser_of_torch():
    torch.manual_seed(0)
    start, goal = torch.randn(2, 3, 5), torch.randn(2, 3, 5)
    values = torch.nn.Parameter(start.clone())
    optimiser = torch.optim.Adam([values], lr=0.01)
    for _ in range(30):
        optimiser.zero_grad()
        (values - goal).pow(4).sum().backward()
        optimiser.step()
    ours = adam(start, lambda at: 4 * (at - goal) ** 3, steps=30, step_size=0.01)
    torch.testing.assert_close(ours, values.detach(), rtol=1e-4, atol=1e-5)


def test_a_flat_loss_does_not_move_anything():
    start = torch.arange(4.0)
    assert torch.equal(adam(start, torch.zeros_like, steps=10, step_size=0.1), start)
