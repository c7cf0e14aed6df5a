"""Attentive, repulsive prototype rectification: the heart of ReMP, as a pure function over a batch of episodes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from remp.episodes import one_hot_rows
from remp.errors import EpisodeError
from remp.rectification import Rectification
from remp.rectification.layer import evened, project, repelled, row_sums, scores, support_weight
from remp.rectification.number_range import in_safe_range, largest_safe, to_dtype, to_dtype_from_best


@dataclass(frozen=True)
class Rectified:
    """What `rectify` returns, for E episodes with N classes, S labelled items and Q queries.

    Parameters
    ----------
    prototypes : Tensor
        (E, N, d) in the space of the last layer.
    query : Tensor
        (E, Q, d) likewise.
    logits : Tensor
        (E, Q, N)
    attention : tuple of Tensor
        One (E, N, S + Q) per layer, rows normalised, if it was asked for.

    Examples
    --------
    >>> import torch
    >>> from remp import Rectification, rectify
    >>> items = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])
    >>> done = rectify(items, torch.tensor([[0, 1]]), items, 2, Rectification(layers=3), keep_attention=True)
    >>> done.logits.shape, len(done.attention)
    (torch.Size([1, 2, 2]), 3)
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

    Differentiable in all inputs, and finite for all finite input: numbers that would leave the range of the dtype are
    limited to that range, and the best logit stays the best.

    Parameters
    ----------
    support : Tensor
        (E, S, d) labelled features.
    support_labels : Tensor
        (E, S) classes in 0 … n_way - 1.
    query : Tensor
        (E, Q, d) unlabelled features.
    n_way : int
        Number of classes N.
    settings : Rectification
        Number of layers and all other switches.
    projection : Tensor, optional
        H (d, d) of h(x) = x Hᵀ, or (c, c) for a 1 x 1 convolution on flattened maps of c channels. Default: the
        identity. Unused without residual.
    keep_attention : bool
        Whether to keep the attention of every layer, (E, N, S + Q) each.

    Returns
    -------
    Rectified
        With `prototypes` (E, N, d), `query` (E, Q, d), both in the space of the last layer, `logits` (E, Q, N) and
        `attention`.

    Examples
    --------
    Two prototypes move to where the queries are:

    >>> import torch
    >>> from remp import Rectification, rectify
    >>> support = torch.tensor([[[0.0, 0.0], [10.0, 0.0]]])
    >>> query = torch.tensor([[[0.0, 2.0], [0.0, 4.0], [10.0, 2.0]]])
    >>> settings = Rectification(layers=1, residual=False, repulsion="none")
    >>> rectify(support, torch.tensor([[0, 1]]), query, 2, settings).prototypes.round(decimals=3).tolist()
    [[[0.0, 2.0], [10.0, 1.0]]]
    """
    _check(support, support_labels, query, n_way)
    dtype, large = query.dtype, largest_safe(settings, projection, support.shape[1] + query.shape[1])
    support, queries = in_safe_range(support, query, large=large)
    projection = None if projection is None else projection.to(support.dtype)
    one_hot = one_hot_rows(support_labels, n_way, support.dtype)  # A^S, Eq. 10: (E, N, S)
    counts = one_hot.sum(-1, keepdim=True)  # (E, N, 1)
    sums = one_hot @ support  # (E, N, d): A Z needs only them of the support, and h of sums is the sum of h
    prototypes = sums / counts.clamp(min=1)  # C, Eq. 4: (E, N, d)
    bias = torch.zeros_like(counts)  # stays 0 in the paper
    attention = []
    for layer in range(settings.layers):
        weights = torch.softmax(scores(prototypes, queries, settings) + bias, dim=-2)  # A^Q, Eq. 8: (E, N, Q)
        if settings.balanced:
            bias = evened(bias, weights.sum(-1, keepdim=True) + counts)
        weights = repelled(weights, settings.beta(layer, n_way), settings)  # Eq. 12: A^Q below β becomes -min A^Q
        own = support_weight(weights, support.shape[1], settings)  # 1 in the paper
        rows = torch.cat([own * one_hot, weights], dim=-1)  # A = [A^S, A^Q]: (E, N, S + Q)
        norms = row_sums(rows, settings)  # "we re-normalize the resulting matrix per row"
        target = (own * sums + weights @ queries) / norms  # C* = A Z, Eq. 7
        target = torch.lerp(prototypes, target, settings.step)  # all of it in the paper
        if settings.residual:
            prototypes = project(target, projection) + prototypes  # Eq. 11: C ← h(C*) + C
            sums, queries = (project(items, projection) + items for items in (sums, queries))  # Eq. 11: Z ← h(Z) + Z
        else:
            prototypes = target
        if keep_attention:
            attention.append((rows / norms).to(dtype))
    logits = (scores(prototypes, queries, settings) + bias).transpose(-1, -2)  # κ of Eq. 3: (E, Q, N)
    return Rectified(
        prototypes=to_dtype(prototypes, dtype),
        query=to_dtype(queries, dtype),
        logits=to_dtype_from_best(logits, dtype),
        attention=tuple(attention),
    )


def _check(support: Tensor, support_labels: Tensor, query: Tensor, n_way: int) -> None:
    shapes = [tuple(tensor.shape) for tensor in (support, support_labels, query)]
    if list(map(len, shapes)) != [3, 2, 3] or shapes[0][:2] != shapes[1] or shapes[0][::2] != shapes[2][::2]:
        raise EpisodeError(
            f"got support {shapes[0]}, support_labels {shapes[1]} and query {shapes[2]}; needed (E, S, d), (E, S) and "
            "(E, Q, d): add a first dimension of 1 for a single task"
        )
    if query.shape[1] == 0:
        raise EpisodeError("there are no queries to rectify with: give at least one")
    if support_labels.numel() and not 0 <= support_labels.min() <= support_labels.max() < n_way:
        found = f"{int(support_labels.min())} … {int(support_labels.max())}"
        raise EpisodeError(f"support labels are {found}; needed 0 … {n_way - 1}: number the {n_way} classes from 0")
