"""Graphs over the items of an episode: distances, nearest neighbours, normalised weights, propagation along edges."""

import torch
from torch import Tensor

from remp.rectification.number_range import in_safe_range
from remp.rectification.similarity import negative_squared_distance

_ROUND_OFF = 32  # in units of the dtype's epsilon: how far the expanded square may miss the distance of equal nodes


def squared_distances(nodes: Tensor) -> Tensor:
    """‖z_i - z_j‖²: (…, n, d) -> (…, n, n), exactly 0 between equal nodes.

    In at least float32, and in float64 where squares would overflow: go on in the dtype of the answer.
    """
    (nodes,) = in_safe_range(nodes)
    nodes = nodes - nodes.mean(-2, keepdim=True)  # nearer to zero, fewer digits cancel
    squares = nodes.detach().square().sum(-1)
    round_off = _ROUND_OFF * torch.finfo(nodes.dtype).eps * (squares.unsqueeze(-1) + squares.unsqueeze(-2))
    distances = -negative_squared_distance(nodes, nodes)
    return torch.where(distances > round_off, distances, 0.0)


def nearest_neighbours(weights: Tensor, k: int) -> Tensor:
    """Whether j is among the k largest weights of row i: (…, n, n) -> bool (…, n, n).

    All that tie for the last place are in, so the answer does not depend on the order of the nodes. A node counts
    among its own neighbours if its weight on the diagonal says so.
    """
    last = weights.topk(min(k, weights.shape[-1]), dim=-1).values[..., -1:]
    return weights >= last


def keep_nearest(weights: Tensor, k: int) -> Tensor:
    """Weights (…, n, n) with 0 unless one of the two nodes is among the k nearest neighbours of the other."""
    near = nearest_neighbours(weights, k)
    return torch.where(near | near.transpose(-1, -2), weights, 0.0)


def without_loops(weights: Tensor) -> Tensor:
    """Weights (…, n, n) with a diagonal of zeros."""
    loops = torch.eye(weights.shape[-1], dtype=torch.bool, device=weights.device)
    return weights.masked_fill(loops, 0.0)


def normalise(weights: Tensor, *, extra_degree: float = 0.0) -> Tensor:
    """S = D^(-1/2) W D^(-1/2), D the row sums plus `extra_degree`: (…, n, n) -> (…, n, n), for symmetric W >= 0.

    A node without edges stays without: its row and column are zeros.
    """
    degrees = weights.sum(-1) + extra_degree
    inverse_roots = degrees.clamp(min=torch.finfo(weights.dtype).tiny).rsqrt()
    return weights * inverse_roots.unsqueeze(-1) * inverse_roots.unsqueeze(-2)


def propagate(similarity: Tensor, signal: Tensor, alpha: float) -> Tensor:
    """(I - αS)^(-1) Y = Y + αSY + α²S²Y + …: S (…, n, n) as from `normalise`, Y (…, n, m) -> (…, n, m), 0 <= α < 1."""
    return torch.linalg.solve(_identity(similarity) - alpha * similarity, signal)


def propagator(similarity: Tensor, alpha: float) -> Tensor:
    """(I - αS)^(-1), the matrix of `propagate`: (…, n, n) -> (…, n, n)."""
    return propagate(similarity, _identity(similarity).expand_as(similarity), alpha)


def _identity(like: Tensor) -> Tensor:
    return torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)
