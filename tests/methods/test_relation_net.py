"""Relation Network: every pair of maps compared by itself, and the paper's loss by a plain loop."""

import math

import pytest
import torch
import torch.nn.functional as F

from remp.errors import ConfigError
from remp.methods import RelationNet
from small_episodes import N_WAY, Pixels, mean_cross_entropy, small_episodes

SHAPE = (4, 5, 5)


def make(shape: tuple[int, int, int] = SHAPE, **settings) -> RelationNet:
    method = RelationNet(Pixels(), feature_shape=shape, relation_width=6, **settings).double()
    for norm in (method.head.rest[0], method.head.rest[4]):
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
    return method.eval()


def written_out(method: RelationNet, pair: torch.Tensor) -> float:
    """The score of two maps side by side (2 width, h, w), before the sigmoid, layer by layer."""
    tensors = {name.removeprefix("head."): tensor for name, tensor in method.state_dict().items()}
    maps = pair.unsqueeze(0)
    for convolution, norm in (("pair", "rest.0"), ("rest.3", "rest.4")):
        maps = F.conv2d(maps, tensors[f"{convolution}.weight"], tensors[f"{convolution}.bias"], padding=1)
        mean, variance, weight, bias = (
            tensors[f"{norm}.{part}"].view(-1, 1, 1) for part in ("running_mean", "running_var", "weight", "bias")
        )
        maps = ((maps - mean) / (variance + 1e-5).sqrt() * weight + bias).clamp(min=0)
        maps = F.max_pool2d(maps, 2, ceil_mode=True)
    hidden = (tensors["rest.8.weight"] @ maps.flatten() + tensors["rest.8.bias"]).clamp(min=0)
    return float(tensors["rest.10.weight"] @ hidden + tensors["rest.10.bias"])


@pytest.mark.parametrize("class_map", ["sum", "mean"])
def test_each_query_is_compared_with_each_class(class_map):
    method, batch = make(class_map=class_map), small_episodes(*SHAPE)
    logits = method.logits(batch)
    for e, q, n in [(0, 0, 0), (0, 6, 1), (1, 3, 0), (1, 2, 2)]:
        members = [batch.support[e, s] for s in range(4) if batch.support_labels[e, s] == n]
        of_class = sum(members) / (len(members) if class_map == "mean" else 1)
        pair = torch.cat([of_class, batch.query[e, q]])
        assert logits[e, q, n].item() == pytest.approx(written_out(method, pair))


def test_the_loss_is_the_mean_square_between_scores_and_one_hot_labels():
    method, batch = make(), small_episodes(*SHAPE)
    squares = []
    for rows, labels in zip(method.logits(batch).tolist(), batch.query_labels.tolist(), strict=True):
        for row, label in zip(rows, labels, strict=True):
            squares += [(1 / (1 + math.exp(-logit)) - (n == label)) ** 2 for n, logit in enumerate(row)]
    assert len(squares) == 2 * 7 * N_WAY
    assert method.loss(batch)["local"].item() == pytest.approx(sum(squares) / len(squares))


def test_the_loss_can_be_the_cross_entropy_over_classes():
    method, batch = make(objective="cross-entropy"), small_episodes(*SHAPE)
    logits, labels = method.logits(batch).flatten(0, 1).tolist(), batch.query_labels.flatten().tolist()
    assert method.loss(batch)["local"].item() == pytest.approx(
        mean_cross_entropy(list(zip(logits, labels, strict=True)))
    )


def test_a_head_that_ends_in_three_by_three_has_as_many_weights_as_the_paper():
    head = RelationNet(feature_shape=(64, 12, 12)).head
    assert sum(parameter.numel() for parameter in head.parameters()) == 115_601


@pytest.mark.parametrize("side", [1, 2, 5, 6, 8, 19, 21])
def test_maps_of_any_size_are_compared(side):
    method, batch = make((4, side, side)), small_episodes(4, side, side)
    assert method.logits(batch).shape == (2, 7, N_WAY)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"class_map": "max"}, "choose from: sum, mean"),
        ({"objective": "ce"}, "choose from: mse, cross-entropy"),
        ({"feature_shape": (256,)}, r"got feature_shape=\(256,\); it learns layers on maps"),
        ({}, r"got feature_shape=\(\)"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        RelationNet(**settings)
