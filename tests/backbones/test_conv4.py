"""ConvNet-64 against the textbook order of its layers."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remp.backbones import Conv4


def textbook(network: Conv4, images: Tensor, *, ceil: bool, last_relu: bool) -> Tensor:
    """Convolution, batch norm with the statistics of the batch, ReLU, pooling: four times."""
    layers = list(network.modules())
    convolutions = [layer for layer in layers if isinstance(layer, nn.Conv2d)]
    norms = [layer for layer in layers if isinstance(layer, nn.BatchNorm2d)]
    maps = images
    for i, (convolution, norm) in enumerate(zip(convolutions, norms, strict=True)):
        maps = F.conv2d(maps, convolution.weight, convolution.bias, padding=1)
        maps = F.batch_norm(maps, None, None, norm.weight, norm.bias, training=True)
        maps = F.relu(maps) if i < 3 or last_relu else maps
        maps = F.max_pool2d(maps, 2, ceil_mode=ceil)
    return maps


@pytest.mark.parametrize("last_relu", [True, False])
@pytest.mark.parametrize("pooling", ["floor", "ceil"])
def test_pooling_before_relu_gives_the_numbers_of_the_textbook_order(pooling, last_relu):
    torch.manual_seed(0)
    network = Conv4(width=8, pooling=pooling, last_relu=last_relu)
    images = torch.randn(4, 3, 27, 35)
    expected = textbook(network, images, ceil=pooling == "ceil", last_relu=last_relu)
    torch.testing.assert_close(network.maps(images), expected)


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
