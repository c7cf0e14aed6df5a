"""The temperature is learned from held-out labels, and from a prior without them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

from remp.propagation import calibration
from remp.propagation.adaptive import adapt
from remp.propagation.calibration import best_evidence, calibrate
from remp.propagation.held_out import HeldOut
from remp.rectification.propagate import Propagation, propagate
from remp.rows import ArrayRows

FIVE = np.full(5, 5)  # labels of each class
FALL = 2.2 - 0.47 * np.log(5 / 2)  # for five classes that are there
FOUR_TO_FIVE = np.exp(FALL * (1 / np.sqrt(4) - 1 / np.sqrt(5)))  # how much more logits are worth with the fifth label
EYE = ArrayRows(np.eye(5, dtype=np.float32))
MODEL = adapt(EYE, np.arange(5), 5)


def drawn(m, sharpness, n_classes=5, seed=0):
    """Held-out logits whose labels are drawn by a softmax of this sharpness."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(m, n_classes, generator=generator)
    labels = torch.multinomial(torch.softmax(sharpness * logits, -1), 1, generator=generator)[:, 0].numpy()
    return HeldOut(np.arange(m), labels, logits, logits, logits, np.ones(m), torch.ones(m, 2))


@pytest.mark.parametrize("sharpness", [0.3, 1.0, 2.0])
def test_with_many_labels_the_sharpness_is_a_little_below_the_likeliest_if_some_labels_are_wrong(sharpness):
    held = drawn(20_000, sharpness)

    def loss(log):
        own = torch.softmax(held.scores * float(np.exp(log)), -1)[torch.arange(20_000), torch.from_numpy(held.labels)]
        return -float(torch.log(0.92 * own + 0.08 / 5).mean())

    likeliest = np.exp(minimize_scalar(loss, bounds=(-3, 3)).x)
    assert calibrate(MODEL, held, FIVE).best == pytest.approx(0.9 * FOUR_TO_FIVE * likeliest, rel=0.02)


def test_more_labels_say_more():
    def spread(m):
        calibration = calibrate(MODEL, drawn(m, 1.0), FIVE)
        return np.sqrt(calibration.weights @ np.log(calibration.sharpness / calibration.best) ** 2)

    assert spread(0) > spread(20) > spread(500)


def test_probabilities_of_many_draws_are_right_on_average():
    held, fresh = drawn(3000, 0.5), drawn(20_000, 0.5 * FOUR_TO_FIVE, seed=1)
    best, choice = calibrate(MODEL, held, FIVE).probabilities(fresh.scores).max(-1)
    for low, high in [(0.2, 0.5), (0.5, 0.8), (0.8, 1.0)]:
        inside = (best >= low) & (best < high)
        hits = (choice.numpy() == fresh.labels)[inside.numpy()].mean()
        assert hits == pytest.approx(float(best[inside].mean()), abs=0.03)


def test_logits_of_any_size_give_finite_weights():
    scores = torch.tensor([[1e6, -1e6], [1e6, -1e6]])
    held = HeldOut(np.arange(2), np.array([0, 1]), scores, scores, scores, np.ones(2), torch.ones(2, 2))
    assert np.isfinite(calibrate(MODEL, held, FIVE).weights).all()


def test_a_larger_scale_of_the_logits_is_taken_back():
    held = drawn(0, 1.0)
    ten, forty = (propagate(EYE, np.arange(5), 5, Propagation(scale=scale)) for scale in (10.0, 40.0))
    assert calibrate(forty, held, FIVE).best == pytest.approx(calibrate(ten, held, FIVE).best / 4)


def test_rectification_is_left_out_if_the_held_out_labels_are_clearly_likelier_without_it():
    held = drawn(200, 1.0)
    noise = torch.randn(200, 5, generator=torch.Generator().manual_seed(1))
    noisy = held.scores + 3 * noise
    assert best_evidence(replace(held, scores=noisy, graph=noisy)) == "regression"
    assert best_evidence(replace(held, scores=noisy, plain=noisy)) == "graph"
    assert best_evidence(replace(held, plain=noisy, graph=noisy)) == "all"
    assert best_evidence(held) == "all"
    assert best_evidence(drawn(0, 1.0)) == "all"


def test_two_labels_a_class_are_too_few_to_leave_anything_out():
    held = drawn(10, 1.0)
    assert best_evidence(replace(held, scores=torch.zeros(10, 5), graph=torch.zeros(10, 5))) == "all"


def test_without_held_out_labels_more_labels_a_class_are_trusted_more():
    held = drawn(0, 1.0)
    assert calibrate(MODEL, held, np.full(5, 20)).best > calibrate(MODEL, held, np.ones(5)).best


@pytest.mark.parametrize("n_shot", [1, 4, 25])
def test_the_prior_is_the_measured_normal_distribution_of_the_logarithm(n_shot):
    prior = calibrate(MODEL, drawn(0, 1.0), np.full(5, n_shot))
    logs = np.log(prior.sharpness)
    mean = prior.weights @ logs
    assert mean == pytest.approx(np.log(0.9) + 0.1 - FALL / n_shot**0.5)
    assert np.sqrt(prior.weights @ (logs - mean) ** 2) == pytest.approx(0.5, rel=1e-3)
    assert logs.max() - logs.min() == pytest.approx(6)
    assert len(logs) == 121


