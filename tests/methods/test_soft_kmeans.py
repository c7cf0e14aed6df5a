"""Soft k-means against plain loops."""

import math

import pytest
import torch

from naive_bd_cspn import normalised
from remp.episodes import Episodes
from remp.methods.soft_kmeans import SoftKMeans
from small_episodes import N_WAY, small_episodes


def naive_shares(support, labels, query, steps, scale):
    """Each query's shares (Q, N) of the classes after so many updates of the prototypes."""
    one_hot = [[float(label == n) for n in range(N_WAY)] for label in labels]
    items, weights = list(support), one_hot
    for _ in range(steps + 1):
        totals = [sum(row[n] for row in weights) for n in range(N_WAY)]
        prototypes = [sum(row[n] * x for row, x in zip(weights, items, strict=True)) / totals[n] for n in range(N_WAY)]
        rows = [[math.exp(-scale * float(sum((q - c) ** 2))) for c in prototypes] for q in query]
        shares = [[value / sum(row) for value in row] for row in rows]
        items, weights = [*support, *query], one_hot + shares
    return shares


@pytest.mark.parametrize(
    ("settings", "steps", "scale"), [({}, 10, 10.0), ({"steps": 1, "scale": 1.0}, 1, 1.0), ({"steps": 0}, 0, 10.0)]
)
def test_shares_are_those_of_plain_loops(settings, steps, scale):
    episodes = small_episodes(5)
    shares = SoftKMeans(**settings).logits(episodes).softmax(-1)
    for e in range(len(episodes)):
        support, query = normalised(episodes.support[e]), normalised(episodes.query[e])
        expected = naive_shares(support, episodes.support_labels[e].tolist(), query, steps, scale)
        torch.testing.assert_close(shares[e].tolist(), expected, rtol=1e-6, atol=1e-9)


def test_the_reading_of_the_paper_is_one_step_on_features_as_they_are():
    episodes = small_episodes(5)
    shares = SoftKMeans(steps=1, scale=1.0, normalise=False).logits(episodes).softmax(-1)
    labels = episodes.support_labels[0].tolist()
    expected = naive_shares(episodes.support[0], labels, episodes.query[0], 1, 1.0)
    torch.testing.assert_close(shares[0].tolist(), expected, rtol=1e-6, atol=1e-9)


def test_queries_pull_the_prototypes_to_their_clusters():
    """Clusters at 0 and 6, labelled at 0 and 10: the mean of the labelled is left of 6, the clusters' is not."""
    support = torch.tensor([[[0.0], [10.0]]])
    query = torch.tensor([[[0.0], [1.0], [4.9], [6.0], [6.2], [6.4], [7.0]]])
    episodes = Episodes(support, torch.tensor([[0, 1]]), query, None, 2)
    before, after = (SoftKMeans(steps=steps, scale=1.0, normalise=False).logits(episodes) for steps in (0, 5))
    assert before.argmax(-1)[0, 2] == 0
    assert after.argmax(-1).tolist() == [[0, 0, 1, 1, 1, 1, 1]]
