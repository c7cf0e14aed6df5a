"""Class means with weighted queries, by hand and at the ends."""

import pytest
import torch

from remp.methods.maths.dense import means_with_queries


def test_a_case_worked_by_hand():
    """Class 0: (2 + 4 + ½ · 8) / (2 + ½) = 4; class 1: (1 + ½ · 8 + 1 · 7) / (1 + ½ + 1) = 4.8."""
    support, query = torch.tensor([[[2.0], [1.0], [4.0]]]), torch.tensor([[[8.0], [7.0]]])
    weights = torch.tensor([[[0.5, 0.5], [0.0, 1.0]]])
    means = means_with_queries(support, torch.tensor([[0, 1, 0]]), query, weights)
    assert means.flatten().tolist() == pytest.approx([4.0, 4.8])


def test_maps_keep_their_shape():
    means = means_with_queries(
        torch.rand(2, 3, 4, 2, 2), torch.tensor([[0, 1, 1]] * 2), torch.rand(2, 5, 4, 2, 2), torch.rand(2, 5, 2)
    )
    assert means.shape == (2, 2, 4, 2, 2)


def test_a_class_that_nothing_belongs_to_is_zero():
    means = means_with_queries(
        torch.ones(1, 1, 2), torch.zeros(1, 1, dtype=torch.long), torch.ones(1, 1, 2), torch.zeros(1, 1, 2)
    )
    assert means.tolist() == [[[1.0, 1.0], [0.0, 0.0]]]
