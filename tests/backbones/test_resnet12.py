"""ResNet-12 against its definition: blocks, initial weights, where it drops what."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remp.backbones import ResNet12
from remp.backbones.resnet12 import DropBlock
from remp.errors import ConfigError


def first_block_by_hand(network: ResNet12, images: Tensor, *, slope: float, epsilon: float, ceil: bool) -> Tensor:
    """Three convolutions and a skip, summed before the last activation and then pooled; no dropout."""
    block = network.blocks[0]

    def normalised(maps: Tensor, convolution: nn.Conv2d, norm: nn.BatchNorm2d) -> Tensor:
        maps = F.conv2d(maps, convolution.weight, convolution.bias, padding=convolution.kernel_size[0] // 2)
        return F.batch_norm(maps, None, None, norm.weight, norm.bias, training=True, eps=epsilon)

    path = F.leaky_relu(normalised(images, block.path[0], block.path[1]), slope)
    path = F.leaky_relu(normalised(path, block.path[3], block.path[4]), slope)
    path = normalised(path, block.path[6], block.path[7])
    return F.max_pool2d(F.leaky_relu(path + normalised(images, *block.skip), slope), 2, ceil_mode=ceil)


@pytest.mark.parametrize(
    ("variant", "slope", "epsilon", "ceil"), [("dfmn", 0.0, 2e-5, True), ("metaopt", 0.1, 1e-5, False)]
)
def test_a_block_equals_its_definition(variant, slope, epsilon, ceil):
    torch.manual_seed(0)
    network, images = ResNet12(variant=variant), 0.01 * torch.randn(2, 3, 9, 11)  # small: epsilon matters
    expected = first_block_by_hand(network, images, slope=slope, epsilon=epsilon, ceil=ceil)
    torch.testing.assert_close(network.blocks[0](images), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("variant", "kernel"), [("dfmn", 3), ("metaopt", 1)])
def test_the_skip_path_has_the_kernel_of_its_variant(variant, kernel):
    with torch.device("meta"):
        network = ResNet12(variant=variant)
    assert [block.skip[0].kernel_size for block in network.blocks[::2]] == [(kernel, kernel)] * 4


@pytest.mark.parametrize(
    ("variant", "fan", "expected"),
    [("dfmn", 9 * 128, math.sqrt(1 / (9 * 128))), ("metaopt", 9 * 160, math.sqrt(2 / (9 * 160)))],
)
def test_initial_weights_have_the_spread_of_their_variant(variant, fan, expected):
    torch.manual_seed(0)
    convolution = ResNet12(variant=variant).blocks[2].path[3]
    assert convolution.weight[0].numel() == fan
    assert convolution.weight.std().item() == pytest.approx(expected, rel=0.02)
    assert convolution.bias is None or not convolution.bias.any()


@pytest.mark.parametrize(
    ("variant", "kinds"),
    [("dfmn", [nn.Dropout] * 4), ("metaopt", [nn.Dropout, nn.Dropout, DropBlock, DropBlock])],
)
def test_every_block_is_followed_by_the_dropout_of_its_variant(variant, kinds):
    with torch.device("meta"):
        network = ResNet12(variant=variant, dropout=0.2, dropblock_size=3, dropblock_ramp=10)
    drops = list(network.blocks[1::2])
    assert [type(drop) for drop in drops] == kinds
    assert {drop.p if isinstance(drop, nn.Dropout) else drop.rate for drop in drops} == {0.2}
    assert {(drop.size, drop.ramp) for drop in drops if isinstance(drop, DropBlock)} <= {(3, 10)}


def test_training_passes_follow_the_global_seed():
    network, images = ResNet12(variant="metaopt", dropblock_ramp=0), torch.randn(2, 3, 16, 16)

    def answer(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return network(images)

    assert torch.equal(answer(1), answer(1))
    assert not torch.equal(answer(1), answer(2))


def test_an_unknown_variant_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"got variant='feat'.*dfmn or metaopt"):
        ResNet12(variant="feat")
