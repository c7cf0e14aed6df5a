"""Label-shift EM against plain loops, and what it finds."""

import math

import pytest
import torch

from naive_bd_cspn import normalised
from remp.episodes import Episodes
from remp.methods.label_shift import LabelShiftEM
from small_episodes import N_WAY, small_episodes


def naive_answers(support, labels, query, steps, scale=10.0):
    """(Q, N) as in the paper: posterior of equal priors times new prior over old, made to sum to one."""
    means = [
        sum(x for x, label in zip(support, labels, strict=True) if label == n) / labels.count(n) for n in range(N_WAY)
    ]
    likely = [[math.exp(-scale * float(((q - mean) ** 2).sum())) for mean in means] for q in query]
    prior = [1 / N_WAY] * N_WAY
    for _ in range(steps):
        rows = [[value * share for value, share in zip(row, prior, strict=True)] for row in likely]
        answers = [[value / sum(row) for value in row] for row in rows]
        prior = [sum(row[n] for row in answers) / len(answers) for n in range(N_WAY)]
    rows = [[value * share for value, share in zip(row, prior, strict=True)] for row in likely]
    return [[value / sum(row) for value in row] for row in rows]


@pytest.mark.parametrize("steps", [0, 1, 20])
def test_answers_are_those_of_plain_loops(steps):
    episodes = small_episodes(5)
    answers = LabelShiftEM(steps=steps).logits(episodes).softmax(-1)
    for e in range(len(episodes)):
        support, query = normalised(episodes.support[e]), normalised(episodes.query[e])
        expected = naive_answers(support, episodes.support_labels[e].tolist(), query, steps)
        torch.testing.assert_close(answers[e].tolist(), expected, rtol=1e-6, atol=1e-9)


def test_a_query_in_the_middle_goes_to_the_class_of_the_many():
    support = torch.tensor([[[0.0], [1.0]]])
    query = torch.tensor([[[0.1], [0.0], [0.05], [0.52], [1.0]]])
    episodes = Episodes(support, torch.tensor([[0, 1]]), query, torch.tensor([[0, 0, 0, 0, 1]]), 2)
    assert LabelShiftEM(normalise=False, steps=0).logits(episodes)[0, 3].argmax() == 1
    assert LabelShiftEM(normalise=False).logits(episodes)[0, 3].argmax() == 0
