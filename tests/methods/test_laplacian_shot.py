"""LaplacianShot against plain loops that stop by the energy."""

import math

import pytest
import torch

from naive_bd_cspn import completed_prototypes, normalised, shifted
from remp.episodes import Episodes
from remp.errors import ConfigError
from remp.methods.laplacian_shot import LaplacianShot, nearest_others, weight_by_shot
from small_episodes import N_WAY, small_episodes

BY_SHOT = 0.7 - 0.4 * math.log(4 / 3) / math.log(5)  # of four labelled items of three classes


def squared_distance(a, b) -> float:
    return float(sum((a - b) ** 2))


def softmax(row: list[float]) -> list[float]:
    return [math.exp(value) / sum(math.exp(other) for other in row) for value in row]


def naive_smoothing(distances, neighbours, weight, steps, tolerance):
    """Logits (Q, N) and the number of updates. distances: (Q, N); neighbours: a list of queries for each query."""
    logits = [[-a for a in row] for row in distances]
    shares, energies = [softmax(row) for row in logits], []
    for _ in range(steps):
        logits = [
            [weight * sum(shares[j][n] for j in neighbours[q]) - a for n, a in enumerate(row)]
            for q, row in enumerate(distances)
        ]
        shares = [softmax(row) for row in logits]
        energy = 0.0
        for q, row in enumerate(shares):
            for n, y in enumerate(row):
                energy += y * (math.log(y) + distances[q][n] - weight * sum(shares[j][n] for j in neighbours[q]))
        energies.append(energy)
        if len(energies) > 2 and abs(energy - energies[-2]) <= tolerance * abs(energies[-2]):
            break
    return logits, len(energies)


def naive_logits(episodes, e, *, knn=3, laplacian_weight=BY_SHOT, rectify=True, steps=20, tolerance=1e-6):
    support, query = normalised(episodes.support[e]), normalised(episodes.query[e])
    labels = episodes.support_labels[e].tolist()
    prototypes = [
        sum(x for x, y in zip(support, labels, strict=True) if y == n) / labels.count(n) for n in range(N_WAY)
    ]
    if rectify:
        query = shifted(support, query)
        prototypes = completed_prototypes(support, labels, query, N_WAY)
    others = range(len(query))
    neighbours = [sorted(others, key=lambda j, q=q: squared_distance(q, query[j]))[1:knn] for q in query]
    distances = [[squared_distance(q, c) for c in prototypes] for q in query]
    return naive_smoothing(distances, neighbours, laplacian_weight, steps, tolerance)


@pytest.mark.parametrize(
    "settings", [{}, {"rectify": False}, {"knn": 5, "laplacian_weight": 1.5}, {"tolerance": 0.01}, {"steps": 1}]
)
def test_logits_are_those_of_plain_loops(settings):
    episodes = small_episodes(5)
    logits = LaplacianShot(**settings).logits(episodes)
    for e in range(len(episodes)):
        expected, _ = naive_logits(episodes, e, **settings)
        torch.testing.assert_close(logits[e].tolist(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("n_shot", "weight"), [(0.5, 0.7), (1, 0.7), (5**0.25, 0.6), (5**0.5, 0.5), (5, 0.3), (20, 0.3)]
)
def test_neighbours_count_less_the_more_labels_there_are(n_shot, weight):
    assert weight_by_shot(n_shot) == pytest.approx(weight)


def test_each_task_of_a_batch_stops_on_its_own():
    episodes, settings = small_episodes(5), {"tolerance": 1e-3, "laplacian_weight": 1.5}
    expected = [naive_logits(episodes, e, **settings) for e in range(2)]
    assert expected[0][1] != expected[1][1], "the two tasks should need a different number of updates"
    logits = LaplacianShot(**settings).logits(episodes)
    torch.testing.assert_close(logits.tolist(), [rows for rows, _ in expected], rtol=1e-6, atol=1e-6)


def test_a_query_between_two_classes_follows_its_neighbours():
    """A fan of directions from class 0: the last query is nearer to the mean of class 1, all its neighbours are not."""
    degrees = torch.tensor([0.0, 100.0, 10.0, 20.0, 30.0, 40.0, 51.0]).deg2rad()
    items = torch.stack([degrees.cos(), degrees.sin()], dim=-1).unsqueeze(0)
    episodes = Episodes(items[:, :2], torch.tensor([[0, 1]]), items[:, 2:], None, 2)
    alone = LaplacianShot(rectify=False, laplacian_weight=0.0).logits(episodes)
    assert alone.argmax(-1).tolist() == [[0, 0, 0, 0, 1]]
    assert LaplacianShot(rectify=False).logits(episodes).argmax(-1).tolist() == [[0, 0, 0, 0, 0]]


def test_neighbours_are_the_nearest_others():
    """Points 0, 1, 3 and 7 of a line: from 3 it is two steps to 1, three to 0."""
    points = torch.tensor([0.0, 1.0, 3.0, 7.0])
    neighbours = nearest_others(points.unsqueeze(-1) * points.unsqueeze(0)[None], 2)
    assert neighbours[0].T.tolist() == [[1, 2], [0, 2], [1, 0], [2, 1]]


def test_a_query_has_no_more_neighbours_than_there_are_others():
    assert nearest_others(torch.ones(1, 2, 2), 5).tolist() == [[[1, 0]]]
    assert nearest_others(torch.ones(1, 1, 1), 2).shape == (1, 0, 1)


@pytest.mark.parametrize("setting", [{"knn": 0}, {"laplacian_weight": -1.0}, {"steps": -1}, {"tolerance": -1e-6}])
def test_settings_out_of_range_are_refused(setting):
    with pytest.raises(ConfigError, match=next(iter(setting))):
        LaplacianShot(**setting)
