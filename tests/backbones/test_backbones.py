"""Sizes, parameter counts and the contract of every backbone."""

import copy
import math
from functools import cache

import pytest
import torch
from torch import nn

from remp.backbones import BACKBONES, Conv4, ResNet12
from remp.backbones.base import Backbone, batch_norms, changed_batch_norms
from remp.errors import ConfigError

IMAGES_32 = (32, 32, 3)
EVERY_BACKBONE = [(name, {}) for name in BACKBONES] + [
    ("resnet12", {"variant": "metaopt"}),
    ("conv4", {"pooling": "ceil"}),
]


@cache
def without_memory(kind: type[Backbone], **settings) -> Backbone:
    """A backbone that knows its shapes but neither holds nor computes numbers."""
    with torch.device("meta"):
        return kind(**settings)


def n_parameters(backbone: Backbone) -> int:
    return sum(parameter.numel() for parameter in backbone.parameters())


@pytest.fixture(scope="module", params=EVERY_BACKBONE, ids=lambda case: "-".join([case[0], *case[1].values()]))
def make(request):
    name, settings = request.param
    return lambda: BACKBONES[name](**settings).eval()


@pytest.fixture(scope="module")
def original(make):
    torch.manual_seed(0)
    return make()


@pytest.fixture
def backbone(original):
    return copy.deepcopy(original)


@pytest.fixture
def images():
    return torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))


# Numbers below: METHODS, sections A.1 and A.2; a grey image saves 2 x 9 weights for each filter of the first layer.
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 113_088),
        ({"bias": False}, 112_832),
        ({"pooling": "ceil"}, 113_088),
        ({"channels": 1}, 113_088 - 2 * 9 * 64),
    ],
)
def test_conv4_has_the_published_number_of_parameters(settings, expected):
    assert n_parameters(without_memory(Conv4, **settings)) == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"variant": "dfmn"}, 9_378_432),
        ({"variant": "metaopt"}, 12_424_320),
        ({"variant": "dfmn", "channels": 1}, 9_378_432 - 2 * (9 + 9) * 64),
        ({"variant": "metaopt", "channels": 1}, 12_424_320 - 2 * (9 + 1) * 64),
    ],
)
def test_resnet12_has_the_published_number_of_parameters(settings, expected):
    assert n_parameters(without_memory(ResNet12, **settings)) == expected


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("kind", "settings", "side", "expected"),
    [
        (Conv4, {"pooling": "floor"}, 84, (64, 5, 5)),
        (Conv4, {"pooling": "ceil"}, 84, (64, 6, 6)),
        (Conv4, {"pooling": "floor"}, 32, (64, 2, 2)),
        (Conv4, {"pooling": "ceil"}, 32, (64, 2, 2)),
        (ResNet12, {"variant": "dfmn"}, 84, (512, 6, 6)),
        (ResNet12, {"variant": "dfmn"}, 32, (512, 2, 2)),
        (ResNet12, {"variant": "metaopt"}, 84, (640, 5, 5)),
        (ResNet12, {"variant": "metaopt"}, 32, (640, 2, 2)),
    ],
)
def test_maps_have_the_published_size(kind, settings, side, channels, expected):
    assert without_memory(kind, channels=channels, **settings).map_shape((side, side, channels)) == expected


@pytest.mark.parametrize(
    ("kind", "settings", "side", "flattened", "averaged"),
    [
        (Conv4, {"pooling": "floor"}, 84, 1600, 64),
        (Conv4, {"pooling": "ceil"}, 84, 2304, 64),
        (Conv4, {}, 32, 256, 64),
        (ResNet12, {"variant": "dfmn"}, 84, 18_432, 512),
        (ResNet12, {"variant": "dfmn"}, 32, 2048, 512),
        (ResNet12, {"variant": "metaopt"}, 84, 16_000, 640),
        (ResNet12, {"variant": "metaopt"}, 32, 2560, 640),
    ],
)
def test_vectors_have_the_published_length(kind, settings, side, flattened, averaged):
    images = torch.empty(2, 3, side, side, device="meta")
    assert without_memory(kind, readout="flatten", **settings)(images).shape == (2, flattened)
    assert without_memory(kind, readout="average", **settings)(images).shape == (2, averaged)


