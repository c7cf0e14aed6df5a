"""MAML against steps that are written out."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remp.backbones import Conv4
from remp.backbones.base import Backbone
from remp.backbones.resnet12 import DropBlock
from remp.episodes import Episodes
from remp.methods.maml import MAML, norm_by_first
from small_episodes import N_WAY, small_episodes


class Linear(Backbone):
    """One matrix on the pixels."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(dim, dim) / dim)

    def maps(self, images: Tensor) -> Tensor:
        return torch.einsum("dc,nchw->ndhw", self.matrix, images)


class Dropping(Backbone):
    """A convolution, batch norm and DropBlock, which counts its passes."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), DropBlock())

    def maps(self, images: Tensor) -> Tensor:
        return self.layers(images)


def make(dim: int = 4, **settings) -> MAML:
    return MAML(Linear(dim), feature_shape=(dim,), inner_rate=0.3, train_steps=3, test_steps=4, **settings).double()


def naive_head(support: Tensor, labels: Tensor, steps: int, rate: float) -> tuple[Tensor, Tensor]:
    """Softmax regression from zero by gradient descent: the gradient is (p - y) zᵀ, averaged."""
    weight, bias = torch.zeros(N_WAY, support.shape[1], dtype=support.dtype), torch.zeros(N_WAY, dtype=support.dtype)
    for _ in range(steps):
        error = (support @ weight.T + bias).softmax(1) - F.one_hot(labels, N_WAY)
        weight, bias = weight - rate * error.T @ support / len(support), bias - rate * error.mean(0)
    return weight, bias


def naive_score(matrix: Tensor, task: Episodes, steps: int, first_order: bool = False) -> Tensor:
    """One episode of images with one pixel; gradients by torch.autograd."""
    support, query = task.support[0].flatten(1), task.query[0].flatten(1)
    weight = torch.zeros(N_WAY, len(matrix), dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(N_WAY, dtype=torch.float64, requires_grad=True)
    for _ in range(steps):
        loss = F.cross_entropy(support @ matrix.T @ weight.T + bias, task.support_labels[0])
        gradients = torch.autograd.grad(loss, (matrix, weight, bias), create_graph=not first_order)
        matrix, weight, bias = (
            old - 0.3 * gradient for old, gradient in zip((matrix, weight, bias), gradients, strict=True)
        )
    return query @ matrix.T @ weight.T + bias


def test_on_features_the_classifier_takes_the_steps():
    batch = small_episodes(5)
    logits = MAML(inner_rate=0.3, test_steps=4).eval().logits(batch)
    for e in range(2):
        weight, bias = naive_head(batch.support[e], batch.support_labels[e], steps=4, rate=0.3)
        torch.testing.assert_close(logits[e], batch.query[e] @ weight.T + bias)


@pytest.mark.parametrize("training", [True, False])
def test_backbone_and_classifier_take_the_steps_together(training):
    method, batch = make().train(training), small_episodes(4, 1, 1)
    scores = method.score(batch)
    for e in range(2):
        expected = naive_score(method.backbone.matrix, batch[e : e + 1], steps=3 if training else 4)
        torch.testing.assert_close(scores[e], expected)


@pytest.mark.parametrize("first_order", [True, False])
def test_the_gradient_of_the_start_goes_through_the_steps_unless_first_order(first_order):
    method, batch = make(first_order=first_order), small_episodes(4, 1, 1)
    method.loss(batch)["local"].backward()
    start = method.backbone.matrix.detach().clone().requires_grad_()
    tasks = [batch[e : e + 1] for e in range(2)]
    expected = torch.cat([naive_score(start, task, 3, first_order) for task in tasks])
    F.cross_entropy(expected, batch.query_labels.flatten()).backward()
    torch.testing.assert_close(method.backbone.matrix.grad, start.grad)


def test_the_second_order_gradient_is_that_of_finite_differences():
    method, batch = make(), small_episodes(4, 1, 1)
    matrix = method.backbone.matrix
    method.loss(batch)["local"].backward()
    with torch.no_grad():
        for i, j in ((0, 1), (3, 2)):
            values = []
            for sign in (1, -1):
                matrix[i, j] += sign * 1e-5
                values.append(method.loss(batch)["local"].item())
                matrix[i, j] -= sign * 1e-5
            assert matrix.grad[i, j].item() == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-5)


def test_it_adapts_in_inference_mode_as_it_does_outside():
    method, batch = make().eval(), small_episodes(4, 1, 1)
    outside = method.score(batch)
    with torch.inference_mode():
        inside = method.score(batch.map(lambda images: images * 1))
        assert method.logits(batch.map(lambda images: images.flatten(1))).shape == (2, 7, N_WAY)
    assert not inside.requires_grad
    assert torch.equal(inside, outside)


@pytest.mark.parametrize("training", [True, False])
def test_with_batch_norm_a_query_does_not_see_the_others(training):
    method = MAML(Conv4(1, width=4), feature_shape=(4,)).double().train(training)
    batch = small_episodes(1, 16, 16)
    alone = method.score(replace(batch, query=batch.query[:, :1], query_labels=None))
    torch.testing.assert_close(alone, method.score(batch)[:, :1])


def test_training_reaches_every_weight_running_statistic_and_counter():
    backbone = Dropping()
    method = MAML(backbone, feature_shape=(18,), train_steps=2)
    batch = small_episodes(1, 3, 3).map(lambda images: images.float())[:1]
    before = {name: buffer.clone() for name, buffer in method.named_buffers() if "running" in name}
    method.loss(batch)["local"].backward()
    for name, parameter in method.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    changed = dict(method.named_buffers())
    assert all(not torch.equal(value, changed[name]) for name, value in before.items())
    assert changed["backbone.layers.2.passes"] == 1
    assert backbone.training


def test_the_norm_by_all_maps_is_batch_norm():
    layer, maps = nn.BatchNorm2d(3), torch.randn(4, 3, 5, 5)
    nn.init.normal_(layer.weight)
    nn.init.normal_(layer.bias)
    torch.testing.assert_close(norm_by_first(layer, maps, 4), layer(maps))
    torch.testing.assert_close(norm_by_first(layer, maps, 2)[:2], layer(maps[:2]))


def test_maps_after_the_first_do_not_count_for_the_norm():
    layer, maps = nn.BatchNorm2d(3), torch.randn(4, 3, 5, 5)
    other = torch.cat([maps[:3], 100 * maps[3:]])
    assert torch.equal(norm_by_first(layer, maps, 2)[:3], norm_by_first(layer, other, 2)[:3])
