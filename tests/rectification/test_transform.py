"""The feature transform, part by part, against numpy."""

import numpy as np
import pytest
import torch

from remp.episodes import Episodes
from remp.errors import ConfigError
from remp.rectification.transform import FeatureTransform

FEATURES = np.random.default_rng(0).normal(size=(10, 7)).astype(np.float32)


def episodes_of(features):
    """One 2-way episode: items 0 and 1 are support, the rest queries."""
    items = torch.from_numpy(features)[None]
    return Episodes(items[:, :2], torch.tensor([[0, 1]]), items[:, 2:], None, n_way=2)


def test_power_is_the_signed_square_root():
    expected = np.array([[np.sign(x) * np.sqrt(abs(x)) for x in row] for row in FEATURES])
    actual = FeatureTransform.parse("power").features(torch.from_numpy(FEATURES))
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_l2_makes_vectors_of_length_one():
    expected = np.array([row / np.sqrt(sum(x * x for x in row)) for row in FEATURES])
    actual = FeatureTransform.parse("l2").features(torch.from_numpy(FEATURES))
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_l2_takes_a_map_as_one_vector():
    maps = torch.from_numpy(FEATURES[:, :6]).reshape(10, 1, 2, 3)
    actual = FeatureTransform.parse("l2").features(maps)
    assert actual.shape == maps.shape
    np.testing.assert_allclose(actual.flatten(1).norm(dim=1), np.ones(10), rtol=1e-5)


def test_power_comes_before_l2():
    roots = np.sign(FEATURES) * np.sqrt(np.abs(FEATURES))
    expected = roots / np.linalg.norm(roots, axis=1, keepdims=True)
    actual = FeatureTransform.parse("l2+power").features(torch.from_numpy(FEATURES))
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_centring_subtracts_the_mean_of_support_and_queries():
    centred = FeatureTransform.parse("centre").episodes(episodes_of(FEATURES))
    expected = FEATURES - FEATURES.mean(axis=0)
    np.testing.assert_allclose(torch.cat([centred.support, centred.query], dim=1)[0], expected, atol=1e-6)


def test_centring_with_l2_normalises_again():
    centred = FeatureTransform.parse("l2+centre").episodes(episodes_of(FEATURES))
    expected = FEATURES - FEATURES.mean(axis=0)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(torch.cat([centred.support, centred.query], dim=1)[0], expected, atol=1e-6)


def test_each_episode_of_a_batch_is_centred_on_itself():
    one, other = episodes_of(FEATURES), episodes_of(FEATURES[::-1].copy() * 3)
    both = Episodes(
        torch.cat([one.support, other.support]),
        torch.tensor([[0, 1]] * 2),
        torch.cat([one.query, other.query]),
        None,
        n_way=2,
    )
    transform = FeatureTransform.parse("centre")
    torch.testing.assert_close(transform.episodes(both).query[1:], transform.episodes(other).query)


@pytest.mark.parametrize("text", ["none", "mirror", "zoom", "power+l2", "mirror+zoom+power+l2+centre"])
def test_a_transform_is_written_as_it_is_read(text):
    assert str(FeatureTransform.parse(text)) == text


def test_all_is_all_parts_and_their_order_does_not_matter():
    assert str(FeatureTransform.parse("all")) == "mirror+zoom+power+l2+centre"
    assert FeatureTransform.parse("l2+mirror") == FeatureTransform.parse("mirror+l2")


def test_only_centring_is_transductive():
    assert [FeatureTransform.parse(p).transductive for p in ("mirror", "power", "l2", "centre")] == [False] * 3 + [True]


def test_an_unknown_part_is_named_with_those_there_are():
    with pytest.raises(ConfigError, match=r"unknown part 'sqrt'; parts are mirror\+zoom\+power\+l2\+centre"):
        FeatureTransform.parse("l2+sqrt")


def test_zero_features_stay_finite():
    transformed = FeatureTransform.parse("power+l2").features(torch.zeros(3, 4))
    assert transformed.isfinite().all()
