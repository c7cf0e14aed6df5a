"""Support and queries as one tensor, with a copy or without; CL2N by hand, and its inner products against features."""

import pytest
import torch

from remp.episodes import Episodes
from remp.methods.maths.whole_episode import (
    all_items,
    centred_on_sphere,
    cl2n,
    cl2n_products,
    inner_products,
    joined,
    mean_weights,
    means_with_queries,
    power_transform,
    squared_distances,
    unit_weights,
)

ITEMS = torch.randn(2, 7, 20, generator=torch.Generator().manual_seed(0))
WEIGHTS = torch.rand(2, 3, 7, generator=torch.Generator().manual_seed(1))


def test_slices_of_one_tensor_are_joined_without_a_copy():
    whole = torch.randn(3, 7, 4)
    again = joined(whole[:, :2], whole[:, 2:])
    assert torch.equal(again, whole)
    assert again.data_ptr() == whole.data_ptr()


def test_episodes_that_were_mapped_are_joined_without_a_copy():
    ids = torch.arange(12).reshape(2, 6)
    labels = torch.zeros(2, 2, dtype=torch.long)
    episodes = Episodes(ids[:, :2], labels, ids[:, 2:], None, 1).gather(torch.randn(12, 5, 3))
    assert all_items(episodes).data_ptr() == episodes.support.data_ptr()
    assert torch.equal(all_items(episodes), torch.cat([episodes.support, episodes.query], dim=1))


def test_other_tensors_are_concatenated():
    whole = torch.randn(3, 7, 4)
    cases = {
        "overlapping": (whole[:, :3], whole[:, 2:]),
        "in the other order": (whole[:, 2:], whole[:, :2]),
        "with a gap": (whole[:, :2], whole[:, 3:]),
        "of other strides": (whole[:, :2], whole.transpose(1, 2).contiguous().transpose(1, 2)[:, 2:]),
        "of two tensors": (whole[:, :2], whole.clone()[:, 2:]),
        "of other tasks": (whole[:2, :2], whole[1:, 2:]),
        "copied": (whole[:, :2].clone(), whole[:, 2:].clone()),
    }
    for name, (support, query) in cases.items():
        assert torch.equal(joined(support, query), torch.cat([support, query], dim=1)), name


def test_the_gradient_reaches_both():
    whole = torch.randn(3, 7, 4, requires_grad=True)
    joined(whole[:, :2], whole[:, 2:]).sum().backward()
    assert torch.equal(whole.grad, torch.ones_like(whole))


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


def test_means_with_queries_of_a_case_worked_by_hand():
    """Class 0: (2 + 4 + ½ · 8) / (2 + ½) = 4; class 1: (1 + ½ · 8 + 1 · 7) / (1 + ½ + 1) = 4.8."""
    support, query = torch.tensor([[[2.0], [1.0], [4.0]]]), torch.tensor([[[8.0], [7.0]]])
    weights = torch.tensor([[[0.5, 0.5], [0.0, 1.0]]])
    means = means_with_queries(support, torch.tensor([[0, 1, 0]]), query, weights)
    assert means.flatten().tolist() == pytest.approx([4.0, 4.8])


def test_means_of_maps_keep_their_shape():
    means = means_with_queries(
        torch.rand(2, 3, 4, 2, 2), torch.tensor([[0, 1, 1]] * 2), torch.rand(2, 5, 4, 2, 2), torch.rand(2, 5, 2)
    )
    assert means.shape == (2, 2, 4, 2, 2)


def test_a_class_that_nothing_belongs_to_is_zero():
    means = means_with_queries(
        torch.ones(1, 1, 2), torch.zeros(1, 1, dtype=torch.long), torch.ones(1, 1, 2), torch.zeros(1, 1, 2)
    )
    assert means.tolist() == [[[1.0, 1.0], [0.0, 0.0]]]


def random_items(n_items: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(2, n_items, 5, generator=torch.Generator().manual_seed(n_items)).to(dtype)


def test_a_case_worked_by_hand():
    """(4, 3) - (1, -1) = (3, 4), of norm 5; without a mean (4, 3) itself has norm 5."""
    features = torch.tensor([[4.0, 3.0]])
    assert cl2n(features, torch.tensor([1.0, -1.0]))[0].tolist() == pytest.approx([0.6, 0.8])
    assert cl2n(features, None)[0].tolist() == pytest.approx([0.8, 0.6])


@pytest.mark.parametrize("base_mean", [None, torch.tensor([0.5, -1.0, 0.0, 2.0, 0.1])])
def test_products_are_those_of_the_normalised_features(base_mean):
    support, query = random_items(3), random_items(4)
    items = torch.cat([support, query], dim=1) - (0 if base_mean is None else base_mean)
    items = items / items.norm(dim=-1, keepdim=True)
    expected = torch.einsum("eid,ejd->eij", items, items)
    torch.testing.assert_close(cl2n_products(support, query, base_mean), expected, rtol=1e-5, atol=1e-6)


def test_a_zero_feature_has_zero_products_and_leaves_the_others():
    support, query = torch.zeros(1, 1, 2), torch.tensor([[[3.0, 4.0], [4.0, 3.0]]])
    expected = torch.tensor([[[0.0, 0.0, 0.0], [0.0, 1.0, 0.96], [0.0, 0.96, 1.0]]])
    torch.testing.assert_close(cl2n_products(support, query, None), expected)


@pytest.mark.parametrize("size", [1e-10, 1e10, 1e30])
def test_products_do_not_depend_on_the_size_of_features(size):
    support, query = random_items(3), random_items(4)
    usual = cl2n_products(support, query, None)
    torch.testing.assert_close(cl2n_products(support * size, query * size, None), usual, rtol=1e-4, atol=1e-5)


def test_half_precision_is_computed_in_single():
    support, query = random_items(3, torch.float16), random_items(4, torch.float16)
    products = cl2n_products(support, query, None)
    assert products.dtype == torch.float32
    torch.testing.assert_close(products, cl2n_products(support.float(), query.float(), None))


def test_the_square_root_keeps_the_sign():
    features = torch.tensor([4.0, 0.25, 0.0, -9.0])
    torch.testing.assert_close(
        power_transform(features, 0.5), torch.tensor([2.0, 0.5, 1e-3, -3.0]), rtol=1e-5, atol=1e-5
    )


def test_the_exponent_1_changes_nothing():
    features = torch.arange(-2.0, 3.0)
    assert power_transform(features, 1.0) is features


def test_centring_leaves_directions_from_the_mean():
    items = torch.tensor([[[3.0, 1.0], [1.0, 1.0]]])
    torch.testing.assert_close(centred_on_sphere(items), torch.tensor([[[1.0, 0.0], [-1.0, 0.0]]]))
    assert (centred_on_sphere(items[:, :1]) == 0).all()
