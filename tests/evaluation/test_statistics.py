"""Intervals and paired differences, against scipy and by hand."""

import numpy as np
import pytest
from scipy import stats

from remp.evaluation.statistics import Estimate, mean_interval, paired_difference


@pytest.mark.parametrize("n", [2, 3, 30, 600])
def test_the_interval_is_the_one_of_students_t_test(n):
    values = np.random.default_rng(n).normal(0.7, 0.1, n)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    estimate = mean_interval(values)
    assert estimate.mean - estimate.half_width == pytest.approx(expected.low)
    assert estimate.mean + estimate.half_width == pytest.approx(expected.high)
    assert estimate.n == n


def test_an_interval_worked_out_by_hand():
    # mean 2, standard deviation 1, n = 3: half-width = 4.302653 · 1 / √3
    estimate = mean_interval(np.array([1.0, 2.0, 3.0]))
    assert estimate.mean == 2.0
    assert estimate.half_width == pytest.approx(4.302653 / 3**0.5, rel=1e-6)


def test_the_paired_difference_is_the_one_of_the_paired_t_test():
    random = np.random.default_rng(0)
    first = random.uniform(0.4, 0.9, 50)
    second = first - 0.05 + random.normal(0, 0.02, 50)
    expected = stats.ttest_rel(first, second).confidence_interval(0.95)
    estimate = paired_difference(first, second)
    assert estimate.mean - estimate.half_width == pytest.approx(expected.low)
    assert estimate.mean + estimate.half_width == pytest.approx(expected.high)


def test_pairing_is_tighter_than_two_separate_intervals():
    random = np.random.default_rng(0)
    first = random.uniform(0.4, 0.9, 50)
    difference = paired_difference(first, first - 0.05)
    assert difference.half_width < 1e-9 < mean_interval(first).half_width


def test_one_episode_has_no_interval_and_none_is_an_error():
    assert mean_interval(np.array([0.5])) == Estimate(0.5, float("inf"), 1)
    with pytest.raises(ValueError, match="at least one episode"):
        mean_interval(np.array([]))


def test_different_numbers_of_episodes_cannot_be_paired():
    with pytest.raises(ValueError, match=r"shape \(3,\) and \(2,\); a paired difference needs the same episodes"):
        paired_difference(np.zeros(3), np.zeros(2))
    with pytest.raises(ValueError, match=r"shape \(3, 1\) and \(3,\)"):
        paired_difference(np.zeros((3, 1)), np.zeros(3))


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int8, np.float32])
def test_right_and_wrong_may_be_of_any_type(dtype):
    first, second = [1, 0, 1, 0], [1, 1, 0, 0]
    expected = stats.ttest_rel(first, second).confidence_interval(0.95)
    estimate = paired_difference(np.array(first, dtype), np.array(second, dtype))
    assert estimate.mean == 0
    assert estimate.half_width == pytest.approx(expected.high)


def test_an_estimate_is_shown_in_percent():
    assert mean_interval(np.array([0.5, 0.5])).percent() == "50.00 ± 0.00 %"
    assert Estimate(0.61234, 0.00456, 600).percent() == "61.23 ± 0.46 %"


def test_values_of_several_seeds_are_not_taken_for_one_line():
    with pytest.raises(ValueError, match=r"shape \(3, 2\); needed \(n,\)"):
        mean_interval(np.zeros((3, 2)))
