"""The adaptive rule against a naive loop over everything at once, and what it promises of shares and labels."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge

from remp.errors import ConfigError, DataError
from remp.propagation import adaptive
from remp.propagation.adaptive import Adaptive, adapt
from remp.propagation.fit import fit_rows
from remp.propagation.logistic import fit_logistic
from remp.rectification.propagate import Propagation, propagate
from remp.rows import ArrayRows, Shard


def heaps(sizes, n_shot=3, noise=0.9, dim=24, seed=0):
    """Rows around one direction per class, far from the origin: (n, dim), labels with -1, and the truth."""
    random = np.random.default_rng(seed)
    truth = np.concatenate([np.repeat(np.arange(len(sizes)), n_shot), np.repeat(np.arange(len(sizes)), sizes)])
    centres = random.normal(size=(len(sizes), dim)) + 2
    rows = centres[truth] + noise * random.normal(size=(len(truth), dim))
    labels = np.where(np.arange(len(truth)) < n_shot * len(sizes), truth, -1)
    return rows.astype(np.float32), labels, truth


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def softmax(logits):
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def naive_graph(z, labels, n_classes):
    """Labels spread along the graph, step by step; and what a ridge regression that gives the same for any row makes of
    these numbers."""
    links = np.exp(20 * (z @ z.T - 1))
    np.fill_diagonal(links, 0)
    links = links / np.sqrt(np.outer(links.sum(1), links.sum(1)))
    given = (labels[:, None] == np.arange(n_classes)) / np.bincount(labels[labels >= 0])
    arrived = np.zeros_like(given)
    for _ in range(300):
        arrived = 0.8 * links @ arrived + given
    logs = np.log(arrived)
    logs = np.maximum(logs - logs.max(1, keepdims=True), -10)
    logs = logs - logs.mean(1, keepdims=True)
    ridge = Ridge(alpha=0.1, fit_intercept=False).fit(z, logs - logs.mean(0))
    return logs, ridge.predict(z) + logs.mean(0)


def naive_presence(z, labels, n_classes):
    """0 for a class whose labels have the five nearest unlabelled rows about as near as unlabelled rows have."""
    cosines, free = z @ z.T, np.flatnonzero(labels < 0)
    near = np.array([np.sort(cosines[i, free[free != i]])[-5:].mean() for i in range(len(z))])
    scores = (near - near[free].mean()) / near[free].std(ddof=1)
    means = np.array([scores[labels == number].mean() for number in range(n_classes)])
    presence = -2 * np.maximum(0, -means * np.sqrt(np.minimum(np.bincount(labels[labels >= 0]), 2)) - 1.6)
    return np.maximum(presence - presence.max(), -8)


def naive_cosine_weight(z):
    """The root of the effective dimensions of unlabelled rows, relative to 28, pair by pair."""
    m, centred = len(z), z - z.mean(0)
    pairs = sum((centred[i] @ centred[j]) ** 2 for i in range(m) for j in range(m) if i != j)
    dimensions = (centred**2).sum() ** 2 / (pairs * m / (m - 1))
    return np.sqrt((dimensions / 28) ** (m / (m + 5)))


def naive_logits(rows, labels, n_classes, *, asks_graph, layers=6):
    """The rule of the module, written out for all rows at once in float64. asks_graph: whether the graph itself answers
    in the end, or the linear function that stands for it in the layers."""
    rooted = unit(np.sign(rows) * np.sqrt(np.abs(rows.astype(np.float64))))
    means = np.stack([rooted[labels == number].mean(0) for number in range(n_classes)])
    z = unit(rooted - means.mean(0))
    support, free = labels >= 0, labels < 0
    model = LogisticRegression(C=10, max_iter=200, tol=1e-4, class_weight="balanced").fit(z[support], labels[support])
    n_shot = 1 / np.mean(1 / np.bincount(labels[support]))
    graph, function = naive_graph(z, labels, n_classes)
    linear, graph_weight = model.decision_function(z), 1 + 0.5 / np.sqrt(n_shot)
    presence, middle = naive_presence(rooted, labels, n_classes), 0
    cosine_weight = naive_cosine_weight(z[free])
    start = np.stack([z[labels == number].mean(0) for number in range(n_classes)])
    sums, counts = np.stack([z[labels == number].sum(0) for number in range(n_classes)]), np.bincount(labels[support])
    prototypes, shares = start, np.zeros(n_classes)
    for layer in range(layers):
        is_first = layer < layers // 2
        if layer == layers // 2:
            middle, prototypes = prototypes.mean(0), start
        cosine, share = (30, 0.05) if is_first else (35 / (n_shot + 1.5), n_shot / (n_shot + 30))
        prior = presence if is_first else shares
        along = (linear + graph_weight * function)[free]
        attention = softmax(
            along + cosine_weight * cosine * unit(z[free] - middle) @ unit(prototypes - middle).T + prior
        )
        masses, equal = attention.sum(0), free.sum() / n_classes
        trust = n_shot / (n_shot + 0.6) * free.sum() / (free.sum() + 5)
        shares = trust * np.log((masses + 0.1 * equal) / (1.1 * equal)) + presence
        weight = max(1, share / (1 - share) * free.sum() / support.sum())
        prototypes = (weight * sums + attention.T @ z[free]) / (weight * counts + masses)[:, None]
    linear = linear + graph_weight * (graph if asks_graph else function)
    return linear + cosine_weight * 35 / (n_shot + 1.5) * unit(z - middle) @ unit(prototypes - middle).T + shares


@pytest.mark.parametrize("asks_graph", [True, False])
@pytest.mark.parametrize("chunk", [7, 1000])
@pytest.mark.parametrize("sizes", [[30, 8, 15], [30, 15, 0]])
def test_logits_are_those_of_the_rule_written_out(monkeypatch, sizes, chunk, asks_graph):
    rows, labels, _ = heaps(sizes)
    if not asks_graph:
        monkeypatch.setattr(adaptive, "_MOST_WORK", len(rows) ** 2 * (rows.shape[1] + 500) - 1)
    found = adapt(ArrayRows(rows, chunk=chunk), labels, 3).logits(torch.from_numpy(rows)).numpy()
    expected = naive_logits(rows, labels, 3, asks_graph=asks_graph)
    np.testing.assert_allclose(found[labels < 0], expected[labels < 0], atol=2e-2, rtol=1e-3)


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("transform", ["none", "l2", "power+l2+centre"])
def test_neither_chunks_nor_the_order_of_the_rows_show(transform, balanced):
    rows, labels, _ = heaps([30, 8, 15])
    order, settings = np.random.default_rng(1).permutation(len(rows)), Adaptive(transform, balanced=balanced)
    one = adapt(ArrayRows(rows), labels, 3, settings).logits(torch.from_numpy(rows))
    other = adapt(ArrayRows(rows[order], chunk=11), labels[order], 3, settings).logits(torch.from_numpy(rows))
    torch.testing.assert_close(one, other, rtol=0, atol=5e-2)


@pytest.mark.parametrize("sizes", [[50, 10], [50, 2], [50, 0], [0, 50], [50, 50, 0, 0, 0, 0, 0, 0, 0, 0]])
def test_absent_and_rare_classes_cost_nothing(sizes):
    scores, plain = [], []
    for seed in range(4):
        rows, labels, truth = heaps(sizes, n_shot=2, noise=1.4, seed=seed)
        free = torch.from_numpy(rows[labels < 0])
        for found, settings in ((scores, Adaptive()), (plain, Adaptive(layers=0))):
            answers = adapt(ArrayRows(rows), labels, len(sizes), settings).logits(free).argmax(1).numpy()
            found.append((answers == truth[labels < 0]).mean())
    assert np.mean(scores) >= np.mean(plain) - 0.01
    assert np.mean(scores) > (0.9 if len(sizes) == 2 else 0.5)


def test_the_shares_are_found():
    rows, labels, _ = heaps([80, 20, 0], n_shot=5, noise=0.5)
    log_shares = adapt(ArrayRows(rows), labels, 3).log_shares
    assert log_shares[0] > 0.5 > log_shares[1] > -1 > log_shares[2]


def test_balanced_classes_get_equal_masses():
    rows, labels, _ = heaps([60, 60], n_shot=1, noise=3.0)
    masses = torch.softmax(
        adapt(ArrayRows(rows), labels, 2, Adaptive(balanced=True)).logits(torch.from_numpy(rows[labels < 0])), 1
    ).mean(0)
    torch.testing.assert_close(masses, torch.full((2,), 0.5), rtol=0, atol=0.03)


def test_without_layers_it_is_the_logistic_regression():
    rows, labels, _ = heaps([10, 10, 10])
    adapted = adapt(ArrayRows(rows), labels, 3, Adaptive("l2", layers=0))
    z = unit(rows.astype(np.float64))
    model = LogisticRegression(C=10, tol=1e-4, class_weight="balanced").fit(z[labels >= 0], labels[labels >= 0])
    np.testing.assert_array_equal(adapted.logits(torch.from_numpy(rows)).argmax(1), model.predict(z))


def test_a_regression_in_the_span_of_few_rows_is_that_in_all_dimensions():
    random = np.random.default_rng(0)
    rows, labels = random.normal(size=(6, 40)), np.array([0, 0, 1, 1, 2, 2])
    linear = fit_logistic(torch.from_numpy(rows), labels, 3, Shard())
    model = LogisticRegression(C=10, tol=1e-4, class_weight="balanced").fit(rows, labels)
    np.testing.assert_allclose(linear.weights.T, model.coef_, atol=2e-3)


def test_classes_too_many_for_a_regression_are_compared_by_their_means(monkeypatch):
    from remp.propagation import logistic

    monkeypatch.setattr(logistic, "_MOST_WORK", 1)
    rows, labels, truth = heaps([20, 20, 20], noise=0.3)
    answers = adapt(ArrayRows(rows), labels, 3).logits(torch.from_numpy(rows)).argmax(1).numpy()
    np.testing.assert_array_equal(answers, truth)


def test_rectification_that_hurts_is_left_out_of_the_adaptive_rule_only():
    random = np.random.default_rng(0)
    truth = np.arange(300) % 2
    rows = random.normal(size=(300, 6))
    rows[:, 0] += 1.5 * np.where(truth, 1, -1)
    rows[:, 1:] += 6 * np.where(random.random(300) < 0.5, 1, -1)[:, None]  # heaps that are no classes
    labels = np.where(np.arange(300) < 60, truth, -1)
    settings = {"transform": "none", "layers": 10}
    assert fit_rows(ArrayRows(rows), labels, 2, Adaptive(transform="none")).left_out
    easy, given, _ = heaps([40, 40], noise=0.3)
    assert not fit_rows(ArrayRows(easy), given, 2).left_out
    paper = fit_rows(ArrayRows(rows), labels, 2, Propagation(scale=40.0, similarity="cosine", **settings))
    assert not paper.left_out
    before = propagate(ArrayRows(rows), labels, 2, Propagation(**settings))
    torch.testing.assert_close(paper.model.prototypes, before.prototypes)


def test_numbers_that_are_not_finite_and_settings_that_mean_nothing_are_refused():
    rows, labels, _ = heaps([10, 10])
    rows[12, 3] = np.nan
    with pytest.raises(DataError, match="row 12 holds a number that is not finite"):
        adapt(ArrayRows(rows), labels, 2)
    with pytest.raises(ConfigError, match="layers is -1"):
        Adaptive(layers=-1)
    with pytest.raises(ConfigError, match="leave mirror and zoom out"):
        Adaptive("mirror")


def test_signed_features_are_not_rooted_and_those_after_a_relu_are():
    rows, labels, _ = heaps([20, 20], noise=0.5)
    assert adapt(ArrayRows(np.abs(rows)), labels, 2).settings.transform == "power+l2+centre"
    signed = adapt(ArrayRows(rows - rows.mean()), labels, 2)
    assert signed.settings.transform == "l2+centre"
    plain = adapt(ArrayRows(rows - rows.mean()), labels, 2, Adaptive("l2+centre"))
    torch.testing.assert_close(signed.prototypes, plain.prototypes)


def test_more_rows_than_the_graph_holds_give_the_same_answers_in_any_chunks(monkeypatch):
    from remp.propagation import adaptive

    monkeypatch.setattr(adaptive, "_GRAPH_ROWS", 20)
    rows, labels, truth = heaps([60, 30, 40], n_shot=9, noise=0.6)
    one, other = (adapt(ArrayRows(rows, chunk=chunk), labels, 3).logits(torch.from_numpy(rows)) for chunk in (13, 1000))
    torch.testing.assert_close(one, other, rtol=0, atol=1e-3)
    assert (one.argmax(1).numpy() == truth).mean() > 0.9


def test_one_unlabelled_row_says_little_of_the_shares():
    rows, labels, truth = heaps([40] * 6, n_shot=4, noise=2.0)
    known = np.flatnonzero(labels >= 0)
    new = torch.from_numpy(rows[labels < 0])
    right = []
    for n_free in (0, 1):
        chosen = np.concatenate([known, np.flatnonzero(labels < 0)[:n_free]])
        answers = fit_rows(ArrayRows(rows[chosen]), labels[chosen], 6).model.logits(new).argmax(1).numpy()
        right.append((answers == truth[labels < 0]).mean())
    assert abs(right[1] - right[0]) < 0.03


def test_without_unlabelled_rows_the_labelled_ones_make_the_graph():
    random = np.random.default_rng(0)
    angles = random.uniform(0, 2 * np.pi, 400)
    truth = (angles // (np.pi / 3)).astype(int) % 2  # six sectors in turns: no plane tells them apart
    rows = np.column_stack([np.cos(angles), np.sin(angles)])
    right = []
    for layers in (0, 6):
        fitted = fit_rows(ArrayRows(rows[:200]), truth[:200], 2, Adaptive(transform="l2", layers=layers))
        answers = fitted.model.logits(torch.from_numpy(rows[200:])).argmax(1).numpy()
        right.append((answers == truth[200:]).mean())
    assert right[0] < 0.75
    assert right[1] > 0.9
