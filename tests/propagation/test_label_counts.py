"""Classes with one label beside classes with twenty: they are treated alike, and equal numbers change nothing."""

import numpy as np
import pytest
import torch

from remp.propagation import fit, label_counts
from remp.propagation.adaptive import Adaptive, adapt
from remp.propagation.fit import fit_rows
from remp.propagation.held_out import fit_likeness, learn
from remp.propagation.label_counts import about_equal, fair_shifts
from remp.rectification.transform import FeatureTransform
from remp.rows import ArrayRows, Shard


def clouds(n_shots, n_others, dim=200, noise=1.0, seed=0):
    """Noisy rows around one direction per class, in many dimensions: rows (n, dim), labels with -1, the truth."""
    random = np.random.default_rng(seed)
    truth = np.concatenate([np.repeat(np.arange(len(n_shots)), n_shots), np.repeat(np.arange(len(n_shots)), n_others)])
    centres = 0.5 * random.normal(size=(len(n_shots), dim)) / np.sqrt(dim) + 0.1
    rows = np.abs(centres[truth] + noise * random.normal(size=(len(truth), dim)) / np.sqrt(dim))
    labels = np.where(np.arange(len(truth)) < sum(n_shots), truth, -1)
    return rows.astype(np.float32), labels, truth


def accuracy(rows, labels, truth):
    fitted = fit_rows(ArrayRows(rows), labels, int(truth.max()) + 1)
    found = fitted.probabilities(torch.from_numpy(rows)).argmax(1).numpy()
    return (found == truth)[labels < 0].mean()


@pytest.mark.parametrize("n_shots", [(1, 20), (20, 1), (1, 5), (2, 20), (10, 10, 10, 1)])
def test_a_class_with_one_label_is_recognised_beside_classes_with_many(n_shots):
    """In a cloud of noise, twenty labels lie nearer to everything than one does; without a shift, all rows go there."""
    many = [clouds(n_shots, [40] * len(n_shots), seed=seed) for seed in range(8)]
    few = [clouds([min(n_shots)] * len(n_shots), [40] * len(n_shots), seed=seed) for seed in range(8)]
    with_many, with_few = (np.mean([accuracy(*one) for one in tasks]) for tasks in (many, few))
    assert with_many > max(0.85, with_few - 0.04)


def test_the_shift_is_needed():
    """Without it, nearly all rows go to the class with many labels."""
    rows, labels, truth = clouds((1, 20), (40, 40))
    scores = adapt(ArrayRows(rows), labels, 2).scores(torch.from_numpy(rows))
    assert (scores.argmax(1).numpy() == truth)[labels < 0].mean() < 0.7
    assert accuracy(rows, labels, truth) > 0.9


def test_about_as_many_labels_change_nothing():
    rows, labels, _ = clouds((7, 10), (40, 40))
    assert about_equal(labels, 2)
    assert fair_shifts(ArrayRows(rows), labels, 2, Adaptive(), Shard()) is None
    plain, learned = adapt(ArrayRows(rows), labels, 2), learn(ArrayRows(rows), labels, 2, Adaptive())
    assert torch.equal(plain.logits(torch.from_numpy(rows)), learned.logits(torch.from_numpy(rows)))


@pytest.mark.parametrize(("counts", "expected"), [((1, 1), True), ((1, 2), False), ((5, 10), True), ((5, 11), False)])
def test_numbers_of_labels_are_about_equal_if_their_inverses_are(counts, expected):
    assert about_equal(np.repeat([0, 1, -1], [*counts, 5]), 2) is expected


def test_no_unlabelled_rows_no_layers_or_one_class_shift_nothing():
    rows, labels, _ = clouds((1, 20), (40, 40))
    known = labels >= 0
    assert fair_shifts(ArrayRows(rows[known]), labels[known], 2, Adaptive(), Shard()) is None
    assert fair_shifts(ArrayRows(rows), labels, 2, Adaptive(layers=0), Shard()) is None
    assert fair_shifts(ArrayRows(rows), np.minimum(labels, 0), 1, Adaptive(), Shard()) is None


def test_shifts_go_with_the_inverse_of_the_number_of_labels_and_sum_to_nothing():
    rows, labels, _ = clouds((1, 2, 20), (40, 40, 40))
    for shift in fair_shifts(ArrayRows(rows), labels, 3, Adaptive(), Shard()):
        assert shift.sum().item() == pytest.approx(0, abs=1e-9)
        steps = np.diff(shift.numpy()) / np.diff(1 / np.array([1, 2, 20]))
        assert steps[0] == pytest.approx(steps[1])
    shifts = fair_shifts(ArrayRows(rows), labels, 3, Adaptive(), Shard()).in_layers
    assert shifts[0] > shifts[1] > shifts[2]  # the fewer labels, the more is added


def test_very_many_rows_are_judged_by_a_sample_of_them(monkeypatch):
    rows, labels, _ = clouds((1, 20), (300, 300))
    whole = fair_shifts(ArrayRows(rows), labels, 2, Adaptive(), Shard()).in_layers
    monkeypatch.setattr(label_counts, "_UNLABELLED", 150)
    sampled = fair_shifts(ArrayRows(rows), labels, 2, Adaptive(), Shard()).in_layers
    assert not torch.equal(whole, sampled)
    assert sampled[0].item() == pytest.approx(whole[0].item(), rel=0.5)


def test_resemblance_does_not_favour_the_class_with_many_labels():
    """By the formula: the cosine with the mean of n rows, times its expected length, is that with the true mean."""
    rows, labels, truth = clouds((1, 30), (200, 200))
    parts = FeatureTransform.parse("l2")
    fair = fit_likeness(ArrayRows(rows), labels, 2, parts, Shard())
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = unit @ np.stack([unit[labels == c].mean(0) / np.linalg.norm(unit[labels == c].mean(0)) for c in (0, 1)]).T
    own = [cosines[(truth == c) & (labels < 0), c].mean() for c in (0, 1)]
    made = (unit @ fair.means.numpy().T)[labels < 0]
    fairly = [made[truth[labels < 0] == c, c].mean() for c in (0, 1)]
    assert own[0] < 0.95 * own[1]
    assert fairly[0] == pytest.approx(fairly[1], rel=0.2)


def test_means_have_norm_1_where_the_classes_have_as_many_labels():
    rows, labels, _ = clouds((5, 5), (10, 10))
    means = fit_likeness(ArrayRows(rows), labels, 2, FeatureTransform.parse("l2"), Shard()).means
    assert means.norm(dim=1).numpy() == pytest.approx(1)


def test_where_logits_were_shifted_the_kinds_of_evidence_are_not_compared(monkeypatch):
    compared = []
    monkeypatch.setattr(fit, "agreement_of", lambda logits: compared.append(logits) or 0.5)
    for n_shots in ((1, 20), (20, 20)):
        rows, labels, _ = clouds(n_shots, (40, 40))
        fit_rows(ArrayRows(rows), labels, 2)
    assert len(compared) == 1
