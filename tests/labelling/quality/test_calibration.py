"""The temperature is learned from held-out labels, and from a prior without them."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

from remp.labelling.quality.calibration import calibrate
from remp.labelling.quality.held_out import HeldOut

FIVE = np.full(5, 5)  # labels of each class


def drawn(m, sharpness, n_classes=5, seed=0):
    """Held-out logits whose labels are drawn by a softmax of this sharpness."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(m, n_classes, generator=generator)
    labels = torch.multinomial(torch.softmax(sharpness * logits, -1), 1, generator=generator)[:, 0].numpy()
    return HeldOut(np.arange(m), labels, logits, np.ones(m), torch.ones(m, 2))


@pytest.mark.parametrize("sharpness", [0.3, 1.0, 2.0])
def test_with_many_labels_the_sharpness_is_that_of_the_largest_likelihood(sharpness):
    held = drawn(20_000, sharpness)

    def loss(log):
        logs = torch.log_softmax(held.logits * float(np.exp(log)), -1)
        return -float(logs[torch.arange(20_000), torch.from_numpy(held.labels)].mean())

    assert calibrate(held, FIVE).best == pytest.approx(np.exp(minimize_scalar(loss, bounds=(-3, 3)).x), rel=0.01)


def test_more_labels_say_more():
    def spread(m):
        calibration = calibrate(drawn(m, 1.0), FIVE)
        return np.sqrt(calibration.weights @ np.log(calibration.sharpness / calibration.best) ** 2)

    assert spread(0) > spread(20) > spread(500)


def test_probabilities_of_many_draws_are_right_on_average():
    held, fresh = drawn(3000, 0.5), drawn(20_000, 0.5, seed=1)
    best, choice = calibrate(held, FIVE).probabilities(fresh.logits).max(-1)
    for low, high in [(0.2, 0.5), (0.5, 0.8), (0.8, 1.0)]:
        inside = (best >= low) & (best < high)
        hits = (choice.numpy() == fresh.labels)[inside.numpy()].mean()
        assert hits == pytest.approx(float(best[inside].mean()), abs=0.03)


def test_logits_of_any_size_give_finite_weights():
    held = HeldOut(
        np.arange(2), np.array([0, 1]), torch.tensor([[1e6, -1e6], [1e6, -1e6]]), np.ones(2), torch.ones(2, 2)
    )
    assert np.isfinite(calibrate(held, FIVE).weights).all()


def test_a_larger_scale_of_the_logits_is_taken_back():
    held = drawn(0, 1.0)
    assert calibrate(held, FIVE, scale=40.0).best == pytest.approx(calibrate(held, FIVE, scale=10.0).best / 4)


def test_without_held_out_labels_more_labels_a_class_are_trusted_more():
    held = drawn(0, 1.0)
    assert calibrate(held, np.full(5, 20)).best > calibrate(held, np.ones(5)).best
