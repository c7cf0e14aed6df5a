"""ConvNet-64 against the textbook order of its layers."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remp.backbones import Conv4
from remp.errors import ConfigError


def textbook(network: Conv4, images: Tensor, *, ceil: bool, last_relu: bool, pools: int = 4) -> Tensor:
    """Convolution, batch norm with the statistics of the batch, ReLU four times, pooling the first `pools` times."""
    layers = list(network.modules())
    convolutions = [layer for layer in layers if isinstance(layer, nn.Conv2d)]
    norms = [layer for layer in layers if isinstance(layer, nn.BatchNorm2d)]
    maps = images
    for i, (convolution, norm) in enumerate(zip(convolutions, norms, strict=True)):
        maps = F.conv2d(maps, convolution.weight, convolution.bias, padding=1)
        maps = F.batch_norm(maps, None, None, norm.weight, norm.bias, training=True)
        maps = F.relu(maps) if i < 3 or last_relu else maps
        maps = F.max_pool2d(maps, 2, ceil_mode=ceil) if i < pools else maps
    return maps


@pytest.mark.parametrize("last_relu", [True, False])
@pytest.mark.parametrize("pooling", ["floor", "ceil"])
def test_pooling_before_relu_gives_the_numbers_of_the_textbook_order(pooling, last_relu):
    torch.manual_seed(0)
    network = Conv4(width=8, pooling=pooling, last_relu=last_relu)
    images = torch.randn(4, 3, 27, 35)
    expected = textbook(network, images, ceil=pooling == "ceil", last_relu=last_relu)
    torch.testing.assert_close(network.maps(images), expected)


@pytest.mark.parametrize("pools", range(5))
def test_only_the_first_blocks_pool(pools):
    torch.manual_seed(0)
    network, images = Conv4(width=8, pools=pools), torch.randn(4, 3, 20, 28)
    expected = textbook(network, images, ceil=False, last_relu=True, pools=pools)
    torch.testing.assert_close(network.maps(images), expected)


@pytest.mark.parametrize(("side", "of_the_map"), [(32, 8), (84, 21)])
def test_the_encoder_of_relation_network_keeps_a_quarter_of_the_side(side, of_the_map):
    assert Conv4(pools=2).map_shape((side, side, 3)) == (64, of_the_map, of_the_map)


@pytest.mark.parametrize("width", [-3, 0])
def test_a_network_without_channels_is_refused(width):
    with pytest.raises(ConfigError, match=f"width is {width}; needed a number of at least 1"):
        Conv4(width=width)


@pytest.mark.parametrize("pools", [-1, 5])
def test_pools_that_no_block_has_are_refused(pools):
    with pytest.raises(ConfigError, match=f"pools is {pools}; needed 0 … 4"):
        Conv4(pools=pools)


def test_pooling_before_relu_gives_the_gradient_of_the_textbook_order():
    torch.manual_seed(0)
    network, images = Conv4(width=8), torch.randn(4, 3, 32, 32)
    parameters = list(network.parameters())
    ours = torch.autograd.grad(network.maps(images).square().sum(), parameters)
    theirs = torch.autograd.grad(textbook(network, images, ceil=False, last_relu=True).square().sum(), parameters)
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


def test_features_are_negative_only_without_the_last_relu():
    torch.manual_seed(0)
    images = torch.randn(4, 3, 32, 32)
    assert Conv4()(images).min() >= 0
    assert Conv4(last_relu=False)(images).min() < 0


def test_width_sets_the_number_of_channels():
    assert Conv4(width=16).map_shape((32, 32, 3)) == (16, 2, 2)
