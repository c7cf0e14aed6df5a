"""The episode that is shown is the one that the rule names, and its numbers are those of the method."""

import numpy as np
import pytest
import torch

from remp.demo.showcase import find_showcase
from remp.episodes import EpisodeSampler, Protocol
from remp.errors import ConfigError
from stand_ins import untrained

PROTOCOL = Protocol(n_way=4, n_shot=2, n_query=5)


@pytest.fixture
def found(test_images):
    return find_showcase(untrained(), test_images, PROTOCOL, n_episodes=60, least_gain=1)


@torch.inference_mode()
def gains(trained, images, n_episodes=60):
    """How many more queries of each episode become right: by distances to class means, then by the method's logits."""
    counts = []
    sampler = EpisodeSampler(images.labels, PROTOCOL, seed=0)
    for _ in range(n_episodes):
        ids = sampler.sample(1)
        episode = ids.map(
            lambda i: trained.method.embed(trained.normalisation(torch.from_numpy(images.images[i.numpy()])))
        )
        support, query = (torch.nn.functional.normalize(x[0], dim=-1) for x in (episode.support, episode.query))
        means = torch.stack([support[episode.support_labels[0] == way].mean(0) for way in range(PROTOCOL.n_way)])
        before = torch.cdist(query, means).argmin(1) == ids.query_labels[0]
        after = trained.method.logits(episode)[0].argmax(1) == ids.query_labels[0]
        counts.append(int(after.sum() - before.sum()))
    return counts


def test_the_first_episode_with_enough_gain_is_shown(found, test_images):
    expected = gains(untrained(), test_images)
    assert found.number == 1 + next(i for i, count in enumerate(expected) if count >= 1)
    assert found.gain == expected[found.number - 1]


def test_without_such_an_episode_the_one_with_most_gain_is_shown(test_images):
    expected = gains(untrained(), test_images)
    shown = find_showcase(untrained(), test_images, PROTOCOL, n_episodes=60, least_gain=1000)
    assert shown.number == 1 + int(np.argmax(expected))


def test_queries_are_sorted_by_class_and_carry_their_own_pictures(found, test_images):
    assert (np.diff(found.query_labels) >= 0).all()
    assert np.bincount(found.query_labels).tolist() == [5] * 4
    for image, way in zip(found.query_images, found.query_labels, strict=True):
        (index,) = np.flatnonzero((test_images.images == image).all(axis=(1, 2, 3)))
        assert test_images.class_names[test_images.labels[index]] == found.class_names[way]


def test_attention_is_that_of_the_queries_alone(found):
    assert found.before.attention.shape == (4, 20)
    # A row of the whole matrix sums to 1 in absolute values, the support included.
    assert (np.abs(found.before.attention).sum(1) < 1).all()


def test_corrected_and_spoiled_say_how_right_and_wrong_changed(found):
    before, after = found.right(found.before), found.right(found.after)
    assert after.sum() - before.sum() == found.corrected.sum() - found.spoiled.sum() == found.gain
    assert not (found.corrected & found.spoiled).any()


@pytest.mark.parametrize("changes", [{"method": "protonet"}, {"layers": 0}])
def test_a_method_that_rectifies_nothing_is_refused(test_images, changes):
    with pytest.raises(ConfigError, match="rectifies nothing"):
        find_showcase(untrained(**changes), test_images, PROTOCOL)


@pytest.mark.parametrize("projection", ["absent", "identity"])
def test_prototypes_stay_in_the_space_of_the_queries(test_images, projection):
    """Every layer of an identity projection doubles all features; what is shown is not doubled."""
    shown = find_showcase(untrained(projection=projection), test_images, PROTOCOL, n_episodes=2)
    assert np.linalg.norm(shown.after.prototypes, axis=1).max() < 2 * np.linalg.norm(shown.query, axis=1).max()
