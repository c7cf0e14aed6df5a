"""Items that resemble no class are told from those of the known classes."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from clustered_rows import clustered_task
from remp.labelling import decision
from remp.labelling.decision import familiarity, least_familiar, spreads_of
from remp.labelling.outcome import STATUSES
from remp.labelling.pipeline import LabelOptions, label_rows
from remp.labelling.tasks import Items
from remp.propagation.fit import fit_rows
from remp.propagation.held_out import fit_likeness
from remp.rectification.transform import FeatureTransform
from remp.rows import ArrayRows, Shard

UNKNOWN = STATUSES.index("unknown")


def with_strangers(task, rows, strangers):
    """The task with unlabelled rows of no class at its end."""
    names = tuple(str(number) for number in range(len(rows) + len(strangers)))
    labels = np.concatenate([task.labels, np.full(len(strangers), -1)])
    return Items(names, labels, task.class_names), np.concatenate([rows, strangers]).astype(np.float32)


def test_likeness_is_the_cosine_with_the_nearest_class_mean():
    rows = torch.tensor([[3.0, 4.0], [1.0, 0.0], [3.0, 0.0], [0.0, 2.0]])
    likeness = fit_likeness(ArrayRows(rows), np.array([-1, 0, 0, 1]), 2, FeatureTransform(), Shard())
    assert likeness(rows).tolist() == pytest.approx([0.8, 1.0, 1.0, 1.0])


def test_resemblance_and_score_count_in_units_of_their_spread():
    assert familiarity(np.array([0.5]), np.array([8.0]), (0.1, 4.0)).tolist() == [7.0]
    assert spreads_of(np.array([0.0, 2.0]), np.array([1.0, 1.0])) == pytest.approx((np.sqrt(2), 1e-6))
    assert familiarity(np.array([0.5]), np.array([8.0]), spreads_of(np.empty(0), np.empty(0))).tolist() == [0.5]


@pytest.mark.parametrize("m", [3, 10, 50, 400])
def test_one_more_item_like_those_held_out_is_called_unknown_as_rarely_as_promised(m):
    random = np.random.default_rng(0)
    alarms = [random.normal() < least_familiar(random.normal(size=m), np.empty(0), 0.06) for _ in range(4000)]
    assert np.mean(alarms) == pytest.approx(0.06, abs=0.015)


def test_many_held_out_items_need_not_be_normal():
    random = np.random.default_rng(0)
    alarms = [
        -random.exponential() < least_familiar(-random.exponential(size=400), np.empty(0), 0.06) for _ in range(4000)
    ]
    assert np.mean(alarms) == pytest.approx(0.06, abs=0.015)


def test_without_held_out_items_only_what_is_far_below_the_others_is_unknown():
    values = np.array([0.5, 0.52, 0.48, 0.55, 0.45, 0.51, -0.4])
    least = least_familiar(np.empty(0), values, 0.06)
    assert -0.4 < least < 0.45


@pytest.mark.parametrize("m", [2, 3])
def test_very_few_held_out_items_that_happen_to_be_alike_do_not_make_ordinary_items_unknown(m):
    random = np.random.default_rng(m)
    values = random.normal(size=500)
    assert (values < least_familiar(np.linspace(0.99, 1.0, m), values, 0.06)).mean() < 0.01
    assert least_familiar(np.linspace(0.99, 1.0, 20), values, 0.06) > 0.9  # twenty are believed


def drawn_decision(n=60, n_classes=3, seed=0):
    """A task of rows in heaps with five labels of each class, and what was learned and decided of it."""
    task, rows, _ = clustered_task(seed, n_shot=5, n_unlabelled=n // n_classes, noise=0.5)
    fitted = fit_rows(ArrayRows(rows), task.labels, len(task.class_names))
    return task, rows, fitted


def test_half_of_the_familiarity_is_that_of_the_ten_nearest_unlabelled_rows():
    """Against a loop over all pairs of rows."""
    task, rows, fitted = drawn_decision()
    random = np.random.default_rng(1)
    known, values = random.normal(size=len(fitted.held_out)), random.normal(size=len(rows))
    features, held = (
        x.double().numpy() for x in (fitted.model.features(torch.from_numpy(rows)), fitted.held_out.features)
    )
    free = [i for i in range(len(rows)) if task.labels[i] < 0]

    def nearby(one, own, itself):
        cosines = {
            i: one @ features[i] / np.linalg.norm(one) / np.linalg.norm(features[i]) for i in free if i != itself
        }
        nearest = sorted(cosines, key=cosines.get, reverse=True)[:10]
        return 0.5 * own + 0.5 * np.mean([values[i] for i in nearest])

    for chunk in (7, 1000):
        of_held, of_all = decision._with_neighbours(fitted, ArrayRows(rows, chunk=chunk), task.labels, known, values)
        np.testing.assert_allclose(of_all, [nearby(features[i], values[i], i) for i in range(len(rows))], atol=1e-6)
        np.testing.assert_allclose(of_held, [nearby(held[i], known[i], None) for i in range(len(held))], atol=1e-6)


def test_neighbours_are_not_looked_at_where_they_cannot_be(monkeypatch):
    task, rows, fitted = drawn_decision()
    known, values, every = np.zeros(len(fitted.held_out)), np.zeros(len(rows)), ArrayRows(rows)
    assert decision._with_neighbours(fitted, every, task.labels, known, values) is not None
    all_labelled = np.zeros(len(rows), int)
    assert decision._with_neighbours(fitted, every, all_labelled, known, values) is None
    without = replace(fitted, held_out=replace(fitted.held_out, features=fitted.held_out.features[:0]))
    assert decision._with_neighbours(without, every, task.labels, known, values) is None
    monkeypatch.setattr(decision, "_MOST_WORK", 1000)
    assert decision._with_neighbours(fitted, every, task.labels, known, values) is None


@pytest.mark.parametrize("n_shot", [1, 5])
def test_strangers_are_unknown_and_few_others_are(n_shot):
    caught, alarms = [], []
    for seed in range(4):
        task, rows, _ = clustered_task(seed, n_shot=n_shot, n_unlabelled=50, noise=0.5)
        strangers = np.random.default_rng(100 + seed).normal(size=(15, 64)) / 8
        task, everything = with_strangers(task, rows, strangers)
        is_unknown = label_rows(task, ArrayRows(everything)).status == UNKNOWN
        caught.append(is_unknown[len(rows) :].mean())
        alarms.append(is_unknown[: len(rows)].mean())
    assert np.mean(caught) >= 0.8
    assert np.mean(alarms) <= 0.05


def test_a_crowd_of_strangers_does_not_become_a_class():
    task, rows, _ = clustered_task(n_shot=5, n_unlabelled=40, noise=0.4)
    random = np.random.default_rng(5)
    crowd = random.normal(size=64) / 8 + 0.05 * random.normal(size=(40, 64))
    task, everything = with_strangers(task, rows, crowd)
    status = label_rows(task, ArrayRows(everything)).status
    assert (status[len(rows) :] == UNKNOWN).mean() >= 0.9


def test_nothing_is_unknown_if_that_is_not_wanted():
    task, rows, _ = clustered_task()
    task, everything = with_strangers(task, rows, -rows[:5])
    labelling = label_rows(task, ArrayRows(everything), LabelOptions(unknown=False))
    assert not (labelling.status == UNKNOWN).any()
    assert (labelling.labels >= 0).all()
