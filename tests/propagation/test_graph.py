"""Labels along a graph: against scikit-learn, for classes of any shape, and for rows that are not in the graph."""

import numpy as np
import torch
from sklearn.linear_model import Ridge
from sklearn.semi_supervised import LabelSpreading

from remp.propagation.graph import Graph


def arcs(n=60, dim=40, seed=0):
    """Two classes on the two halves of a circle, one label at an end of each: unit rows (2 n, dim)."""
    angles = np.concatenate([np.linspace(0.1, 2.2, n), np.pi + np.linspace(0.1, 2.2, n)])
    noise = 0.02 * np.random.default_rng(seed).normal(size=(2 * n, dim))
    rows = noise + np.pad(np.stack([np.cos(angles), np.sin(angles)], 1), ((0, 0), (0, dim - 2)))
    labels = np.full(2 * n, -1)
    labels[[0, n]] = 0, 1
    return torch.from_numpy(rows / np.linalg.norm(rows, axis=1, keepdims=True)), labels, np.repeat([0, 1], n)


def test_labels_arrive_as_in_label_spreading():
    rows, labels, _ = arcs()
    model = LabelSpreading("rbf", gamma=10, alpha=0.8, max_iter=1000, tol=1e-12).fit(rows.numpy(), labels)
    arrived = Graph(rows).spread(labels, 2)
    np.testing.assert_allclose(arrived / arrived.sum(1, keepdim=True), model.label_distributions_, atol=1e-6)


def test_a_class_may_have_any_shape():
    rows, labels, truth = arcs()
    nearest_label = (rows @ rows[[0, 60]].T).argmax(1).numpy()
    assert (nearest_label == truth).mean() < 0.9
    np.testing.assert_array_equal(Graph(rows).spread(labels, 2).argmax(1), truth)


def test_rows_that_are_not_in_the_graph_get_the_answer_of_their_neighbours():
    rows, labels, truth = arcs(seed=0)
    others, _, _ = arcs(seed=1)
    answers = Graph(rows).linear(labels, 2)(others).argmax(1).numpy()
    assert (answers == truth).mean() > 0.95


def test_a_class_with_more_labels_gets_no_more_for_that():
    rows, labels, _ = arcs()
    twice = labels.copy()
    twice[1] = 0
    before, after = Graph(rows).spread(labels, 2)[60:], Graph(rows).spread(twice, 2)[60:]
    assert (after.sum(0) / before.sum(0))[0] < 1.2


def test_the_linear_function_is_the_ridge_regression_of_scikit_learn_whichever_space_is_smaller():
    for dim in (40, 300):
        rows, labels, _ = arcs(dim=dim)
        logs = np.log(np.maximum(Graph(rows).spread(labels, 2).numpy(), 1e-300))
        logs = np.maximum(logs - logs.max(1, keepdims=True), -10)
        logs = logs - logs.mean(1, keepdims=True)
        model = Ridge(alpha=0.1, fit_intercept=False).fit(rows.numpy(), logs - logs.mean(0))
        np.testing.assert_allclose(Graph(rows).linear(labels, 2).weights.T, model.coef_, atol=1e-6)
