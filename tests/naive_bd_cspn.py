"""BD-CSPN of one episode in plain loops over features, the oracle of the methods that use it."""

import math

import torch
from torch import Tensor


def normalised(items: Tensor) -> Tensor:
    return torch.stack([item / math.sqrt(sum(item**2)) for item in items])


def cosine(a: Tensor, b: Tensor) -> float:
    return float(a @ b / (a.norm() * b.norm()))


def shifted(support: Tensor, query: Tensor) -> Tensor:
    """Queries (Q, d) moved so that their mean is that of the support (S, d)."""
    return query + sum(support) / len(support) - sum(query) / len(query)


def completed_prototypes(
    support: Tensor,
    labels: list[int],
    query: Tensor,
    n_way: int,
    *,
    scale: float = 10.0,
    across_classes: bool = True,
    relabel_support: bool = False,
) -> Tensor:
    """support: (S, d); query: (Q, d), already shifted -> (n_way, d)."""
    means = [sum(x for x, y in zip(support, labels, strict=True) if y == n) / labels.count(n) for n in range(n_way)]
    items = [*support, *query]
    scores = [[scale * cosine(x, mean) for mean in means] for x in items]
    nearest = [row.index(max(row)) for row in scores]
    given = nearest if relabel_support else labels + nearest[len(labels) :]
    prototypes = []
    for n in range(n_way):
        members = [i for i, label in enumerate(given) if label == n]
        if not members:
            prototypes.append(means[n])
            continue
        weights = {i: math.exp(scores[i][n]) for i in members}
        if across_classes:
            weights = {i: weights[i] / sum(math.exp(score) for score in scores[i]) for i in members}
        prototypes.append(sum(weights[i] * items[i] for i in members) / sum(weights.values()))
    return torch.stack(prototypes)
