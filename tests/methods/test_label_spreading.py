"""Label spreading against scikit-learn, and by hand."""

import math
import warnings

import numpy as np
import pytest
import torch
from sklearn.neighbors import kneighbors_graph
from sklearn.semi_supervised import LabelSpreading as Peer

from naive_bd_cspn import normalised
from remp.episodes import Episodes
from remp.errors import ConfigError
from remp.methods.label_spreading import LabelSpreading
from small_episodes import small_episodes


def peer_shares(episodes: Episodes, e: int, **settings) -> np.ndarray:
    """scikit-learn's label distributions of the queries, unlabelled: (Q, N)."""
    items = np.concatenate([normalised(episodes.support[e]), normalised(episodes.query[e])])
    labels = np.concatenate([episodes.support_labels[e], np.full(episodes.query.shape[1], -1)])
    peer = Peer(max_iter=10_000, tol=1e-12, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return peer.fit(items, labels).label_distributions_[episodes.support.shape[1] :]


def joined_neighbours(k: int):
    """A kernel for scikit-learn: 1 between items of which one is among the k nearest of the other."""

    def kernel(items: np.ndarray, _: np.ndarray) -> np.ndarray:
        near = kneighbors_graph(items, k, include_self=False).toarray()
        return np.maximum(near, near.T)

    return kernel


@pytest.mark.parametrize(("gamma", "alpha"), [(5.0, 0.5), (20.0, 0.2), (1.0, 0.9)])
def test_rbf_shares_are_those_of_scikit_learn(gamma, alpha):
    episodes = small_episodes(5)
    shares = LabelSpreading(gamma=gamma, alpha=alpha).logits(episodes).softmax(-1)
    for e in range(len(episodes)):
        expected = peer_shares(episodes, e, kernel="rbf", gamma=gamma, alpha=alpha)
        np.testing.assert_allclose(shares[e].numpy(), expected, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("neighbours", [3, 7])
def test_knn_shares_are_those_of_scikit_learn(neighbours):
    episodes = small_episodes(5)
    shares = LabelSpreading(kernel="knn", neighbours=neighbours, alpha=0.5).logits(episodes).softmax(-1)
    for e in range(len(episodes)):
        expected = peer_shares(episodes, e, kernel=joined_neighbours(neighbours), alpha=0.5)
        np.testing.assert_allclose(shares[e].numpy(), expected, rtol=1e-5, atol=1e-8)


def test_a_chain_of_three_worked_by_hand():
    """Labelled at right angles, the query between them, joined to both by edges w, the labelled by v.

    By symmetry both classes arrive at the query equally: with degrees a = w + v and b = 2w, S has q = w/√(ab) beside
    the query and p = v/a between the labelled, and (I - αS) F = (1 - α) Y gives F = (1 - α) αq / (1 - αp - 2α²q²).
    """
    episodes = Episodes(torch.eye(2).unsqueeze(0), torch.tensor([[0, 1]]), torch.ones(1, 1, 2), None, 2)
    w, v, alpha = math.exp(-(2 - 2**0.5)), math.exp(-2.0), 0.4
    q, p = w / math.sqrt((w + v) * 2 * w), v / (w + v)
    expected = (1 - alpha) * alpha * q / (1 - alpha * p - 2 * alpha**2 * q**2)
    logits = LabelSpreading(gamma=1.0, alpha=alpha).logits(episodes)
    assert logits.exp().flatten().tolist() == pytest.approx([expected, expected], rel=1e-5)


def test_a_query_that_no_label_reaches_is_undecided():
    items = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]])
    episodes = Episodes(items[:, :2], torch.tensor([[0, 1]]), items[:, 2:], None, 2)
    logits = LabelSpreading(gamma=1e6).logits(episodes)
    assert logits.isfinite().all()
    assert logits.softmax(-1).flatten().tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    "setting", [{"alpha": 1.0}, {"alpha": 0.0}, {"gamma": 0.0}, {"neighbours": 0}, {"kernel": "x"}]
)
def test_settings_out_of_range_are_refused(setting):
    with pytest.raises(ConfigError, match=next(iter(setting))):
        LabelSpreading(**setting)
