"""Prototypical Networks on a hand-worked case and by a plain loop."""

import math

import pytest
import torch

from remp.backbones.conv4 import Conv4
from remp.episodes import Episodes
from remp.methods import ProtoNet


def test_a_case_worked_by_hand():
    """Prototypes (1, 0) and (0, 4); squared distances from (1, 1): 1 and 10."""
    support = torch.tensor([[[0.0, 0.0], [0.0, 4.0], [2.0, 0.0]]])
    episodes = Episodes(support, torch.tensor([[0, 1, 0]]), torch.tensor([[[1.0, 1.0]]]), None, 2)
    near, far = ProtoNet().logits(episodes).flatten().tolist()
    assert near - far == 9.0


def test_logits_differ_as_the_squared_distances_from_the_means():
    generator = torch.Generator().manual_seed(0)
    support, query = (torch.randn(2, n, 5, generator=generator) for n in (6, 4))
    labels = torch.tensor([[0, 1, 2, 1, 1, 0], [2, 2, 1, 0, 0, 0]])
    logits = ProtoNet().logits(Episodes(support, labels, query, None, 3))
    for e, q in [(0, 0), (0, 3), (1, 2), (1, 0)]:
        distances = []
        for n in range(3):
            members = [support[e, s] for s in range(6) if labels[e, s] == n]
            mean = sum(members) / len(members)
            distances.append(sum((a - b) ** 2 for a, b in zip(query[e, q], mean, strict=True)).item())
        expected = [distances[0] - distance for distance in distances]
        assert (logits[e, q] - logits[e, q, 0]).tolist() == pytest.approx(expected, abs=1e-4)


def test_the_loss_is_the_mean_cross_entropy_of_the_queries():
    torch.manual_seed(0)
    method = ProtoNet(Conv4(1, width=4)).eval()
    images = torch.randn(2, 5, 1, 16, 16)
    episodes = Episodes(
        images[:, :2], torch.tensor([[0, 1]] * 2), images[:, 2:], torch.tensor([[0, 1, 1], [1, 0, 0]]), 2
    )
    logits = method.score(episodes).tolist()
    terms = [
        math.log(sum(math.exp(value - row[label]) for value in row))
        for rows, labels in zip(logits, episodes.query_labels.tolist(), strict=True)
        for row, label in zip(rows, labels, strict=True)
    ]
    assert method.loss(episodes)["local"].item() == pytest.approx(sum(terms) / len(terms), rel=1e-4)
