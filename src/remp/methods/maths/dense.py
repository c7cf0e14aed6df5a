"""Maps as sets of positions, each classified on its own, and class means that count queries by weight."""

from torch import Tensor

from remp.episodes import one_hot_rows
from remp.methods.base import cross_entropy
from remp.rectification.number_range import in_safe_range, to_dtype


def positions(maps: Tensor) -> Tensor:
    """A row of channels for each position of a map: (E, n, width, h, w) -> (E, n, h * w, width)"""
    return maps.flatten(3).transpose(2, 3)


def dense_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean over the positions of all items, each labelled as its item: (E, n, positions, classes), (E, n) -> scalar"""
    return cross_entropy(logits.flatten(1, 2), labels.repeat_interleave(logits.shape[2], dim=1))


def means_with_queries(support: Tensor, support_labels: Tensor, query: Tensor, weights: Tensor) -> Tensor:
    """c_n = (Σ_s∈n z_s + Σ_q w_qn z_q) / (K_n + Σ_q w_qn).

    support: (E, S, …), support_labels: (E, S), query: (E, Q, …), weights: (E, Q, N), not negative -> (E, N, …).
    A class without support and weight gets zeros.
    """
    labelled, unlabelled, shares = in_safe_range(support.flatten(2), query.flatten(2), weights.transpose(1, 2))
    members = one_hot_rows(support_labels, weights.shape[2], labelled.dtype)  # (E, N, S)
    count = members.sum(2, keepdim=True) + shares.sum(2, keepdim=True)
    means = (members @ labelled + shares @ unlabelled) / count.clamp(min=1e-6)
    return to_dtype(means, support.dtype).unflatten(2, support.shape[2:])
