"""Shares of the classes by EM, shrunk by how much they change when labels are hidden."""

import numpy as np
import pytest
import torch

from clustered_rows import clustered_task
from remp.propagation.adaptive import Adaptive
from remp.propagation.fit import fit_rows
from remp.propagation.shares import equality_of, log_shares
from remp.rows import ArrayRows


def naive_em(logits):
    """Row by row, as Saerens et al. write it, with a tenth of the rows added in equal parts; centred logarithms."""
    m, n = logits.shape
    shares = [1 / n] * n
    for _ in range(60):
        counts = [0.1 * m / n] * n
        for row in logits:
            joint = [np.exp(value) * share for value, share in zip(row, shares, strict=True)]
            counts = [count + one / sum(joint) for count, one in zip(counts, joint, strict=True)]
        shares = [count / (1.1 * m) for count in counts]
    logs = np.log(shares)
    return logs - logs.mean()


def naive_shares(logits, of_folds):
    found, without = naive_em(logits), np.array([naive_em(one) for one in of_folds])
    n_folds, n = without.shape
    variances = [(n_folds - 1) / n_folds * ((column - column.mean()) ** 2).sum() for column in without.T]
    agreed = max(0.0, 1 - 2 * np.mean(variances) / ((found**2).sum() / (n - 1)))
    return found * agreed * len(logits) / (len(logits) + 5)


@pytest.mark.parametrize(("n_classes", "n_folds", "noise"), [(2, 2, 0.3), (5, 5, 0.5), (5, 3, 0.4), (5, 3, 3.0)])
def test_it_is_the_formula_written_out(n_classes, n_folds, noise):
    random = np.random.default_rng(n_classes)
    truth = random.choice(n_classes, 40, p=random.dirichlet([1.0] * n_classes))
    logits = 2 * np.eye(n_classes)[truth] + random.normal(size=(40, n_classes))
    folds = logits + noise * random.normal(size=(n_folds, 1, n_classes))  # each prefers other classes
    found = log_shares(torch.from_numpy(logits), torch.from_numpy(folds)).numpy()
    np.testing.assert_allclose(found, naive_shares(logits, folds), atol=1e-9)
    assert found.mean() == pytest.approx(0, abs=1e-9)


def test_rows_that_are_certain_are_counted():
    logits = torch.from_numpy(500.0 * np.eye(3)[[0] * 6 + [1] * 3 + [2] * 1])
    whole = log_shares(logits, logits.expand(4, -1, -1)) * 15 / 10  # of ten rows, two thirds count
    shares = torch.softmax(whole, 0)
    np.testing.assert_allclose(shares, [(6 + 1 / 3) / 11, (3 + 1 / 3) / 11, (1 + 1 / 3) / 11], atol=1e-9)


def test_folds_that_contradict_each_other_leave_equal_shares():
    logits = torch.from_numpy(np.tile([1.0, 0.0, -1.0], (30, 1)))
    folds = torch.stack([logits, logits.flip(-1), logits.roll(1, -1)])
    assert log_shares(logits, folds).tolist() == [0, 0, 0]
    assert log_shares(torch.zeros(10, 3), torch.zeros(2, 10, 3)).tolist() == [0, 0, 0]  # nobody prefers any


def naive_equality(logits, n_shot):
    """The offsets that give every class the same mass, found class by class, and how far they are chance."""
    m, n = logits.shape
    offsets = np.zeros(n)
    for _ in range(30):
        attention = [np.exp(row + offsets) / np.exp(row + offsets).sum() for row in logits]
        offsets = offsets - np.log(np.mean(attention, 0) * n)
    offsets -= offsets.mean()
    preference = np.std(offsets, ddof=1) / np.mean([np.std(row) for row in logits])
    return offsets, m / (m + 4 * n) / (1 + (preference / (0.45 / n_shot**0.15)) ** 8)


@pytest.mark.parametrize(("sizes", "n_shot"), [([20, 20], 1), ([20, 20, 20], 5), ([30, 9], 2), ([30, 0, 0, 30], 1)])
def test_equal_sizes_are_the_formula_written_out(sizes, n_shot):
    random = np.random.default_rng(sum(sizes))
    truth = np.repeat(np.arange(len(sizes)), sizes)
    logits = 3 * np.eye(len(sizes))[truth] + random.normal(size=(len(truth), len(sizes)))
    offsets, certainty = equality_of(torch.from_numpy(logits), n_shot)
    expected = naive_equality(logits, n_shot)
    np.testing.assert_allclose(offsets.numpy(), expected[0], atol=1e-9)
    assert certainty == pytest.approx(expected[1])


def test_small_preferences_count_as_chance_and_a_class_without_rows_does_not():
    random, truth = np.random.default_rng(0), np.repeat(np.arange(4), 500)
    preference = np.array([0.4, 0.0, -0.4, 0.0])
    logits = torch.from_numpy(4 * np.eye(4)[truth] + random.normal(size=(2000, 4)) + preference)
    offsets, certainty = equality_of(logits, 1)
    np.testing.assert_allclose(offsets, -preference, atol=0.1)
    assert certainty > 0.95
    assert equality_of(logits[truth != 1], 1).certainty < 0.05


def test_classes_of_equal_size_are_labelled_as_well_as_if_that_were_known():
    right = {True: [], False: []}
    for seed in range(6):
        task, rows, truth = clustered_task(seed, n_classes=6, n_shot=1, n_unlabelled=50, noise=2.0)
        free = task.labels < 0
        for balanced in right:
            model = fit_rows(ArrayRows(rows), task.labels, 6, Adaptive(balanced=balanced)).model
            right[balanced].append((model.logits(torch.from_numpy(rows)).argmax(1).numpy() == truth)[free].mean())
    assert np.mean(right[False]) > np.mean(right[True]) - 0.01


def test_weak_features_of_equal_classes_get_nearly_equal_shares_and_absent_classes_small_ones():
    """Shares that the layers estimate for weak features are far from equal by chance alone."""
    for seed in range(3):
        task, rows, _ = clustered_task(seed, n_classes=8, n_shot=5, n_unlabelled=40, noise=2.5)
        shares = torch.softmax(fit_rows(ArrayRows(rows), task.labels, 8).model.log_shares, 0)
        assert shares.max() < 2.5 / 8
        task, rows, truth = clustered_task(seed, n_classes=4, n_shot=5, n_unlabelled=40, noise=0.8)
        kept = (truth < 2) | (task.labels >= 0)  # of two classes only the labelled rows
        shares = torch.softmax(fit_rows(ArrayRows(rows[kept]), task.labels[kept], 4).model.log_shares, 0)
        assert shares[2:].sum() < 0.15


def test_where_they_are_known_or_nothing_is_hidden_nothing_is_estimated():
    task, rows, _ = clustered_task(n_shot=4)
    balanced = fit_rows(ArrayRows(rows), task.labels, 4, Adaptive(balanced=True))
    assert balanced.held_out.others is None
    fitted = fit_rows(ArrayRows(rows), task.labels, 4)
    assert fitted.held_out.others is None  # it is large, and not needed any more
    task, rows, _ = clustered_task(n_shot=1)
    assert fit_rows(ArrayRows(rows), task.labels, 4).model.log_shares.isfinite().all()
    everything = fit_rows(ArrayRows(rows), np.repeat(np.arange(4), 21), 4)
    assert everything.model.log_shares.tolist() == [0, 0, 0, 0]
