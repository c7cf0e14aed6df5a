"""Class means that count unlabelled queries by weight."""

from torch import Tensor

from remp.episodes import one_hot_rows
from remp.rectification.number_range import in_safe_range, to_dtype


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