def test_a_held_out_label_counts_half_beside_the_prior():
    held = drawn(12, 1.0)
    posterior, prior = calibrate(MODEL, held, FIVE), calibrate(MODEL, drawn(0, 1.0), FIVE)
    expected = prior.weights.copy()
    for number, sharpness in enumerate(prior.sharpness / 0.9 / FOUR_TO_FIVE):
        for row, label in zip(held.scores.double().numpy(), held.labels, strict=True):
            own = np.exp(sharpness * row[label]) / np.exp(sharpness * row).sum()
            expected[number] *= (0.92 * own + 0.08 / 5) ** 0.5
    np.testing.assert_allclose(posterior.weights, expected / expected.sum(), rtol=1e-6, atol=1e-12)


def test_the_prior_of_the_papers_rule_falls_with_one_over_the_labels_of_a_class():
    model = propagate(EYE, np.arange(5), 5, Propagation(scale=20.0))
    expected = calibration._PAPER_CENTRE - calibration._PAPER_FALL * (1 + 0.5 + 0.25 + 0.2 + 0.1) / 5 - np.log(2)
    assert calibration.typical_sharpness(model, np.array([1, 2, 4, 5, 10])) == pytest.approx(expected)


def test_the_centres_of_the_priors_are_the_measured_ones():
    """0.1 - (2.2 - 0.47 log(N / 2)) / √K, and 0.1 - 0.8 / K for the paper's rule: results/tries/robustness.md and
    label_quality.md. Classes that are not there do not count, and of many ten."""
    paper = propagate(EYE, np.arange(5), 5, Propagation(scale=10.0))
    assert calibration.typical_sharpness(MODEL, np.ones(5)) == pytest.approx(0.1 - FALL)
    assert calibration.typical_sharpness(MODEL, np.full(5, 4)) == pytest.approx(0.1 - FALL / 2)
    two_there = replace(MODEL, log_shares=torch.tensor([0, 0, -99, -99, -99.0]))
    assert calibration.typical_sharpness(two_there, np.ones(5)) == pytest.approx(-2.1)
    for model, n in ((replace(MODEL, log_shares=torch.zeros(n)), n) for n in (10, 100)):
        assert calibration.typical_sharpness(model, np.ones(n)) == pytest.approx(0.1 - 2.2 + 0.47 * np.log(5))
    assert calibration.typical_sharpness(replace(MODEL, evidence="graph"), np.ones(5)) == 0.5
    assert calibration.typical_sharpness(paper, np.ones(5)) == pytest.approx(-0.7)
    assert calibration.typical_sharpness(paper, np.full(5, 2)) == pytest.approx(-0.3)


@pytest.mark.parametrize(("m", "evidence"), [(5, "all"), (6, "regression"), (7, "regression")])
def test_three_held_out_labels_a_class_are_needed_to_leave_a_part_out(m, evidence):
    """Two classes, and rows that are all alike: they have no spread, so that any loss is clear."""
    plain = torch.tensor([[4.0, 0.0]]).repeat(m, 1)
    held = HeldOut(np.arange(m), np.zeros(m, int), -plain, plain, -plain, np.ones(m), torch.ones(m, 2))
    assert best_evidence(held) == evidence


def test_two_labels_are_judged_by_what_one_was_worth():
    held, two = drawn(12, 1.0), np.full(5, 2)
    posterior, prior = calibrate(MODEL, held, two), calibrate(MODEL, drawn(0, 1.0), two)
    expected = prior.weights.copy()
    for number, sharpness in enumerate(prior.sharpness / 0.9 / np.exp(FALL * (1 - 1 / np.sqrt(2)))):
        for row, label in zip(held.scores.double().numpy(), held.labels, strict=True):
            own = np.exp(sharpness * row[label]) / np.exp(sharpness * row).sum()
            expected[number] *= (0.92 * own + 0.08 / 5) ** 0.5
    np.testing.assert_allclose(posterior.weights, expected / expected.sum(), rtol=1e-6, atol=1e-12)


def test_weak_logits_are_better_than_none_at_their_own_temperature():
    held = drawn(400, 0.3)
    assert best_evidence(replace(held, plain=torch.zeros(400, 5), graph=torch.zeros(400, 5))) == "all"


SURE = 1 + 1e-3
ALIKE, ONE_OF_SIX = [0.5] * 6, [SURE, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3]


@pytest.mark.parametrize(
    ("regression", "graph", "evidence"),
    [
        (ALIKE, [0.0] * 6, "regression"),
        ([0.0] * 6, ALIKE, "graph"),
        (ALIKE, ALIKE, "regression"),
        ([0.1] * 6, [0.2] * 6, "graph"),
        # one row of six gains 1: that is one standard error of the sum, to the last digit; a little more decides
        (ONE_OF_SIX, [0.0] * 6, "regression"),
        ([1.0, -1e-3, 0, 0, 0, 0], [0.0] * 6, "all"),
        ([2.0, -1.0, 0, 0, 0, 0], [0.0] * 6, "all"),
    ],
)
def test_a_part_alone_has_to_gain_more_than_a_standard_error(monkeypatch, regression, graph, evidence):
    """Gains of the logarithms of six held-out labels of two classes, given by hand."""
    gains = {0.0: np.zeros(6), 1.0: np.array(regression), 2.0: np.array(graph)}
    monkeypatch.setattr(calibration, "_best_logs", lambda scores, labels, sharpness: gains[float(scores[0, 0])])
    scores, plain, spread = (torch.full((6, 2), float(number)) for number in range(3))
    held = HeldOut(np.arange(6), np.zeros(6, int), scores, plain, spread, np.ones(6), torch.ones(6, 2))
    assert best_evidence(held) == evidence