@pytest.mark.parametrize(
    ("kind", "settings", "half"),
    [
        (Conv4, {"pooling": "floor"}, lambda side: side // 2),
        (Conv4, {"pooling": "ceil"}, lambda side: (side + 1) // 2),
        (ResNet12, {"variant": "dfmn"}, lambda side: (side + 1) // 2),
        (ResNet12, {"variant": "metaopt"}, lambda side: side // 2),
    ],
)
@pytest.mark.parametrize("size", [(16, 16), (17, 31), (33, 47), (101, 28)])
def test_any_image_size_is_halved_four_times(kind, settings, half, size):
    expected = tuple(half(half(half(half(side)))) for side in size)
    assert without_memory(kind, **settings).map_shape((*size, 3))[1:] == expected


def test_images_that_vanish_in_pooling_are_refused_with_their_size():
    with pytest.raises(ConfigError, match=r"Conv4 does not take images of 8 x 8 x 3 .* larger images"):
        Conv4().map_shape((8, 8, 3))


def test_images_with_other_channels_are_refused_and_leave_the_mode_alone():
    backbone = Conv4(channels=1)
    with pytest.raises(ConfigError, match="number of channels"):
        backbone.map_shape(IMAGES_32)
    assert backbone.training


def test_a_vector_has_the_size_of_the_map(backbone, images):
    shape = backbone.map_shape(IMAGES_32)
    assert backbone.maps(images).shape == (2, *shape)
    assert backbone(images).shape == (2, math.prod(shape)) == (2, *backbone.feature_shape(shape))


def test_the_maps_of_all_blocks_end_with_those_of_the_network(backbone, images):
    *before, last = stages = backbone.stages(images)
    assert torch.equal(last, backbone.maps(images))
    assert [maps.shape[2] for maps in stages] == [16, 8, 4, 2]
    assert before[-1].shape[1] == {64: 64, 512: 256, 640: 320}[last.shape[1]]


def test_an_averaged_vector_is_the_mean_over_the_map(backbone, images):
    backbone.readout = "average"
    expected = torch.stack([torch.stack([channel.mean() for channel in maps]) for maps in backbone.maps(images)])
    torch.testing.assert_close(backbone(images), expected)
    assert backbone.feature_shape(backbone.map_shape(IMAGES_32)) == backbone(images).shape[1:]


def test_the_gradient_reaches_every_parameter(backbone, images):
    backbone(images).square().sum().backward()
    unreached = [name for name, parameter in backbone.named_parameters() if parameter.grad is None]
    still = [name for name, parameter in backbone.named_parameters() if not parameter.grad.abs().sum() > 0]
    assert unreached == still == []


def test_memory_layout_does_not_change_the_answer(backbone, images):
    rearranged = images.contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(backbone(rearranged), backbone(images), rtol=1e-4, atol=1e-4)


def test_evaluation_is_deterministic_and_changes_no_state(backbone, images):
    before = {name: value.clone() for name, value in backbone.state_dict().items()}
    assert torch.equal(backbone(images), backbone(images))
    assert all(torch.equal(value, before[name]) for name, value in backbone.state_dict().items())


def test_an_answer_does_not_depend_on_the_other_images_of_the_batch(backbone, images):
    torch.testing.assert_close(backbone(images)[:1], backbone(images[:1]), rtol=1e-4, atol=1e-4)


def test_the_state_carries_everything_to_another_copy(make, backbone, images):
    backbone.train()(images)  # moves running statistics and counters
    other = make()
    other.load_state_dict(backbone.state_dict())
    assert torch.equal(other(images), backbone.eval()(images))


def test_a_residual_network_has_four_batch_norms_a_block():
    assert len(batch_norms(ResNet12())) == 16


def test_each_layer_is_changed_by_its_own_number_and_only_for_a_while():
    layers = nn.Sequential(nn.BatchNorm2d(2), nn.Sequential(nn.BatchNorm2d(2))).eval()
    maps = torch.rand(3, 2, 4, 4)
    before = layers(maps)
    with changed_batch_norms(layers, lambda number, layer, inputs, output: output + 10**number):
        torch.testing.assert_close(layers(maps), before + 1 + 10, atol=1e-3, rtol=1e-3)
    assert torch.equal(layers(maps), before)
