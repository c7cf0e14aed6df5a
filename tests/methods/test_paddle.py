"""PADDLE against the public code's loop, its way of scaling included."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from remp.episodes import Episodes
from remp.errors import ConfigError
from remp.methods.paddle import PADDLE
from transductive_task import one_hot, tasks

PUBLIC = {"normalisation": "range", "scale": 1.0}


def naive_loop(support, labels, query, *, steps: int, penalty: float, scale: float) -> torch.Tensor:
    y = one_hot(labels)
    w, v = y.T @ support / y.sum(0)[:, None], torch.zeros(3)
    for _ in range(steps):
        u = (v - scale * torch.cdist(query, w) ** 2 / 2).softmax(-1)
        v = penalty * (1 + (u.mean(0) + 1e-6).log())
        w = (u.T @ query + y.T @ support) / (u.sum(0) + y.sum(0))[:, None]
    return u


def naive(support, labels, query, *, steps: int, penalty: float, divide_the_minimum: bool) -> torch.Tensor:
    """divide_the_minimum: (x - min) / range; otherwise the public code's x / range - min."""
    low, spread = query.amin(0), query.amax(0) - query.amin(0)
    spread[spread == 0] = 1
    shift = low / spread if divide_the_minimum else low
    support, query = support / spread - shift, query / spread - shift
    return naive_loop(support, labels, query, steps=steps, penalty=penalty, scale=1.0)


def test_the_answers_are_those_of_the_loop_on_unit_vectors_in_units_of_the_spread():
    episodes = tasks()
    for scale, penalty in ((50.0, 1.0), (5.0, 0.5)):
        ours = PADDLE(scale=scale, penalty=penalty, steps=15).logits(episodes).exp()
        for e in range(2):
            support, query = (F.normalize(x[e], dim=-1) for x in (episodes.support, episodes.query))
            spread = sum(float(((q - query.mean(0)) ** 2).sum()) for q in query) / len(query)
            settings = {"steps": 15, "penalty": penalty, "scale": scale / spread}
            expected = naive_loop(support, episodes.support_labels[e], query, **settings)
            torch.testing.assert_close(ours[e], expected, rtol=1e-3, atol=1e-4)


def overlapping_classes() -> Episodes:
    """Five balanced classes in 256 dimensions, their centres nearer to each other than the items of one class."""
    generator = torch.Generator().manual_seed(0)
    ways = torch.arange(5).repeat(16).expand(20, -1)
    centres = torch.randn(20, 5, 256, generator=generator)
    noise = 2.5 * torch.randn(20, 80, 256, generator=generator)
    items = (centres.gather(1, ways.unsqueeze(-1).expand(-1, -1, 256)) + noise).relu()
    return Episodes(items[:, :5], ways[:, :5], items[:, 5:], ways[:, 5:], 5)


def test_overlapping_classes_do_not_fall_into_one_as_they_do_by_the_public_code():
    episodes = overlapping_classes()
    ours, public = (
        (method.logits(episodes).argmax(-1) == episodes.query_labels).float().mean()
        for method in (PADDLE(), PADDLE(**PUBLIC))
    )
    assert ours > public + 0.1


def test_the_answers_are_those_of_the_loop_whichever_way_the_minimum_is_subtracted():
    episodes = tasks()
    for penalty in (0.0, 1.0, 3.0):
        ours = PADDLE(penalty=penalty, steps=15, **PUBLIC).logits(episodes).exp()
        for e, divide in ((0, True), (0, False), (1, True), (1, False)):
            task = episodes.support[e], episodes.support_labels[e], episodes.query[e]
            expected = naive(*task, steps=15, penalty=penalty, divide_the_minimum=divide)
            torch.testing.assert_close(ours[e], expected, rtol=1e-3, atol=1e-4)


def test_a_class_without_queries_fades():
    episodes = tasks(n_query=60)
    present = torch.arange(60) % 3 < 2
    only_two = replace(episodes, query=episodes.query[:, present], query_labels=None)
    with_prior, without = (PADDLE(penalty=penalty).logits(only_two).softmax(-1) for penalty in (1.0, 0.0))
    assert (with_prior[..., 2].sum(1) < without[..., 2].sum(1)).all()


def test_a_dimension_in_which_the_queries_agree_is_not_divided():
    episodes = tasks()
    flat = replace(episodes, query=episodes.query.index_fill(-1, torch.tensor([0]), 0.5))
    ours = PADDLE(steps=5, **PUBLIC).logits(flat)[0].exp()
    task = flat.support[0], flat.support_labels[0], flat.query[0]
    torch.testing.assert_close(ours, naive(*task, steps=5, penalty=1.0, divide_the_minimum=True), rtol=1e-3, atol=1e-4)


def test_settings_out_of_range_are_errors():
    with pytest.raises(ConfigError, match="scale is 0"):
        PADDLE(scale=0.0)
    with pytest.raises(ConfigError, match="normalisation is 'max'"):
        PADDLE(normalisation="max")
