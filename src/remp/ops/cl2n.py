"""CL2N, features centred on the mean of the training classes with L2 norm 1; and their inner products."""

import torch
from torch import Tensor

from remp.similarity import TINY, to_double, unit


def cl2n(features: Tensor, base_mean: Tensor | None) -> Tensor:
    """(…, d) -> (…, d). base_mean: (d,) mean feature of the training classes, or None for no centring."""
    return unit(_centred(features, base_mean))


def cl2n_products(support: Tensor, query: Tensor, base_mean: Tensor | None) -> Tensor:
    """Inner products of `cl2n` features, support first: (E, S, d), (E, Q, d) -> (E, S + Q, S + Q), at least float32.

    The products are normalised instead of the features: an episode has fewer items than a feature has numbers, so this
    saves several passes over far more memory.
    """
    dtype = torch.promote_types(query.dtype, torch.float32)
    support, query = (_centred(items.to(dtype), base_mean) for items in (support, query))
    products = _inner_products(support, query)
    if not products.diagonal(dim1=-2, dim2=-1).isfinite().all():
        products = _inner_products(to_double(support), to_double(query))
    inverse_norms = products.diagonal(dim1=-2, dim2=-1).clamp(min=TINY**2).rsqrt()
    return (products * inverse_norms.unsqueeze(-1) * inverse_norms.unsqueeze(-2)).to(dtype)


def _centred(features: Tensor, base_mean: Tensor | None) -> Tensor:
    return features if base_mean is None else features - base_mean.to(features)


def _inner_products(support: Tensor, query: Tensor) -> Tensor:
    n_support, n_items = support.shape[1], support.shape[1] + query.shape[1]
    products = query.new_empty(len(query), n_items, n_items)
    products[:, :n_support, :n_support] = support @ support.transpose(-1, -2)
    products[:, n_support:, n_support:] = query @ query.transpose(-1, -2)
    products[:, :n_support, n_support:] = crossed = support @ query.transpose(-1, -2)
    products[:, n_support:, :n_support] = crossed.transpose(-1, -2)
    return products
