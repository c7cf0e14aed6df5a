"""Support and queries of an episode as one set, its features normalised, and prototypes as weighted sums of it.

A prototype that starts as a mean of items and only moves towards means of items is c_n = Σ_i W_ni x_i. Its distances
follow exactly from the weights W and the inner products G = X Xᵀ, so an iteration costs N·n² instead of 2·N·n·d.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from remp.episodes import Episodes, one_hot_rows
from remp.rectification.number_range import TINY, at_least_single, in_safe_range, to_double, to_dtype
from remp.rectification.similarity import unit

_OFFSET = 1e-6


def all_items(episodes: Episodes) -> Tensor:
    """Support, then queries: (E, S + Q, …). Not to be written to, see `joined`."""
    return joined(episodes.support, episodes.query)


def joined(support: Tensor, query: Tensor) -> Tensor:
    """(E, S, …), (E, Q, …) -> (E, S + Q, …). Not to be written to: it may share memory with both.

    Nothing is copied if they are neighbouring slices of one tensor, as `Episodes.map` makes them, without gradient.
    """
    length = support.shape[1] * support.stride(1)
    lie_together = (
        support.untyped_storage().data_ptr() == query.untyped_storage().data_ptr()
        and query.storage_offset() == support.storage_offset() + length
        and (query.stride(), query.dtype) == (support.stride(), support.dtype)
    )
    if not lie_together or support.requires_grad or query.requires_grad:
        return torch.cat([support, query], dim=1)
    return support.as_strided((len(support), support.shape[1] + query.shape[1], *support.shape[2:]), support.stride())


def all_labels(episodes: Episodes) -> Tensor:
    """Their labels 0 … n_way - 1, in training episodes: (E, S + Q)."""
    return torch.cat([episodes.support_labels, episodes.known_query_labels], dim=1)


def all_class_ids(episodes: Episodes) -> Tensor:
    """Which class of the data set each is, in training episodes: (E, S + Q)."""
    return episodes.classes_of(all_labels(episodes))


def stacked(episodes: Episodes) -> Tensor:
    """Support and queries, in this order, in single precision at least: (E, S + Q, d). Not to be written to."""
    return at_least_single(all_items(episodes))


def inner_products(items: Tensor) -> Tensor:
    """(E, n, d) -> (E, n, n)"""
    return items @ items.transpose(-1, -2)


def normalised_products(products: Tensor) -> Tensor:
    """Inner products (E, n, n) of the same items brought to L2 norm 1; those of an item at the origin stay 0."""
    inverse_norms = products.diagonal(dim1=-2, dim2=-1).clamp(min=TINY**2).rsqrt()
    return products * inverse_norms.unsqueeze(-1) * inverse_norms.unsqueeze(-2)


def cl2n(features: Tensor, base_mean: Tensor | None) -> Tensor:
    """(…, d) -> (…, d). base_mean: (d,) mean feature of the training classes, or None for no centring."""
    return unit(_centred(features, base_mean))


def cl2n_products(support: Tensor, query: Tensor, base_mean: Tensor | None) -> Tensor:
    """Inner products of `cl2n` features, support first: (E, S, d), (E, Q, d) -> (E, S + Q, S + Q), at least float32.

    The products are normalised instead of the features: an episode has fewer items than a feature has numbers, so this
    saves several passes over far more memory.
    """
    items = _centred(at_least_single(joined(support, query)), base_mean)
    products = inner_products(items)
    if not products.diagonal(dim1=-2, dim2=-1).isfinite().all():
        products = inner_products(to_double(items))
    return normalised_products(products).to(items.dtype)


def _centred(features: Tensor, base_mean: Tensor | None) -> Tensor:
    return features if base_mean is None else features - base_mean.to(features)


def power_transform(features: Tensor, exponent: float) -> Tensor:
    """(x + 1e-6)^exponent, of each number; a negative one keeps its sign: -(|x| + 1e-6)^exponent."""
    if exponent == 1:
        return features
    return features.abs().add_(_OFFSET).pow_(exponent).copysign_(features)


def centred(items: Tensor) -> Tensor:
    """Items (E, n, d) minus their mean, which is summed in double precision: the order of the items does not show."""
    return items - items.mean(-2, keepdim=True, dtype=torch.float64).to(items.dtype)


def centred_on_sphere(items: Tensor) -> Tensor:
    """Items (E, n, d) minus their mean, each with L2 norm 1; an item at the mean is 0."""
    return unit(centred(items))


def squared_distances(weights: Tensor, products: Tensor) -> Tensor:
    """‖Σ_j W_nj x_j - x_i‖²: weights (E, N, n), inner products (E, n, n) -> (E, N, n)."""
    crossed = weights @ products
    squares = (weights * crossed).sum(-1, keepdim=True)
    return (squares - 2 * crossed + products.diagonal(dim1=-2, dim2=-1).unsqueeze(-2)).clamp(min=0)


def mean_weights(assignments: Tensor, n_items: int | None = None) -> Tensor:
    """Weights (E, N, n_items) of the mean of each class, from how far (E, N, n) each item belongs to each class.

    Items beyond the assigned ones have weight 0; a class without items has only zeros.
    """
    weights = assignments / assignments.sum(-1, keepdim=True).clamp(min=TINY)
    return weights if n_items is None else F.pad(weights, (0, n_items - weights.shape[-1]))


def unit_weights(weights: Tensor, products: Tensor) -> Tensor:
    """Weights (E, N, n) scaled so that each prototype has L2 norm 1; one at the origin stays there."""
    squares = (weights * (weights @ products)).sum(-1, keepdim=True)
    return weights / squares.clamp(min=TINY).sqrt()


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
