"""CL2N by hand, and its inner products against those of features that are really normalised."""

import pytest
import torch

from remp.methods.maths.whole_episode import centred_on_sphere, cl2n, cl2n_products, power_transform


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
