"""The parts of the paper's equations that `rectify` and `propagate` share."""

import torch
from torch import Tensor

from remp.rectification import Rectification
from remp.rectification.number_range import away_from_zero
from remp.rectification.similarity import negative_distance, unit


def scores(prototypes: Tensor, items: Tensor, settings: Rectification) -> Tensor:
    """scale · κ: (E, N, d), (E, n, d) -> (E, N, n), up to a term that is the same for all prototypes of an item.

    A softmax over prototypes does not see that term, so ‖z‖² of the squared distance is left out.
    """
    if settings.similarity == "cosine":
        return settings.scale * unit(prototypes) @ unit(items).transpose(-1, -2)
    if settings.similarity == "plain-euclidean":
        return settings.scale * negative_distance(prototypes, items)
    half_squares = prototypes.square().sum(-1, keepdim=True) / 2  # (E, N, 1)
    return 2 * settings.scale * (prototypes @ items.transpose(-1, -2) - half_squares)


def repelled(weights: Tensor, beta: float, settings: Rectification) -> Tensor:
    """The attention (E, N, Q) with all that is below β made the repulsive force."""
    if settings.repulsion == "none":
        return weights
    near, far = near_and_far(weights, beta)
    return near + repulsion(weights.amin((-2, -1), keepdim=True), settings) * far


def near_and_far(weights: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    """The attention (E, N, Q) where it is at least β, else 0; and 1 where it is below β, else 0."""
    is_near = weights >= beta
    return weights * is_near, (~is_near).to(weights.dtype)  # five times as fast as torch.where


def repulsion(smallest: Tensor, settings: Rectification) -> Tensor:
    """What an attention below β becomes, (E, 1, 1): -min P, or 0. It is a constant to the gradient."""
    return -smallest.detach() if settings.repulsion == "negative" else torch.zeros_like(smallest)


def support_weight(weights: Tensor, n_support: int, settings: Rectification) -> Tensor | float:
    """What an item of the support counts, (E, 1, 1), where a query counts its attention: 1 or more.

    weights: (E, N, Q) attention of the queries, or sums of it; what repels does not count.
    """
    share = settings.label_share
    if share == 0:
        return 1.0
    queries = weights.clamp(min=0).sum((-2, -1), keepdim=True)
    return (share / (1 - share) * queries / max(1, n_support)).clamp(min=1)


def row_sums(rows: Tensor, settings: Rectification) -> Tensor:
    """What each row of an attention (E, N, n) is divided by, (E, N, 1)."""
    return away_from_zero((rows.abs() if settings.row_norm == "absolute" else rows).sum(-1, keepdim=True))


def project(items: Tensor, matrix: Tensor | None) -> Tensor:
    """h(x) of each item (…, d). matrix: (d, d), or (c, c) with d a multiple of c for a 1 x 1 convolution on flattened
    maps: then the c channels of each position are projected alike. None: the identity."""
    if matrix is None:
        return items
    channels = len(matrix)
    if channels == items.shape[-1]:
        return items @ matrix.T
    positions = items.unflatten(-1, (channels, -1)).transpose(-1, -2)  # (…, positions, c)
    return (positions @ matrix.T).transpose(-1, -2).flatten(-2)
