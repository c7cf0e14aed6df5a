"""The stated interval holds the true accuracy as often as it says; the table of thresholds is a count by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from clustered_rows import clustered_task
from made_up_labelling import made_up_labelling
from remp.labelling.pipeline import label_rows
from remp.labelling.quality.estimate import Kept, estimate_accuracy, largest_threshold, rejection_table
from remp.labelling.tasks import Items
from remp.propagation.adaptive import adapt
from remp.propagation.calibration import Calibration, calibrate
from remp.propagation.fit import fit_rows
from remp.propagation.held_out import HeldOut
from remp.report.label.summary import summary
from remp.rows import ArrayRows


def nothing_held_out(n_classes):
    nothing = torch.empty(0, n_classes)
    return HeldOut(*[np.empty(0, np.int64)] * 2, nothing, nothing, nothing, np.empty(0), torch.empty(0, 2))


def prior(n_classes):
    """The calibration of one label per class, without anything held out."""
    model = adapt(ArrayRows(np.eye(n_classes, dtype=np.float32)), np.arange(n_classes), n_classes)
    return calibrate(model, nothing_held_out(n_classes), np.ones(n_classes))


def judged(seed, **choices):
    """The estimate of a made-up task, and the truth."""
    task, rows, truth = clustered_task(seed, **choices)
    n_classes, rest = len(task.class_names), ~task.is_labelled
    counts = np.bincount(task.labels[task.is_labelled])
    fitted = fit_rows(ArrayRows(rows), task.labels, n_classes)
    logits = fitted.model.logits(torch.from_numpy(rows[rest]))
    accuracy = (logits.argmax(-1).numpy() == truth[rest]).mean()
    return estimate_accuracy(fitted.calibration, logits, int(rest.sum()), fitted.held_out, counts), accuracy


def test_the_interval_covers_the_truth_in_most_made_up_tasks_and_says_something():
    choices = [
        {"n_classes": ways, "n_shot": shots, "noise": noise}
        for ways in (2, 4, 8)
        for shots in (2, 5)
        for noise in (1.0, 1.6, 2.4)
    ]
    results = [judged(seed, **choices[seed % len(choices)]) for seed in range(60)]
    covered = np.mean([estimate.low <= accuracy <= estimate.high for estimate, accuracy in results])
    width = np.mean([estimate.high - estimate.low for estimate, _ in results])
    assert covered >= 0.75  # 0.9 is stated: fewer than 45 of 60 happen by chance once in ten thousand
    assert width <= 0.4
    assert {estimate.level for estimate, _ in results} == {0.9}


def test_an_estimate_follows_the_difficulty_of_the_task():
    easy, middle, hard = (judged(0, noise=noise, n_shot=5)[0] for noise in (0.3, 2.5, 6.0))
    assert easy.accuracy > 0.95 > middle.accuracy > hard.accuracy
    assert hard.high < easy.low


def test_more_labels_make_the_interval_narrower_and_the_basis_says_how_many_were_hidden():
    two, five = judged(0, n_shot=2, noise=1.5)[0], judged(0, n_shot=5, noise=1.5)[0]
    assert two.high - two.low > five.high - five.low
    assert "of 20 labelled items were right when their label was hidden" in five.basis


def test_the_interval_is_that_of_simulated_accuracies():
    random = np.random.default_rng(0)
    logits, held = torch.from_numpy(random.normal(size=(50, 3))) * 2, nothing_held_out(3)
    calibration = prior(3)
    estimate = estimate_accuracy(calibration, logits, 50, held, np.full(3, 16))
    sharpness = random.choice(calibration.sharpness, size=20_000, p=calibration.weights)
    best = np.stack([torch.softmax(logits * value, -1).amax(-1).numpy() for value in calibration.sharpness])
    best = best[np.searchsorted(calibration.sharpness, sharpness)]
    expected = best.mean(1)
    misfit = 2 * np.sqrt(expected * (1 - expected)) * 0.14 / 4  # with 16 labels per class
    simulated = (random.random(best.shape) < best).mean(1) + misfit * random.normal(size=20_000)
    assert estimate.accuracy == pytest.approx(simulated.mean(), abs=0.01)
    strangers = random.choice([0, 0.05, 0.1, 0.15], size=20_000, p=[0.4, 0.2, 0.2, 0.2])
    low, high = np.quantile(simulated * (1 - strangers), 0.05), np.quantile(simulated, 0.95)
    assert estimate.low == pytest.approx(low, abs=0.03)
    assert estimate.high == pytest.approx(high, abs=0.03)


@pytest.mark.parametrize(("n_shot", "misfit"), [(1, 0.14), (4, 0.07), (100, 0.05)])
def test_at_one_temperature_the_upper_end_is_that_of_a_normal_distribution(n_shot, misfit):
    share, n = 0.7, 400
    logits = torch.log(torch.tensor([[share, 1 - share]], dtype=torch.float64)).expand(50, 2)
    calibration = Calibration(np.array([1.0]), np.array([1.0]))
    estimate = estimate_accuracy(calibration, logits, n, nothing_held_out(2), np.full(2, n_shot))
    deviation = np.sqrt(share * (1 - share) / n + 4 * share * (1 - share) * misfit**2) + 0.005
    assert estimate.accuracy == pytest.approx(share)
    assert estimate.high == pytest.approx(share + 1.6448536 * deviation, abs=1e-3)
    points = np.linspace(0, 1, 20_001)
    below = sum(
        probability * stats.norm.cdf((points - (1 - part) * share) / deviation)
        for part, probability in ((0.0, 0.4), (0.05, 0.2), (0.1, 0.2), (0.15, 0.2))
    )
    assert estimate.low == pytest.approx(np.interp(0.05, below, points), abs=1e-3)


def held_out(scores, labels):
    scores = torch.tensor(scores)
    m = len(scores)
    return HeldOut(np.arange(m), np.array(labels), scores, scores, scores, np.ones(m), torch.ones(m, 2))


def test_the_basis_counts_hidden_labels_that_were_found_again():
    held = held_out([[2.0, 1.0], [2.0, 1.0], [0.0, 3.0], [5.0, 4.0]], [0, 1, 1, 0])
    estimate = estimate_accuracy(prior(2), torch.zeros(9, 2), 9, held, np.full(2, 3))
    assert estimate.basis.startswith("3 of 4 labelled items were right")


def test_no_accuracy_is_above_one():
    sure = torch.tensor([[0.0, -1e3]]).expand(20, 2)
    estimate = estimate_accuracy(prior(2), sure, 20, nothing_held_out(2), np.ones(2))
    assert estimate.accuracy <= estimate.high <= 1


def labelling_of(probabilities, **changes):
    """The unlabelled items have these probabilities, in turn."""
    made = made_up_labelling(("cat", "dog"), 20)
    status = np.where(made.task.is_labelled, 0, 1).astype(np.int8)
    values = np.where(made.task.is_labelled, 1.0, np.resize(probabilities, len(status)))
    return replace(made, probability=values, status=status, **changes)


def test_a_line_says_how_many_stay_and_how_many_of_them_are_right():
    labelling = labelling_of([0.97])
    n = int((~labelling.task.is_labelled).sum())
    lines = rejection_table(labelling)
    assert lines[0] == pytest.approx(Kept(0.0, n, 0.97))
    assert [line.threshold for line in lines] == [0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99]
    assert lines[-2].n == n
    assert lines[-1] == Kept(0.99, 0, None)


def test_thresholds_after_the_first_that_leaves_nothing_are_not_told():
    assert [line.threshold for line in rejection_table(labelling_of([0.65]))] == [0, 0.5, 0.6, 0.7]


def test_a_threshold_that_leaves_nothing_says_which_one_would_leave_something():
    labelling = labelling_of([0.876], reject=0.9)
    assert largest_threshold(labelling) == 0.87
    rejected = replace(labelling, status=np.where(labelling.task.is_labelled, 0, 2).astype(np.int8))
    assert "--reject 0.9 leaves no label; the largest threshold that leaves one is 0.87." in summary(rejected)
    assert "threshold   labelled   right, by estimate" in summary(labelling)
    assert "threshold" not in summary(replace(labelling, reject=None))


@pytest.mark.parametrize(("largest", "hint"), [(0.984, "0.98"), (0.99953, "0.9995"), (0.9999999999, "0.99999999")])
def test_near_to_one_the_hint_has_as_many_digits_as_it_needs(largest, hint):
    labelling = labelling_of([largest, 0.5], reject=1.0)
    rejected = replace(labelling, status=np.where(labelling.task.is_labelled, 0, 2).astype(np.int8))
    assert f"the largest threshold that leaves one is {hint}." in summary(rejected)
    assert (labelling.probability[~labelling.task.is_labelled] >= float(hint)).any()


def test_without_an_estimate_no_line_has_one_either():
    assert {line.right for line in rejection_table(labelling_of([0.97], estimate=None))} == {None}


def test_nothing_is_stated_where_no_label_could_be_hidden():
    rows = np.eye(2, 30, dtype=np.float32).repeat(20, 0) + 0.01
    classes = np.arange(2).repeat(20)
    for n_shot, is_stated in ((1, False), (3, True)):
        labels = np.where(np.arange(40) % 20 < n_shot, classes, -1)
        labelling = label_rows(Items(tuple(map(str, range(40))), labels, ("a", "b")), ArrayRows(rows))
        assert (labelling.estimate is not None) == is_stated, labelling.no_estimate
        assert ("no class has two labelled items" in labelling.no_estimate) != is_stated
        assert ("right by estimate" in repr(labelling)) == is_stated


def test_nothing_is_stated_where_hidden_labels_were_guessed_or_the_others_are_unlike():
    random = np.random.default_rng(0)
    rows, classes = random.random((200, 30)).astype(np.float32), np.arange(200) % 2
    given = np.where(np.arange(200) < 20, classes, -1)
    task = Items(tuple(map(str, range(200))), given, ("cat", "dog"))
    guessed = label_rows(task, ArrayRows(rows))
    assert guessed.estimate is None
    assert "hardly predicted better than by guessing" in guessed.no_estimate
    shown = np.where(given >= 0, classes, 2)  # the others are of two classes between and beside the labelled ones
    heaps = np.eye(30)[[0, 1]] * 6
    rows = np.where(shown[:, None] < 2, heaps[classes], 1.5 + heaps[classes] / 3) + random.random((200, 30))
    strange = label_rows(task, ArrayRows(rows.astype(np.float32)))
    assert strange.estimate is None
    assert "unlike" in strange.no_estimate


def test_the_threshold_that_was_asked_for_has_its_line():
    labelling = labelling_of([0.999, 0.9999, 0.5], reject=0.9995)
    thresholds = [line.threshold for line in rejection_table(labelling)]
    assert thresholds == [0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.9995]
    n = int((labelling.probability[~labelling.task.is_labelled] == 0.9999).sum())
    assert rejection_table(labelling)[-1] == pytest.approx(Kept(0.9995, n, 0.9999))
    assert [line.threshold for line in rejection_table(replace(labelling, reject=0.9))] == thresholds[:-1]


def test_what_is_not_certain_is_not_told_as_a_hundred_percent():
    lines = summary(labelling_of([0.9996], reject=0.9)).splitlines()
    n = len(labelling_of([0.9996]).task.names) - 4
    assert f"     none{n:>11}{'>99%':>11}" in lines
    assert not any("100%" in line for line in lines)
