"""UNEM against the paper's updates in plain loops, and what it learns."""

import math

import torch
import torch.nn.functional as F

from remp.methods.paddle import PADDLE
from remp.methods.unem import UNEM
from transductive_task import tasks


def with_numbers(scales: list[float], penalties: list[float]) -> UNEM:
    method = UNEM()
    for name, values in (("log_scales", scales), ("log_penalties", penalties)):
        setattr(method, name, torch.nn.Parameter(torch.tensor(values).log()))
    return method


def naive(support: list, labels: list, query: list, scales: list, penalties: list) -> list[list[float]]:
    """(Q, N): u_qn ∝ π_n^λ · exp(-½ s ‖q - w_n‖²), π its mean and w the means it makes, with λ and s of each layer."""
    middle = [sum(column) / len(query) for column in zip(*query, strict=True)]
    spread = sum(math.dist(q, middle) ** 2 for q in query) / len(query)
    u, shares = [], [1.0] * 3
    for scale, penalty in zip(scales, penalties, strict=True):
        means = []
        for n in range(3):
            parts = [(1.0, x) for x, label in zip(support, labels, strict=True) if label == n]
            parts += [(answer[n], q) for answer, q in zip(u, query, strict=True)] if u else []
            total = sum(weight for weight, _ in parts)
            means.append([sum(w * x[d] for w, x in parts) / total for d in range(len(middle))])
        u = []
        for q in query:
            squares = [math.dist(q, mean) ** 2 / spread for mean in means]
            row = [shares[n] ** penalty * math.exp(-scale / 2 * squares[n]) for n in range(3)]
            u.append([value / sum(row) for value in row])
        shares = [sum(answer[n] for answer in u) / len(u) + 1e-6 for n in range(3)]
    return u


def test_the_answers_are_those_of_plain_loops_with_the_numbers_of_each_layer():
    episodes, scales, penalties = tasks(), [3.0, 8.0, 20.0], [0.7, 2.0, 0.5]
    ours = with_numbers(scales, penalties).logits(episodes).exp()
    for e in range(len(episodes)):
        support, query = (F.normalize(x[e], dim=-1).tolist() for x in (episodes.support, episodes.query))
        expected = naive(support, episodes.support_labels[e].tolist(), query, scales, penalties)
        torch.testing.assert_close(ours[e], torch.tensor(expected), rtol=1e-3, atol=1e-4)


def test_with_the_same_numbers_in_every_layer_it_is_paddle():
    ours, paddle = with_numbers([50.0] * 6, [1.0] * 6), PADDLE(steps=6)
    torch.testing.assert_close(ours.logits(tasks()), paddle.logits(tasks()))


def test_every_number_that_is_used_can_be_learned():
    method = with_numbers([4.0] * 3, [1.0] * 3)
    method.logits(tasks()).exp().amax(-1).sum().backward()
    assert (method.log_scales.grad != 0).all()
    assert (method.log_penalties.grad != 0).tolist() == [False, True, True]  # no shares are known in the first layer
