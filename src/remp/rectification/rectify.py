"""Attentive, repulsive prototype rectification: the heart of ReMP, as a pure function over a batch of episodes."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from remp.errors import ConfigError
from remp.rectification.layer import (
    SMALLEST_SUM,
    Rectification,
    attention_weights,
    full_attention,
    one_hot_rows,
    query_sums,
    scores,
    start,
)
from remp.rectification.similarity import in_safe_range, to_dtype

# Input beyond the first, or that the layers would carry beyond the second, is computed in float64.
_LARGE, _LARGE_AT_THE_END = 1e9, 1e15
# Layers that enlarge features by more powers of ten would leave even float64.
_MOST_DECADES = 50


@dataclass(frozen=True)
class Rectified:
    """prototypes: (E, N, d) and query: (E, Q, d), both in the space of the last layer; logits: (E, Q, N).

    attention: one (E, N, S + Q) a layer, rows normalised, if it was asked for.
    """

    prototypes: Tensor
    query: Tensor
    logits: Tensor
    attention: tuple[Tensor, ...] = ()


def class_means(support: Tensor, support_labels: Tensor, n_way: int) -> Tensor:
    """Mean of the support of each class, Eq. 4: (E, S, d), (E, S) -> (E, N, d). A class without support gets zeros."""
    (items,) = in_safe_range(support)
    one_hot = one_hot_rows(support_labels, n_way, items.dtype)  # (E, N, S)
    return to_dtype(one_hot @ items / one_hot.sum(-1, keepdim=True).clamp(min=1), support.dtype)


def rectify(
    support: Tensor,
    support_labels: Tensor,
    query: Tensor,
    n_way: int,
    settings: Rectification,
    *,
    projection: Tensor | None = None,
    keep_attention: bool = False,
) -> Rectified:
    """Refine the class prototypes of each episode with its unlabelled queries.

    support: (E, S, d); support_labels: (E, S) in 0 … n_way - 1; query: (E, Q, d). projection: H (d, d) of h(x) = x Hᵀ,
    or (c, c) for a 1 x 1 convolution on flattened maps of c channels, or None for the identity; unused without
    residual. Differentiable in everything, and finite for all finite input: what the layers would carry beyond the
    range of its dtype ends at the end of that range, the best logit still best.
    """
    dtype, n_items = query.dtype, support.shape[1] + query.shape[1]
    if query.shape[1] == 0:
        raise ValueError("there are no queries to rectify with: give at least one")
    support, query = in_safe_range(support, query, large=largest_safe(settings, projection, n_items))
    state, queries = start(support, support_labels, n_way, settings, projection), query
    attention = []
    for layer in range(settings.layers):
        beta = settings.beta(layer, n_way)
        weights = attention_weights(state, queries)  # (E, N, Q)
        sums = query_sums(weights, queries, beta, settings)
        if keep_attention:
            attention.append(full_attention(state, weights, sums, beta).to(dtype))
        state, queries = state.next(sums), state.onward(queries)
    return Rectified(
        prototypes=to_dtype(state.prototypes, dtype),
        query=to_dtype(queries, dtype),
        logits=logits_in(dtype, state.prototypes, queries, settings),
        attention=tuple(attention),
    )


def logits_in(dtype: torch.dtype, prototypes: Tensor, queries: Tensor, settings: Rectification) -> Tensor:
    """Logits (…, Q, N) of queries (…, Q, d) by prototypes (…, N, d); those of a query that leave the dtype start from
    its best."""
    logits = scores(prototypes, queries, settings).transpose(-1, -2)
    if logits.dtype == dtype:
        return logits
    leaves = logits.detach().abs().amax(-1, keepdim=True) > torch.finfo(dtype).max
    best = logits.detach().amax(-1, keepdim=True)
    return to_dtype(logits - torch.where(leaves, best, 0.0), dtype)


def largest_safe(settings: Rectification, projection: Tensor | None, n_items: int) -> float:
    """The largest feature for which float32 holds everything that `settings.layers` layers make of it."""
    growth = 1.0 if settings.row_norm == "absolute" else n_items / SMALLEST_SUM
    if settings.residual:
        # Entries of x Hᵀ are at most ‖H‖_∞ times the largest of x.
        norm = 1.0 if projection is None else float(projection.detach().abs().sum(-1).amax())
        if not math.isfinite(norm):  # a training that has diverged: its loss will say so
            return _LARGE
        decades = settings.layers * math.log10(1 + norm)
        if decades > _MOST_DECADES:
            raise ConfigError(
                f"{settings.layers} layers could enlarge the features 1e{decades:.0f} times, more than float64 holds: "
                "take fewer layers, a smaller projection, or none (projection: absent)"
            )
        growth *= 10**decades
    return min(_LARGE, _LARGE_AT_THE_END / growth / max(settings.scale, 1.0) ** 0.5)
