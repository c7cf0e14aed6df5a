"""Methods that are scikit-learn's classifiers, against scikit-learn."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression as PeerRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import normalize

from remp.episodes import Episodes
from remp.errors import ConfigError
from remp.methods.scikit import LogisticRegression, NearestNeighbours
from small_episodes import small_episodes


@pytest.mark.parametrize("cost", [1.0, 0.1])
def test_probabilities_are_those_of_logistic_regression(cost):
    episodes = small_episodes(5)
    shares = LogisticRegression(cost=cost).logits(episodes).softmax(-1)
    for e in range(len(episodes)):
        peer = PeerRegression(C=cost, max_iter=1000).fit(normalize(episodes.support[e]), episodes.support_labels[e])
        np.testing.assert_allclose(shares[e].numpy(), peer.predict_proba(normalize(episodes.query[e])), atol=1e-5)


def test_two_classes_have_the_probabilities_of_their_odds():
    """A second way to the same numbers: scikit-learn has one score for two classes, not two."""
    support = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [0.9, 0.3]]])
    episodes = Episodes(support, torch.tensor([[0, 1, 0]]), torch.tensor([[[1.0, 0.2], [0.1, 1.0]]]), None, 2)
    peer = PeerRegression(max_iter=1000).fit(support[0], [0, 1, 0])
    shares = LogisticRegression(normalise=False).logits(episodes)[0].softmax(-1)
    np.testing.assert_allclose(shares.numpy(), peer.predict_proba(episodes.query[0]), atol=1e-6)


@pytest.mark.parametrize("neighbours", [1, 3, 5])
def test_shares_are_those_of_k_nearest_neighbours(neighbours):
    episodes = small_episodes(5)
    shares = NearestNeighbours(neighbours=neighbours).logits(episodes).softmax(-1)
    for e in range(len(episodes)):
        peer = KNeighborsClassifier(min(neighbours, episodes.support.shape[1]), weights="distance")
        peer.fit(normalize(episodes.support[e]), episodes.support_labels[e])
        np.testing.assert_allclose(shares[e].numpy(), peer.predict_proba(normalize(episodes.query[e])), atol=1e-5)


def test_a_query_that_is_a_labelled_feature_gets_its_label():
    support = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    episodes = Episodes(support, torch.tensor([[0, 1]]), support[:, :1], None, 2)
    assert NearestNeighbours(neighbours=2).logits(episodes).softmax(-1)[0, 0].tolist() == pytest.approx([1.0, 0.0])


@pytest.mark.parametrize("make", [lambda: LogisticRegression(cost=0.0), lambda: NearestNeighbours(neighbours=0)])
def test_settings_without_meaning_are_refused(make):
    with pytest.raises(ConfigError):
        make()
