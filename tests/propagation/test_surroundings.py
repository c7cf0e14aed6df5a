"""What lies around the labelled rows: against loops from the formulas and scikit-learn; whether an absent class is
seen, and a class of any shape."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from sklearn.semi_supervised import LabelSpreading

from remp.propagation.surroundings import Graph, log_presence, surroundings_of


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def heaps(sizes, n_shot=1, dim=16, seed=0):
    """Unit rows around one centre per class: (n, dim); labels (n,), n_shot of each class, the others -1."""
    random = np.random.default_rng(seed)
    truth = np.repeat(np.arange(len(sizes)), np.array(sizes) + n_shot)
    centres = random.normal(size=(len(sizes), dim))
    rows = unit(centres[truth] + 0.5 * random.normal(size=(len(truth), dim)))
    labels = np.full(len(truth), -1)
    for number in range(len(sizes)):
        labels[np.flatnonzero(truth == number)[:n_shot]] = number
    return torch.from_numpy(rows), labels


def graph_of(rows):
    return Graph(rows, rows @ rows.T)


@pytest.mark.parametrize("n_shot", [1, 2, 4])
def test_presence_is_that_of_a_loop(n_shot):
    rows, labels = heaps([20, 9, 0, 3], n_shot)
    cosines = (rows @ rows.T).numpy()
    free = [i for i in range(len(labels)) if labels[i] < 0]
    near = [np.mean(sorted((cosines[i, j] for j in free if j != i), reverse=True)[:5]) for i in range(len(labels))]
    mean, spread = np.mean([near[i] for i in free]), np.std([near[i] for i in free], ddof=1)
    expected = []
    for number in range(4):
        z = np.mean([(near[i] - mean) / spread for i in range(len(labels)) if labels[i] == number])
        expected.append(-2 * max(0.0, -z * np.sqrt(min(n_shot, 2)) - 1.6))
    expected = np.maximum(np.array(expected) - max(expected), -8)
    np.testing.assert_allclose(log_presence(rows @ rows.T, labels, 4), expected, atol=1e-9)


def test_a_class_without_neighbours_is_seen_and_others_are_left_alone():
    seen = [log_presence(rows @ rows.T, labels, 3) for rows, labels in (heaps([30, 30, 0], seed=s) for s in range(20))]
    present = [
        log_presence(rows @ rows.T, labels, 3) for rows, labels in (heaps([30, 30, 30], seed=s) for s in range(20))
    ]
    assert np.mean([float(p[2]) < -2 for p in seen]) > 0.8
    assert np.mean([float(p.min()) < -2 for p in present]) < 0.2


def test_few_unlabelled_rows_tell_nothing():
    rows, labels = heaps([2, 3])
    assert log_presence(rows @ rows.T, labels, 2).tolist() == [0, 0]


def test_copies_of_one_row_give_finite_numbers():
    rows = torch.ones(30, 4, dtype=torch.float64) / 2
    labels = np.full(30, -1)
    labels[:2] = 0, 1
    assert log_presence(rows @ rows.T, labels, 2).tolist() == [0, 0]


def test_products_of_centred_rows_need_no_second_look_at_the_rows():
    rows, labels = heaps([20, 9, 5])
    centre = rows[:5].mean(0)
    found = surroundings_of(np.arange(len(rows)), rows, centre, has_graph=True).evidence(labels, 3)
    graph = graph_of(torch.from_numpy(unit((rows - centre).numpy())))
    expected = graph.linear(graph.spread(labels, 3))
    torch.testing.assert_close(found.graph.weights, expected.weights)
    torch.testing.assert_close(found.graph.bias, expected.bias)


def test_without_a_graph_lengths_do_not_matter():
    rows, labels = heaps([20, 9, 0])
    longer = rows * torch.rand(len(rows), 1, generator=torch.manual_seed(0)).add(0.5)
    found = surroundings_of(np.arange(len(rows)), longer, None, has_graph=False).evidence(labels, 3)
    assert not found.graph.weights.any()
    torch.testing.assert_close(found.presence, log_presence(rows @ rows.T, labels, 3))


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
    arrived = graph_of(rows).spread(labels, 2)
    np.testing.assert_allclose(arrived / arrived.sum(1, keepdim=True), model.label_distributions_, atol=1e-6)


def test_a_class_may_have_any_shape():
    rows, labels, truth = arcs()
    nearest_label = (rows @ rows[[0, 60]].T).argmax(1).numpy()
    assert (nearest_label == truth).mean() < 0.9
    np.testing.assert_array_equal(graph_of(rows).spread(labels, 2).argmax(1), truth)


def test_rows_that_are_not_in_the_graph_get_the_answer_of_their_neighbours():
    rows, labels, truth = arcs(seed=0)
    others, _, _ = arcs(seed=1)
    graph = graph_of(rows)
    arrived = graph.spread(labels, 2)
    function = graph.linear(arrived)
    answers = others.double() @ function.weights + function.bias
    assert (answers.argmax(1).numpy() == truth).mean() > 0.95
    assert (graph.neighbours(arrived)(others @ rows.T).argmax(1).numpy() == truth).mean() > 0.98


def test_the_graph_says_of_its_unlabelled_rows_what_label_spreading_says():
    rows, labels, _ = arcs()
    model = LabelSpreading("rbf", gamma=10, alpha=0.8, max_iter=1000, tol=1e-12).fit(rows.numpy(), labels)
    graph, free = graph_of(rows), labels < 0
    logs = graph.neighbours(graph.spread(labels, 2))(rows @ rows.T).numpy()
    expected = np.log(model.label_distributions_)
    expected = np.clip(expected[:, 0] - expected[:, 1], -10, 10)
    np.testing.assert_allclose((logs[:, 0] - logs[:, 1])[free], expected[free], atol=1e-4)


def test_a_row_outside_the_graph_gets_what_would_arrive_there():
    """A loop over the formula: the links of the row to all rows of the graph, each over the root of its degree."""
    rows, labels = heaps([6, 5, 4], dim=5)
    graph, other = graph_of(rows), torch.nn.functional.normalize(torch.ones(1, 5, dtype=torch.float64))
    arrived = graph.spread(labels, 3)
    expected = np.zeros(3)
    for one, row in enumerate(rows):
        degree = sum(np.exp(20 * (float(row @ two) - 1)) for i, two in enumerate(rows) if i != one)
        expected += np.exp(20 * (float(other[0] @ row) - 1)) * arrived[one].numpy() / np.sqrt(degree)
    expected = np.log(expected)
    expected = np.maximum(expected - expected.max(), -10)
    found = (graph.neighbours(arrived) * 1.5)(other @ rows.T)[0]
    np.testing.assert_allclose(found, 1.5 * (expected - expected.mean()), atol=1e-5)


def test_a_class_with_more_labels_gets_no_more_for_that():
    rows, labels, _ = arcs()
    twice = labels.copy()
    twice[1] = 0
    before, after = graph_of(rows).spread(labels, 2)[60:], graph_of(rows).spread(twice, 2)[60:]
    assert (after.sum(0) / before.sum(0))[0] < 1.2


def test_the_linear_function_is_the_ridge_regression_of_scikit_learn_whichever_space_is_smaller():
    for dim in (40, 300):
        rows, labels, _ = arcs(dim=dim)
        graph = graph_of(rows)
        arrived = graph.spread(labels, 2)
        logs = np.log(np.maximum(arrived.numpy(), 1e-300))
        logs = np.maximum(logs - logs.max(1, keepdims=True), -10)
        logs = logs - logs.mean(1, keepdims=True)
        model = Ridge(alpha=0.1, fit_intercept=False).fit(rows.numpy(), logs - logs.mean(0))
        np.testing.assert_allclose(graph.linear(arrived).weights.T, model.coef_, atol=1e-6)
