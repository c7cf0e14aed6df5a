"""TADAM: its metric by hand, its conditioning by a network written out."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from remp.backbones import Conv4
from remp.episodes import Episodes
from remp.errors import ConfigError
from remp.methods.tadam import TADAM
from small_episodes import N_CLASSES, Pixels, mean_cross_entropy, small_episodes

WIDTH = 3


def make(**settings) -> TADAM:
    backbone = Conv4(1, width=WIDTH, readout="average")
    return TADAM(backbone, n_classes=N_CLASSES, feature_shape=(WIDTH,), **settings).double().eval()


def let_in(method: TADAM) -> TADAM:
    for condition in method.conditions:
        torch.nn.init.normal_(condition.post_multipliers)
    return method


def residual(part: torch.nn.Module, x: Tensor) -> Tensor:
    weights = {name: parameter for name, parameter in part.named_parameters()}
    swish = lambda v: v / (1 + (-v).exp())  # noqa: E731
    x = swish(weights["first.weight"] @ x + weights["first.bias"])
    x = swish(x + weights["second.weight"] @ x + weights["second.bias"])
    return x + weights["third.weight"] @ x + weights["third.bias"]


def network(method: TADAM, images: Tensor, task: Tensor | None = None) -> Tensor:
    """ConvNet with running statistics 0 and 1, and after each norm h ← (1 + γ) h + β: images of a task -> (n, WIDTH)"""
    maps = images
    for i in range(4):
        convolution = method.backbone.blocks[4 * i]
        maps = F.conv2d(maps, convolution.weight, convolution.bias, padding=1) / (1 + 1e-5) ** 0.5
        if task is not None:
            condition = method.conditions[i]
            gamma = condition.post_multipliers[0] * residual(condition.factor, task)
            beta = condition.post_multipliers[1] * residual(condition.shift, task)
            maps = (1 + gamma[:, None, None]) * maps + beta[:, None, None]
        maps = F.max_pool2d(maps.clamp(min=0), 2)
    return maps.mean((2, 3))


def naive_score(method: TADAM, batch: Episodes) -> Tensor:
    answers = []
    for support, labels, query in zip(batch.support, batch.support_labels, batch.query, strict=True):
        means = lambda z, labels=labels: torch.stack([z[labels == n].mean(0) for n in range(3)])  # noqa: E731
        task = means(network(method, support)).mean(0)
        prototypes = means(network(method, support, task))
        answers.append(-7.5 * (network(method, query, task)[:, None] - prototypes).norm(dim=2))
    return torch.stack(answers)


def test_a_case_worked_by_hand():
    """Prototypes (1, 0) and (4, 5); the query (1, 1) is 1 and 5 away from them."""
    support = torch.tensor([[[0.0, 0.0], [4.0, 5.0], [2.0, 0.0]]])
    episodes = Episodes(support, torch.tensor([[0, 1, 0]]), torch.tensor([[[1.0, 1.0]]]), None, 2)
    assert TADAM().logits(episodes).flatten().tolist() == pytest.approx([-7.5, -37.5])


def test_every_layer_is_scaled_and_shifted_by_what_the_task_says():
    method, batch = let_in(make()), small_episodes(1, 16, 16)
    expected = naive_score(method, batch)
    torch.testing.assert_close(method.score(batch), expected, rtol=1e-7, atol=1e-5)
    assert method.loss(batch)["local"].item() == pytest.approx(
        F.cross_entropy(expected.flatten(0, 1), batch.query_labels.flatten()).item()
    )


def test_at_first_tasks_change_nothing():
    method, batch = make(), small_episodes(1, 16, 16)
    torch.testing.assert_close(method.score(batch), method.logits(batch.map(method.embed)))


@pytest.mark.parametrize(("progress", "weight"), [(0.0, 1.0), (0.049, 1.0), (0.05, 0.9), (0.51, 0.9**10)])
def test_the_auxiliary_task_fades(progress, weight):
    method, batch = make(), small_episodes(1, 16, 16)
    rows = []
    for items, labels in ((batch.support, batch.support_labels), (batch.query, batch.query_labels)):
        for e in range(2):
            scores = method.classifier(network(method, items[e]))
            rows += [(scores[i].tolist(), int(batch.class_ids[e, n])) for i, n in enumerate(labels[e])]
    assert method.loss(batch, progress)["auxiliary"].item() == pytest.approx(weight * mean_cross_entropy(rows))


def test_the_gates_of_the_conditions_are_penalised():
    method = make()
    for condition in method.conditions:
        condition.post_multipliers.data = torch.tensor([2.0, 1.0], dtype=torch.float64)
    assert method.loss(small_episodes(1, 16, 16))["penalty"].item() == pytest.approx(0.01 * 4 * 5)


def test_conditions_learn_once_they_are_let_in():
    method = let_in(make()).train()
    torch.stack(list(method.loss(small_episodes(1, 16, 16)).values())).sum().backward()
    for name, parameter in method.conditions.named_parameters():
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


def test_a_query_on_a_prototype_does_not_spoil_the_gradient():
    support = torch.ones(1, 2, 3, requires_grad=True)
    TADAM().logits(Episodes(support, torch.tensor([[0, 1]]), torch.ones(1, 1, 3), None, 2)).sum().backward()
    assert support.grad.isfinite().all()


def test_a_backbone_without_batch_norm_is_refused():
    with pytest.raises(ConfigError, match="Pixels has none"):
        TADAM(Pixels(), feature_shape=(3,))
