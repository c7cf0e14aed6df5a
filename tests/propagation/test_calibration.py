"""The temperature is learned from held-out labels, and from a prior without them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize, minimize_scalar
from scipy.stats import norm

from remp.propagation import calibration
from remp.propagation.adaptive import Adaptive, EvidenceLogits, adapt
from remp.propagation.calibration import Signs, agreement_of, calibrate, weigh_evidence
from remp.propagation.held_out import HeldOut
from remp.rectification.propagate import Propagation, propagate
from remp.rows import ArrayRows

FIVE = np.full(5, 5)  # labels of each class
# Of the typical sharpness with five classes, where unlabelled rows show nothing unusual.
CENTRE, FALL = -1.85 + 2 * 0.87, 2.7 - 1.4 * np.log(5 / 2)
WRONG = (0.005, 0.02, 0.05, 0.08, 0.12, 0.16, 0.2)  # shares of wrong labels that are reckoned with
FOUR_TO_FIVE = np.exp(FALL * (1 / np.sqrt(4) - 1 / np.sqrt(5)))  # how much more logits are worth with the fifth label
EYE = ArrayRows(np.eye(5, dtype=np.float32))
MODEL = adapt(EYE, np.arange(5), 5)


def drawn(m, sharpness, n_classes=5, seed=0):
    """Held-out logits whose labels are drawn by a softmax of this sharpness."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(m, n_classes, generator=generator)
    chances = torch.softmax(sharpness * logits.double(), -1).cumsum(-1).numpy()
    labels = (np.random.default_rng(seed).random((m, 1)) > chances[:, :-1]).sum(1)  # the same on every version
    return HeldOut(np.arange(m), labels, logits, logits, logits, np.ones(m), torch.ones(m, 2))


