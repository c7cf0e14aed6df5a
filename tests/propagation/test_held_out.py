"""Labelled items are scored without their own label."""

import numpy as np
import pytest
import torch

from clustered_rows import clustered_task
from remp.propagation import held_out as module
from remp.propagation.adaptive import adapt
from remp.propagation.calibration import calibrate
from remp.propagation.fit import fit_rows
from remp.propagation.held_out import ease_of, fold_numbers, hold_out
from remp.rectification.propagate import Propagation, propagate
from remp.rows import ArrayRows

WITHOUT_LAYERS = Propagation(layers=0, scale=10.0, similarity="euclidean")


def naive_logits(features, labels, item, n_classes, hidden):
    """-10 ‖z - mean of the class without the hidden ones‖², up to ‖z‖²."""
    scores = []
    for number in range(n_classes):
        members = [i for i in range(len(labels)) if labels[i] == number and i not in hidden]
        mean = features[members].mean(0)
        scores.append(10 * (2 * features[item] @ mean - mean @ mean))
    return np.array(scores)


def test_logits_are_those_of_class_means_without_the_hidden_items():
    task, rows, _ = clustered_task(n_shot=3)
    propagated = propagate(ArrayRows(rows), task.labels, 4, WITHOUT_LAYERS)
    features = propagated.features(torch.from_numpy(rows)).double().numpy()
    folds = fold_numbers(task.labels, 4)
    held = hold_out(propagated, ArrayRows(rows), task.labels)
    assert sorted(held.items) == list(np.flatnonzero(task.labels >= 0))
    for item, logits in zip(held.items, held.scores, strict=True):
        hidden = set(np.flatnonzero(folds == folds[item]))
        np.testing.assert_allclose(logits, naive_logits(features, task.labels, item, 4, hidden), atol=1e-4)


def test_a_wrong_label_does_not_help_itself():
    task, rows, truth = clustered_task(noise=0.3, n_shot=5)
    task.labels[0] = 1  # an item of class 0
    held = hold_out(adapt(ArrayRows(rows), task.labels, 4), ArrayRows(rows), task.labels)
    assert held.scores[list(held.items).index(0)].argmax() == truth[0] == 0


def test_the_only_item_of_a_class_is_never_hidden():
    labels = np.array([0, -1, 1, 1, -1, 2, 2, 2])
    folds = fold_numbers(labels, 3)
    assert list(folds[labels < 1]) == [-1, -1, -1]
    assert sorted(folds[[2, 3]]) == [0, 1]
    assert sorted(folds[[5, 6, 7]]) == [0, 1, 2]


def test_many_labels_are_hidden_in_few_folds_of_every_class():
    labels = np.repeat([0, 1], [95, 12])
    folds = fold_numbers(labels, 2)
    assert set(folds) == set(range(module.MOST_FOLDS))
    assert np.bincount(folds[:95]).tolist() == [19] * 5


def test_nothing_is_held_out_with_one_label_a_class():
    task, rows, _ = clustered_task(n_shot=1)
    held = hold_out(adapt(ArrayRows(rows), task.labels, 4), ArrayRows(rows), task.labels)
    assert len(held) == 0
    assert held.scores.shape == (0, 4)


def test_very_many_labels_are_looked_at_in_part_and_no_fold_hides_a_whole_class(monkeypatch):
    monkeypatch.setattr(module, "_MOST_LABELLED", 60)
    random = np.random.default_rng(0)
    labels = np.arange(600) % 30  # 20 of each class, of which 2 are looked at
    rows = ArrayRows((5 * random.normal(size=(30, 8))[labels] + random.normal(size=(600, 8))).astype(np.float32))
    held = hold_out(adapt(rows, labels, 30), rows, labels)
    assert np.bincount(held.labels).tolist() == [2] * 30
    assert (held.scores.argmax(1).numpy() == held.labels).mean() > 0.9


@pytest.mark.parametrize(("m", "k"), [(4, 1), (7, 30), (40, 11)])
def test_ease_counts_the_pairs_in_which_a_labelled_row_resembles_its_class_more(m, k):
    random = np.random.default_rng(m)
    labelled, others = random.integers(0, 9, m) + 4.0, random.integers(0, 9, k) + 0.0  # with ties
    wins = sum(1.0 if one > other else 0.5 if one == other else 0.0 for one in labelled for other in others)
    expected = wins / (m * k) - 0.5 - np.sqrt((m + k + 1) / 12 / m / k)
    assert expected > 0
    assert ease_of(labelled, others) == pytest.approx(expected)


def test_rows_that_are_harder_or_few_are_not_called_easy():
    assert ease_of(np.zeros(20), np.ones(20)) == 0
    assert ease_of(np.ones(3), np.zeros(20)) == 0
    assert ease_of(np.ones(20), np.zeros(0)) == 0


def test_labels_of_typical_rows_make_the_answers_careful():
    random = np.random.default_rng(0)
    classes = np.arange(600) % 3
    noise = random.normal(size=(600, 20)) * np.where(np.arange(600) < 60, 0.5, 1.5)[:, None]
    rows = (2 * np.eye(20)[classes] + noise + 3).astype(np.float32)
    sharpness = []
    for shown in (np.arange(60), np.arange(100, 160)):  # typical rows, and any of the others
        labels = np.full(600, -1)
        labels[shown] = classes[shown]
        fitted = fit_rows(ArrayRows(rows), labels, 3)
        ease = ease_of(fitted.held_out.resemblance, fitted.likeness(torch.from_numpy(rows[labels < 0])).numpy())
        plain = calibrate(fitted.model, fitted.held_out, np.full(3, 20))
        sharpness.append((ease, np.log(fitted.calibration.sharpness[0] / plain.sharpness[0])))
    (ease, lower), (none, _) = sharpness
    assert ease > 0.2 > 0.05 > none
    assert lower < -2.25 * ease + 0.56  # of which 0.56 at most is for classes of equal size
