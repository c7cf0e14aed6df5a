"""CAN and CAN+T by plain loops from the formulas of the paper."""

import math

import pytest
import torch
from torch import Tensor

from remp.methods.can import CAN, CANT
from small_episodes import N_CLASSES, N_WAY, Pixels, mean_cross_entropy, small_episodes

WIDTH, P = 5, 4
SHAPE = (WIDTH, 2, 2)


def make(kind: type[CAN] = CAN, **settings) -> CAN:
    return kind(Pixels(), n_classes=N_CLASSES, feature_shape=SHAPE, **settings).double().eval()


def cosine(a: Tensor, b: Tensor) -> float:
    return float(a @ b / (a.norm() * b.norm()))


def attention(method: CAN, own: Tensor, other: Tensor) -> Tensor:
    """Over the positions of `own` (WIDTH, P), for running statistics 0 and 1 of the batch norm."""
    correlation = [[cosine(own[:, i], other[:, j]) for j in range(P)] for i in range(P)]
    mean = torch.tensor([sum(row[j] for row in correlation) / P for j in range(P)], dtype=torch.float64)
    first, last = method.attention.kernel[0], method.attention.kernel[3]
    kernel = last((first(mean) / math.sqrt(1 + 1e-5)).clamp(min=0)).detach()
    scores = [sum(correlation[i][j] * float(kernel[j]) for j in range(P)) / P for i in range(P)]
    return 1 + (torch.tensor(scores, dtype=torch.float64) / 0.025).softmax(0)


def class_maps(support: Tensor, labels: Tensor) -> list[Tensor]:
    return [support[labels == n].mean(0).flatten(1) for n in range(N_WAY)]


def naive_scores(method: CAN, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
    rows = []
    for q in query.flatten(2):
        pairs = [(c * attention(method, c, q), q * attention(method, q, c)) for c in class_maps(support, labels)]
        rows.append([7 * cosine(c.mean(1), z.mean(1)) for c, z in pairs])
    return torch.tensor(rows, dtype=torch.float64)


def naive_logits(method: CAN, batch) -> Tensor:
    tasks = zip(batch.support, batch.support_labels, batch.query, strict=True)
    return torch.stack([naive_scores(method, *task) for task in tasks])


def test_a_query_is_compared_with_a_class_by_their_attended_means():
    method, batch = make(), small_episodes(*SHAPE)
    torch.testing.assert_close(method.logits(batch).detach(), naive_logits(method, batch))


def test_the_surest_queries_join_the_support_in_two_rounds():
    """Of 7 queries 3 join in the first round, ⌊7 · 35 / 75⌋, and 6 in the second."""
    method, batch = make(CANT), small_episodes(*SHAPE)
    for e in range(2):
        support, labels, query = batch.support[e], batch.support_labels[e], batch.query[e]
        scores = naive_scores(method, support, labels, query)
        for count in (3, 6):
            surest = sorted(range(7), key=lambda q: -float(scores[q].max()))[:count]
            grown = torch.cat([support, query[surest]]), torch.cat([labels, scores[surest].argmax(1)])
            scores = naive_scores(method, *grown, query)
        torch.testing.assert_close(method.logits(batch)[e].detach(), scores)


def test_can_t_without_rounds_is_can():
    method, batch = make(CANT, rounds=0), small_episodes(*SHAPE)
    torch.testing.assert_close(method.logits(batch).detach(), naive_logits(method, batch))


def test_both_terms_classify_every_position_of_the_queries():
    method, batch = make(), small_episodes(*SHAPE)
    near, far = [], []
    for e in range(2):
        classes = class_maps(batch.support[e], batch.support_labels[e])
        for q, label in zip(batch.query[e].flatten(2), batch.query_labels[e], strict=True):
            means = [(c * attention(method, c, q)).mean(1) for c in classes]
            attended = q * attention(method, q, classes[int(label)])
            for p in range(P):
                near.append(([7 * cosine(attended[:, p], mean) for mean in means], int(label)))
                far.append((method.classifier(attended[:, p]).tolist(), int(batch.class_ids[e, label])))
    terms = method.loss(batch)
    assert terms["local"].item() == pytest.approx(0.5 * mean_cross_entropy(near))
    assert terms["global"].item() == pytest.approx(mean_cross_entropy(far))


def test_on_maps_of_the_paper_the_attention_has_as_many_parameters():
    method = CAN(feature_shape=(512, 6, 6))
    assert sum(parameter.numel() for parameter in method.attention.parameters()) == 486
