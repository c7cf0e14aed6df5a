"""The corrections of BD-CSPN on inner products, against the same on features."""

import torch

from remp.methods.bd_cspn import completed_weights, cosines, in_unshifted_items, shift_queries
from remp.methods.maths.whole_episode import cl2n_products


def unit_items() -> torch.Tensor:
    items = torch.randn(2, 7, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return items / items.norm(dim=-1, keepdim=True)


def products_of(items: torch.Tensor) -> torch.Tensor:
    return torch.einsum("eid,ejd->eij", items, items)


def shifted(items: torch.Tensor, n_support: int) -> torch.Tensor:
    support, query = items[:, :n_support], items[:, n_support:]
    return torch.cat([support, query + support.mean(1, keepdim=True) - query.mean(1, keepdim=True)], dim=1)


def test_shifted_products_are_those_of_shifted_features():
    items = unit_items()
    torch.testing.assert_close(shift_queries(products_of(items), 3), products_of(shifted(items, 3)))


def test_weights_of_shifted_items_are_the_same_points_in_unshifted_ones():
    items = unit_items()
    weights = torch.rand(2, 3, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(in_unshifted_items(weights, 3) @ items, weights @ shifted(items, 3))


def test_cosines_are_those_of_the_points_the_weights_stand_for():
    items = unit_items()
    weights = torch.randn(2, 3, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = torch.nn.functional.cosine_similarity((weights @ items).unsqueeze(2), items.unsqueeze(1), dim=-1)
    torch.testing.assert_close(cosines(weights, products_of(items)), expected)


def test_a_query_as_near_to_two_classes_counts_for_both():
    """Labelled (1, 0) and (0, 1), a query between them: both classes give it the same weight."""
    products = cl2n_products(torch.eye(2).unsqueeze(0), torch.ones(1, 1, 2), None)
    weights = completed_weights(products, torch.tensor([[0, 1]]), 2)
    assert weights[0, 0, 2] == weights[0, 1, 2] > 0
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 2))


def test_a_class_whose_support_is_nearer_to_another_keeps_its_mean():
    """Class 0 is the mean of (1, 0) and (0, 1); relabelled, each joins the class of which it is a copy."""
    support = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]])
    products = cl2n_products(support, support[:, :1], None)
    weights = completed_weights(products, torch.tensor([[0, 0, 1, 2]]), 3, relabel_support=True)
    assert weights[0, 0].tolist() == [0.5, 0.5, 0.0, 0.0, 0.0]
    assert weights[0, 1, [0, 2, 4]].min() > 0.3
