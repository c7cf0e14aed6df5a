"""Graphs over episodes, against plain loops, a power series and scikit-learn's neighbours."""

import numpy as np
import pytest
import torch
from sklearn.neighbors import kneighbors_graph

from remp.methods.maths.graph import (
    keep_nearest,
    nearest_neighbours,
    normalise,
    propagate,
    propagator,
    squared_distances,
    without_loops,
)


def some_nodes(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def some_weights(n: int = 6) -> torch.Tensor:
    return torch.exp(-squared_distances(some_nodes(2, n, 3)))


def test_distances_are_those_of_a_loop():
    nodes = some_nodes(2, 5, 4)
    distances = squared_distances(nodes)
    for e, i, j in np.ndindex(2, 5, 5):
        expected = sum((a - b) ** 2 for a, b in zip(nodes[e, i].tolist(), nodes[e, j].tolist(), strict=True))
        assert distances[e, i, j].item() == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("size", [0.0, 1e-3, 1.0, 1e4, 1e30])
def test_equal_nodes_have_no_distance_whatever_their_size(size):
    node = torch.rand(1, 700, generator=torch.Generator().manual_seed(0)) * size
    assert torch.equal(squared_distances(node.expand(9, -1)), torch.zeros(9, 9).to(squared_distances(node)))


def test_distances_beyond_the_range_of_the_dtype_are_finite_and_ordered():
    distances = squared_distances(torch.tensor([[0.0], [1e25], [3e25]]))
    assert distances.isfinite().all()
    assert distances[0].tolist() == pytest.approx([0, 1e50, 9e50])


def test_neighbours_are_those_of_scikit_learn():
    nodes = some_nodes(12, 3)
    expected = kneighbors_graph(nodes.numpy(), 4, include_self=True).toarray() > 0
    assert np.array_equal(nearest_neighbours(-squared_distances(nodes), 4).numpy(), expected)


def test_an_edge_stays_if_either_end_names_the_other():
    weights = torch.tensor([[1.0, 0.9, 0.2], [0.9, 1.0, 0.5], [0.2, 0.5, 1.0]])
    kept = keep_nearest(weights, 2)  # lists: 0 names 1, 1 names 0, 2 names 1
    assert torch.equal(kept, torch.tensor([[1.0, 0.9, 0.0], [0.9, 1.0, 0.5], [0.0, 0.5, 1.0]]))


def test_more_neighbours_than_nodes_keep_everything():
    assert torch.equal(keep_nearest(some_weights(), 20), some_weights())


def test_neighbours_do_not_depend_on_the_order_even_if_they_tie():
    weights = torch.tensor([[1.0, 0.5, 0.5], [0.5, 1.0, 0.5], [0.5, 0.5, 1.0]])
    assert nearest_neighbours(weights, 2).all()


def test_no_node_is_its_own_neighbour_without_loops():
    weights = without_loops(some_weights())
    assert torch.equal(weights.diagonal(dim1=-2, dim2=-1), torch.zeros(2, 6).double())
    assert torch.equal(weights + torch.eye(6), some_weights())


def test_normalised_weights_are_divided_by_the_roots_of_both_degrees():
    weights = some_weights()
    for extra in (0.0, 0.1):
        similarity = normalise(weights, extra_degree=extra)
        for e, i, j in np.ndindex(2, 6, 6):
            degrees = [sum(weights[e, node].tolist()) + extra for node in (i, j)]
            assert similarity[e, i, j].item() == pytest.approx(weights[e, i, j].item() / np.sqrt(np.prod(degrees)))


def test_a_node_without_edges_stays_alone():
    weights = torch.tensor([[0.0, 1e-30, 0.0], [1e-30, 0.0, 0.0], [0.0, 0.0, 0.0]])
    similarity = normalise(weights)
    torch.testing.assert_close(similarity, torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    signal = torch.eye(3)
    assert torch.equal(propagate(similarity, signal, 0.5)[2], signal[2])


@pytest.mark.parametrize("alpha", [0.0, 0.2, 0.9])
def test_propagation_is_the_sum_of_all_walks(alpha):
    similarity, signal = normalise(some_weights()), some_nodes(2, 6, 2)
    expected, walk = torch.zeros_like(signal), signal
    for _ in range(400):
        expected, walk = expected + walk, alpha * similarity @ walk
    torch.testing.assert_close(propagate(similarity, signal, alpha), expected)
    torch.testing.assert_close(propagator(similarity, alpha) @ signal, expected)


def test_gradients_are_finite_where_nodes_coincide():
    nodes = some_nodes(5, 3)[[0, 0, 1, 2, 0]].requires_grad_()
    weights = keep_nearest(torch.exp(-squared_distances(nodes)), 2)
    propagate(normalise(weights), torch.eye(5).double(), 0.99).square().sum().backward()
    assert nodes.grad.isfinite().all()
