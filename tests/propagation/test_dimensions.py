"""Effective dimensions: against the covariance that rows were drawn from, and what they do to the weight of cosines."""

import numpy as np
import pytest
import torch

from remp.propagation.adaptive import Adaptive, adapt
from remp.propagation.dimensions import effective_dimensions, weight_of_cosines
from remp.rectification.transform import FeatureTransform, RowTransform
from remp.rows import ArrayRows

PLAIN = RowTransform(FeatureTransform())


@pytest.mark.parametrize("n_rows", [30, 500])
def test_they_are_those_of_the_covariance_for_few_rows_and_many(n_rows):
    deviations = torch.tensor([3.0, 2.0, 1.0, 1.0, 0.5, 0.5, 0.5], dtype=torch.float64)
    expected = float(deviations.square().sum() ** 2 / deviations.pow(4).sum())
    tries = [
        effective_dimensions(deviations * torch.randn(n_rows, 7, generator=torch.Generator().manual_seed(seed)) + 4)
        for seed in range(200)
    ]
    assert np.median(tries) == pytest.approx(expected, rel=0.06)


def test_rows_that_do_not_differ_have_one():
    assert effective_dimensions(torch.ones(9, 4)) == effective_dimensions(torch.rand(2, 4)) == 1
    assert effective_dimensions(torch.full((9, 4), torch.nan)) == 1


def weight(rows, labels):
    return weight_of_cosines(ArrayRows(np.asarray(rows, np.float32)), labels, PLAIN, 1.0)


def test_only_unlabelled_rows_count_and_few_of_them_little():
    random = np.random.default_rng(0)
    rows = np.concatenate([random.normal(size=(300, 50)), 100 * random.normal(size=(300, 1)) * np.ones(50)])
    assert weight(rows, np.where(np.arange(600) < 300, -1, 0)) == pytest.approx(np.sqrt(50 / 28), rel=0.08)
    assert weight(rows, np.where(np.arange(600) == 0, -1, 0)) == pytest.approx((1 / 28) ** (0.5 / 6))
    assert weight(rows, np.zeros(600, int)) == 1


def test_weighted_cosines_of_unrelated_rows_are_as_large_in_any_number_of_dimensions():
    spreads = []
    for dimensions in (5, 28, 200):
        rows = torch.randn(2000, dimensions, generator=torch.Generator().manual_seed(dimensions))
        cosines = torch.nn.functional.cosine_similarity(rows[:1000], rows[1000:])
        spreads.append(float(cosines.std()) * weight(rows.numpy(), np.full(2000, -1)))
    np.testing.assert_allclose(spreads, 1 / np.sqrt(28), rtol=0.1)
    line, cloud = np.arange(300)[:, None] * np.ones(9), np.random.default_rng(0).normal(size=(300, 900))
    assert (weight(line, np.full(300, -1)), weight(cloud, np.full(300, -1))) == (0.25, 3.0)


def test_cosines_count_more_in_many_dimensions():
    random = np.random.default_rng(0)
    weights = []
    for dimensions in (3, 100):
        rows = np.concatenate([np.eye(2, dimensions), random.normal(size=(200, dimensions))]).astype(np.float32)
        weights.append(adapt(ArrayRows(rows), np.array([0, 1] + [-1] * 200), 2, Adaptive(transform="l2")).cosine)
    few, many = np.array(weights) / (35 / 2.5)
    assert few < 0.5 < 1.5 < many
