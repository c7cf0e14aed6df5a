"""The paper's equations, one vector at a time: what the fast code is compared with."""

import math

import numpy as np


def naive_kappa(c, z, settings) -> float:
    if settings.similarity == "cosine":
        lengths = math.sqrt((c * c).sum()) * math.sqrt((z * z).sum())
        return settings.scale * float(c @ z) / lengths if lengths else 0.0
    square = float(((c - z) ** 2).sum())
    return -settings.scale * (math.sqrt(square) if settings.similarity == "plain-euclidean" else square)


def naive_softmax(scores: list[float]) -> list[float]:
    exponentials = [math.exp(score - max(scores)) for score in scores]
    return [value / sum(exponentials) for value in exponentials]


def naive_prototypes(support, labels, n_way) -> np.ndarray:
    """Eq. 4."""
    return np.array(
        [np.mean([z for z, y in zip(support, labels, strict=True) if y == n], axis=0) for n in range(n_way)]
    )


def naive_attention(prototypes, labels, query, beta, settings, bias=None) -> np.ndarray:
    """Eqs. 8-10 and the mask of the repulsive attention: A = [A^S, A^Q], rows re-normalised."""
    n_way = len(prototypes)
    on_query = naive_probabilities(prototypes, query, settings, bias).T
    smallest = on_query.min()
    near = sum(value for value in on_query.flat if settings.repulsion == "none" or value >= beta)
    weight = max(1.0, settings.label_share / (1 - settings.label_share) * near / len(labels))
    rows = []
    for n in range(n_way):
        row = [weight if y == n else 0.0 for y in labels]
        for value in on_query[n]:
            is_masked = settings.repulsion != "none" and value < beta
            row.append((-smallest if settings.repulsion == "negative" else 0.0) if is_masked else value)
        total = sum(abs(value) for value in row) if settings.row_norm == "absolute" else sum(row)
        rows.append([value / total for value in row])
    return np.array(rows)


def naive_rectify(support, labels, query, n_way, settings, h):
    """Eqs. 7-11, layer by layer: prototypes, propagated queries, each layer's attention, and the bias if balanced."""
    prototypes, z = naive_prototypes(support, labels, n_way), np.concatenate([support, query])
    attentions, bias = [], [0.0] * n_way
    for layer in range(settings.layers):
        beta = settings.threshold / (n_way * (settings.layers - layer))
        shares = naive_probabilities(prototypes, z[len(support) :], settings, bias)
        attention = naive_attention(prototypes, labels, z[len(support) :], beta, settings, bias)
        if settings.balanced:
            masses = [shares[:, n].sum() + list(labels).count(n) for n in range(n_way)]
            bias = [b + math.log(sum(masses) / n_way / mass) for b, mass in zip(bias, masses, strict=True)]
        target = attention @ z
        attentions.append(attention)
        moved = settings.step * target + (1 - settings.step) * prototypes
        prototypes = np.array([h @ c for c in moved]) + prototypes if settings.residual else moved
        z = np.array([h @ x for x in z]) + z if settings.residual else z
    return prototypes, z[len(support) :], attentions, bias


def naive_probabilities(prototypes, query, settings, bias=None) -> np.ndarray:
    """Eq. 3, with a bias of each class if there is one."""
    bias = [0.0] * len(prototypes) if bias is None else bias
    scored = [[naive_kappa(c, z, settings) + b for c, b in zip(prototypes, bias, strict=True)] for z in query]
    return np.array([naive_softmax(scores) for scores in scored])
