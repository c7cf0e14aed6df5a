"""Prototypes known by weights of the items, against prototypes that are vectors."""

import torch

from remp.methods.maths.item_space import inner_products, mean_weights, squared_distances, unit_weights

ITEMS = torch.randn(2, 7, 20, generator=torch.Generator().manual_seed(0))
WEIGHTS = torch.rand(2, 3, 7, generator=torch.Generator().manual_seed(1))


def test_distances_are_those_of_the_vectors():
    expected = torch.cdist(WEIGHTS @ ITEMS, ITEMS).square()
    torch.testing.assert_close(squared_distances(WEIGHTS, inner_products(ITEMS)), expected, rtol=1e-4, atol=1e-4)


def test_mean_weights_give_the_mean_of_each_class_and_nothing_for_an_empty_one():
    labels = torch.tensor([[[1.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]]).expand(2, -1, -1)
    prototypes = mean_weights(labels, 7) @ ITEMS
    torch.testing.assert_close(prototypes[:, 0], ITEMS[:, :2].mean(1))
    torch.testing.assert_close(prototypes[:, 1], ITEMS[:, 2])
    assert (prototypes[:, 2] == 0).all()


def test_unit_weights_give_prototypes_of_norm_1():
    prototypes = unit_weights(WEIGHTS, inner_products(ITEMS)) @ ITEMS
    torch.testing.assert_close(prototypes, torch.nn.functional.normalize(WEIGHTS @ ITEMS, dim=-1), rtol=1e-4, atol=1e-5)
