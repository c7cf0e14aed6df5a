"""DFMN-MCT by plain loops from the formulas of the paper."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from remp.methods.dfmn_mct import DFMNMCT
from small_episodes import N_CLASSES, N_WAY, Pixels, mean_cross_entropy, small_episodes

SHAPE = (4, 2, 2)


def make(shape: tuple[int, int, int] = SHAPE, **settings) -> DFMNMCT:
    return DFMNMCT(Pixels(), n_classes=N_CLASSES, feature_shape=shape, **settings).double().eval()


def scaled(method: DFMNMCT, map_: Tensor) -> Tensor:
    """u(a) = a / ‖a‖ / g(a); g written out for running statistics 0 and 1."""
    scale = method.length_scale
    response = F.conv2d(map_[None], scale.convolution.weight, scale.convolution.bias, padding=1)
    response = (response / math.sqrt(1 + 2e-5)).clamp(min=0).flatten()
    g = math.log1p(math.exp((scale.linear.weight[0] @ response + scale.linear.bias).item()))
    return map_.flatten() / map_.norm() / g


def naive_logits(method: DFMNMCT, batch, updates: int) -> list[list[list[float]]]:
    answers = []
    for support, labels, query in zip(batch.support, batch.support_labels, batch.query, strict=True):
        members = [support[labels == n] for n in range(N_WAY)]
        prototypes = [m.mean(0) for m in members]
        for update in range(updates + 1):
            targets = [scaled(method, c) for c in prototypes]
            scores = [[-float((scaled(method, z) - u).square().sum()) for u in targets] for z in query]
            if update < updates:
                shares = torch.tensor(scores, dtype=torch.float64).softmax(1)
                prototypes = [
                    (members[n].sum(0) + sum(p * z for p, z in zip(shares[:, n], query, strict=True)))
                    / (len(members[n]) + shares[:, n].sum())
                    for n in range(N_WAY)
                ]
        answers.append(scores)
    return answers


@pytest.mark.parametrize("updates", [0, 1, 10])
def test_queries_join_the_class_means_by_their_confidence(updates):
    method, batch = make(updates=updates), small_episodes(*SHAPE)
    expected = torch.tensor(naive_logits(method, batch, updates), dtype=torch.float64)
    torch.testing.assert_close(method.logits(batch).detach(), expected)


def test_the_instance_term_is_taken_after_one_update():
    method, batch = make(), small_episodes(*SHAPE)
    logits = naive_logits(method, batch, updates=1)
    rows = [(logits[e][q], int(batch.query_labels[e, q])) for e in range(2) for q in range(7)]
    assert method.loss(batch)["instance"].item() == pytest.approx(0.2 * mean_cross_entropy(rows))


def test_the_dense_term_classifies_every_position_of_the_queries():
    method, batch = make(), small_episodes(*SHAPE)
    rows = []
    for e in range(2):
        for map_, label in zip(batch.query[e], batch.query_labels[e], strict=True):
            for pixel in map_.flatten(1).T:
                scores = [-float((pixel - w).square().sum()) for w in method.class_vectors.detach()]
                rows.append((scores, int(batch.class_ids[e, label])))
    assert method.loss(batch)["dense"].item() == pytest.approx(mean_cross_entropy(rows))


@pytest.mark.parametrize("side", [1, 2, 3, 5, 6])
def test_the_length_scale_takes_maps_of_any_size(side):
    method = make((3, side, side))
    scales = method.length_scale(torch.randn(2, 5, 3, side, side, dtype=torch.float64))
    assert scales.shape == (2, 5, 1)
    assert (scales > 0).all()
    assert method.length_scale.linear.in_features == {1: 1, 2: 4, 3: 1, 5: 9, 6: 16}[side]
