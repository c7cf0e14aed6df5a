"""Changing the batch norms of a backbone from outside."""

import torch
from torch import nn

from remp.backbones import ResNet12
from remp.methods.maths.batch_norm_hooks import batch_norms, changed_batch_norms, norm_by_first


def test_a_residual_network_has_four_batch_norms_a_block():
    assert len(batch_norms(ResNet12())) == 16


def test_each_layer_is_changed_by_its_own_number_and_only_for_a_while():
    layers = nn.Sequential(nn.BatchNorm2d(2), nn.Sequential(nn.BatchNorm2d(2))).eval()
    maps = torch.rand(3, 2, 4, 4)
    before = layers(maps)
    with changed_batch_norms(layers, lambda number, layer, inputs, output: output + 10**number):
        torch.testing.assert_close(layers(maps), before + 1 + 10, atol=1e-3, rtol=1e-3)
    assert torch.equal(layers(maps), before)


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