@pytest.mark.parametrize("sharpness", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("wrong", WRONG)
def test_with_many_labels_the_sharpness_is_the_likeliest_one_however_many_labels_are_wrong(sharpness, wrong):
    held, random = drawn(20_000, sharpness), np.random.default_rng(1)
    at_random = random.random(20_000) < wrong
    held = replace(held, labels=np.where(at_random, random.integers(0, 5, 20_000), held.labels))

    def loss(log):
        own = torch.softmax(held.scores * float(np.exp(log)), -1)[torch.arange(20_000), torch.from_numpy(held.labels)]
        return -float(torch.log((1 - wrong) * own + wrong / 5).mean())

    likeliest = np.exp(minimize_scalar(loss, bounds=(-3, 3)).x)
    assert calibrate(MODEL, held, FIVE).best == pytest.approx(FOUR_TO_FIVE * likeliest, rel=0.06)


def test_answers_are_less_sharp_than_held_out_labels_that_were_easy():
    held = drawn(200, 1.0)
    plain, easy = calibrate(MODEL, held, FIVE), calibrate(MODEL, held, FIVE, ease=0.1)
    np.testing.assert_allclose(easy.weights, plain.weights)
    np.testing.assert_allclose(easy.sharpness, np.exp(-0.225) * plain.sharpness)


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
        assert hits == pytest.approx(float(best[inside].mean()), abs=0.04)


def test_logits_of_any_size_give_finite_weights():
    scores = torch.tensor([[1e6, -1e6], [1e6, -1e6]])
    held = HeldOut(np.arange(2), np.array([0, 1]), scores, scores, scores, np.ones(2), torch.ones(2, 2))
    assert np.isfinite(calibrate(MODEL, held, FIVE).weights).all()


def test_a_larger_scale_of_the_logits_is_taken_back():
    held = drawn(0, 1.0)
    ten, forty = (propagate(EYE, np.arange(5), 5, Propagation(scale=scale)) for scale in (10.0, 40.0))
    assert calibrate(forty, held, FIVE).best == pytest.approx(calibrate(ten, held, FIVE).best / 4)


def in_parts(regression, graph, cosine, labels):
    m = len(labels)
    return HeldOut(
        np.arange(m), labels, regression + graph + cosine, regression, graph, np.ones(m), torch.ones(m, cosine.shape[1])
    )


def noise(m, seed):
    return torch.randn(m, 5, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("good", [0, 1, 2])
def test_evidence_that_says_nothing_of_the_held_out_labels_is_left_out(good):
    held = drawn(400, 1.0)
    parts = [noise(400, 1), noise(400, 2), noise(400, 3)]
    parts[good] = held.scores
    weights = weigh_evidence(in_parts(*parts, held.labels))
    assert [weight > 0 for weight in weights] == [number == good for number in range(3)]


def test_the_weights_are_those_of_another_minimiser_on_a_loop_from_the_formula(monkeypatch):
    monkeypatch.setattr(calibration, "_NONE", 0.0)
    held = drawn(40, 1.0)
    parts = [share * held.scores + noise(40, seed) / 2 for seed, share in ((1, 0.3), (2, 0.4), (3, 0.5))]

    def loss(numbers):
        total = 0.5 * sum((weight - 1) ** 2 for weight in numbers[1:])
        for row, label in enumerate(held.labels):
            logits = sum(weight * part[row].double().numpy() for weight, part in zip(numbers[1:], parts, strict=True))
            chances = np.exp(np.exp(numbers[0]) * logits)
            total -= 0.5 * np.log(0.92 * chances[label] / chances.sum() + 0.08 / 5)
        return total

    bounds = [(-3, 3), (0, None), (0, None), (0, None)]
    expected = minimize(loss, [0.0, 1, 1, 1], method="Nelder-Mead", bounds=bounds, options={"maxiter": 2000}).x[1:]
    found = weigh_evidence(in_parts(*parts, held.labels))
    np.testing.assert_allclose(np.array(found) / sum(found), expected / sum(expected), atol=1e-2)


def test_weighed_logits_are_as_wide_as_before():
    held = drawn(400, 1.0)
    made = in_parts(0.5 * held.scores, noise(400, 1), 0.5 * held.scores, held.labels)
    weighed = made.weighed(weigh_evidence(made))
    assert float(weighed.scores.std(1).mean()) == pytest.approx(float(made.scores.std(1).mean()), rel=0.02)


def test_small_logits_are_weighed_as_large_ones():
    held = drawn(400, 1.0)
    large = [held.scores, noise(400, 1), held.scores]
    weights = [weigh_evidence(in_parts(*(size * part for part in large), held.labels)) for size in (1.0, 0.2)]
    np.testing.assert_allclose(weights[0], weights[1], atol=1e-2)


def test_evidence_is_weighed_for_two_classes_and_not_for_one():
    held, made_up = drawn(200, 1.0, n_classes=2), torch.randn(200, 2, generator=torch.Generator().manual_seed(1))
    assert weigh_evidence(in_parts(held.scores, made_up, held.scores, held.labels)).graph < 0.5
    one = torch.zeros(20, 1)
    assert weigh_evidence(in_parts(one, one, one, np.zeros(20, int))) == (1, 1, 1)


def test_equal_evidence_and_few_held_out_labels_change_nothing():
    held = drawn(400, 1.0)
    np.testing.assert_allclose(weigh_evidence(in_parts(*[held.scores / 3] * 3, held.labels)), 1, atol=1e-3)
    few = drawn(9, 1.0)  # of five classes: fewer than two of each
    assert weigh_evidence(in_parts(noise(9, 1), few.scores, few.scores, few.labels)) == (1, 1, 1)
    assert weigh_evidence(drawn(0, 1.0)) == (1, 1, 1)


def test_what_two_labels_say_against_a_part_weakens_it_but_not_more():
    few = drawn(10, 1.0)
    weights = weigh_evidence(in_parts(few.scores, noise(10, 1), few.scores, few.labels))
    assert 0.2 < weights.graph < 0.95 < weights.regression


def test_without_held_out_labels_more_labels_a_class_are_trusted_more():
    held = drawn(0, 1.0)
    assert calibrate(MODEL, held, np.full(5, 20)).best > calibrate(MODEL, held, np.ones(5)).best


@pytest.mark.parametrize("n_shot", [1, 4, 25])
def test_the_prior_is_two_measured_normal_distributions_of_the_logarithm_around_the_typical_one(n_shot):
    prior, typical = calibrate(MODEL, drawn(0, 1.0), np.full(5, n_shot)), CENTRE - FALL / n_shot**0.5
    assert np.log(prior.best) == pytest.approx(typical, abs=0.01)
    centres = np.log(prior.sharpness) - typical
    expected = 0.9 * norm.pdf(centres, 0.06, 0.45) + 0.1 * norm.pdf(centres, -2, 1)
    np.testing.assert_allclose(prior.weights, expected / expected.sum(), rtol=1e-6)
    assert (centres.min(), centres.max(), len(centres)) == (pytest.approx(-5), pytest.approx(3), 161)


def test_clear_clusters_that_hidden_labels_contradict_get_careful_probabilities():
    """Ten labels, half of them as predicted: at the typical sharpness the answers would be nearly certain."""
    scores = torch.tensor([[6.0, -6.0]]).repeat(10, 1)
    contradicted, confirmed = (
        HeldOut(np.arange(10), labels, scores, scores, scores, np.ones(10), torch.ones(10, 2))
        for labels in (np.arange(10) % 2, np.zeros(10, np.int64))
    )
    model = adapt(ArrayRows(np.eye(2, dtype=np.float32)), np.arange(2), 2)
    careful, sure = (
        float(calibrate(model, held, np.full(2, 5)).probabilities(scores)[0, 0]) for held in (contradicted, confirmed)
    )
    assert careful < 0.85 < 0.97 < sure


def half_likelihoods(held, sharpnesses):
    """Label by label: the root of the likelihood at each sharpness, summed over the shares of wrong labels."""
    found = np.zeros(len(sharpnesses))
    for number, sharpness in enumerate(sharpnesses):
        for wrong in WRONG:
            product = 1.0
            for row, label in zip(held.scores.double().numpy(), held.labels, strict=True):
                own = np.exp(sharpness * row[label]) / np.exp(sharpness * row).sum()
                product *= ((1 - wrong) * own + wrong / 5) ** 0.5
            found[number] += product
    return found


def test_a_held_out_label_counts_half_beside_the_prior():
    held = drawn(12, 1.0)
    posterior, prior = calibrate(MODEL, held, FIVE), calibrate(MODEL, drawn(0, 1.0), FIVE)
    expected = prior.weights * half_likelihoods(held, prior.sharpness / FOUR_TO_FIVE)
    np.testing.assert_allclose(posterior.weights, expected / expected.sum(), rtol=1e-6, atol=1e-12)


def test_the_prior_of_the_papers_rule_falls_with_one_over_the_labels_of_a_class():
    model = propagate(EYE, np.arange(5), 5, Propagation(scale=20.0))
    expected = -calibration._PAPER_FALL * (1 + 0.5 + 0.25 + 0.2 + 0.1) / 5 - np.log(2)
    assert calibration.typical_sharpness(model, np.array([1, 2, 4, 5, 10])) == pytest.approx(expected)


def test_the_centres_of_the_priors_are_the_measured_ones():
    """-1.85 - (2.7 - 1.4 log(N / 2)) / √K + 2 a + 0.35 e for N classes, as five classes from there on, where a is 0.87
    unless it is known, and -0.8 / K for the paper's rule: results/tries/robustness.md and label_quality.md."""
    paper = propagate(EYE, np.arange(5), 5, Propagation(scale=10.0))
    assert calibration.typical_sharpness(MODEL, np.ones(5)) == pytest.approx(CENTRE - FALL)
    assert calibration.typical_sharpness(MODEL, np.full(5, 4)) == pytest.approx(CENTRE - FALL / 2)
    assert calibration.typical_sharpness(MODEL, np.ones(5), Signs(equality=0.5)) == pytest.approx(CENTRE - FALL + 0.175)
    assert calibration.typical_sharpness(MODEL, np.ones(5), Signs(0.67)) == pytest.approx(CENTRE - FALL - 0.4)
    two = adapt(ArrayRows(np.eye(2, dtype=np.float32)), np.arange(2), 2)
    assert calibration.typical_sharpness(two, np.ones(2)) == pytest.approx(CENTRE - 2.7)
    many = adapt(ArrayRows(np.eye(20, dtype=np.float32)), np.arange(20), 20)
    assert calibration.typical_sharpness(many, np.ones(20)) == pytest.approx(CENTRE - FALL)
    assert calibration.typical_sharpness(adapt(EYE, np.arange(5), 5, Adaptive(layers=0)), np.ones(5)) == 0.4
    assert calibration.typical_sharpness(paper, np.ones(5)) == pytest.approx(-0.8)
    assert calibration.typical_sharpness(paper, np.full(5, 2)) == pytest.approx(-0.4)


def test_two_labels_are_judged_by_what_one_was_worth():
    held, two = drawn(12, 1.0), np.full(5, 2)
    posterior, prior = calibrate(MODEL, held, two), calibrate(MODEL, drawn(0, 1.0), two)
    expected = prior.weights * half_likelihoods(held, prior.sharpness / np.exp(FALL * (1 - 1 / np.sqrt(2))))
    np.testing.assert_allclose(posterior.weights, expected / expected.sum(), rtol=1e-6, atol=1e-12)


def answers(*kinds):
    """Logits of two classes whose answers are these, of each kind of evidence; None for one that says nothing."""
    parts = [torch.zeros(len(kinds[0]), 2) if kind is None else torch.eye(2)[list(kind)] for kind in kinds]
    return EvidenceLogits(*parts, parts[-1])


@pytest.mark.parametrize(
    ("differs", "is_there", "shares"),
    [(False, True, [1, 1, 1]), (True, True, [1, 0.5, 0.5]), (True, False, [0.5])],
)
def test_agreement_is_the_share_of_equal_answers_over_pairs_of_kinds(differs, is_there, shares):
    first = [0, 1] * 500
    half = [0, 1] * 250 + [1, 0] * 250 if differs else first  # the second half of the answers differs
    found = agreement_of(answers(first, first if is_there else None, half))
    assert found == pytest.approx(0.87 + 1000 / 1005 * (np.mean(shares) - 0.87))


def test_few_answers_hardly_move_the_agreement_and_a_single_kind_does_not():
    assert agreement_of(answers([0], [1], [0])) == pytest.approx(0.87 + (1 / 3 - 0.87) / 6)
    assert agreement_of(answers([0, 1], None, None)) == 0.87


def test_evidence_that_disagrees_makes_probabilities_careful():
    sure, careful = (calibrate(MODEL, drawn(0, 1.0), FIVE, signs=Signs(agreement)) for agreement in (0.95, 0.6))
    assert careful.best == pytest.approx(np.exp(-0.7) * sure.best)
