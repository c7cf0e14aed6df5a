"""What to label now: what one more batch is expected to bring."""

import numpy as np
import pytest

from remp.studio.proposals import Point, expected_gain


def test_what_is_labelled_is_right_then():
    gain = expected_gain(np.array([0.5, 0.75, 1.0]), [0, 1], [])
    assert (gain.pictures, gain.wrong, gain.batch) == (0.75, 0.75, 2)


def test_the_others_get_better_as_they_did_before():
    probability = np.full(100, 0.8)
    gain = expected_gain(probability, range(10), [Point(10, 60.0), Point(20, 20.0)])
    assert gain.pictures == pytest.approx(20.0)  # 40 by the last ten; half of that by the next
    assert gain.is_worth_it


def test_no_more_than_all_that_is_wrong_can_be_corrected():
    gain = expected_gain(np.full(20, 0.9), range(10), [Point(10, 60.0), Point(20, 2.0)])
    assert gain.pictures == pytest.approx(2.0)


def test_sure_predictions_are_not_worth_a_batch():
    assert not expected_gain(np.full(100, 0.99), range(24), [Point(10, 2.0), Point(34, 1.0)]).is_worth_it


def test_an_empty_batch_brings_nothing_whatever_came_before():
    """Everything is labelled: nothing comes next, and no label came since the last time."""
    gain = expected_gain(np.zeros(0), [], [Point(36, 4.0), Point(36, 0.0)])
    assert (gain.pictures, gain.is_worth_it) == (0.0, False)
