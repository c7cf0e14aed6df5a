"""CL2N, features centred on the mean of the training classes with L2 norm 1; and their inner products."""

import torch
from torch import Tensor

from remp.methods.maths.item_space import inner_products, normalised_products
from remp.methods.maths.whole_episode import joined
from remp.rectification.number_range import to_double
from remp.rectification.similarity import unit


def cl2n(features: Tensor, base_mean: Tensor | None) -> Tensor:
    """(…, d) -> (…, d). base_mean: (d,) mean feature of the training classes, or None for no centring."""
    return unit(_centred(features, base_mean))


def cl2n_products(support: Tensor, query: Tensor, base_mean: Tensor | None) -> Tensor:
    """Inner products of `cl2n` features, support first: (E, S, d), (E, Q, d) -> (E, S + Q, S + Q), at least float32.

    The products are normalised instead of the features: an episode has fewer items than a feature has numbers, so this
    saves several passes over far more memory.
    """
    dtype = torch.promote_types(query.dtype, torch.float32)
    items = _centred(joined(support, query).to(dtype), base_mean)
    products = inner_products(items)
    if not products.diagonal(dim1=-2, dim2=-1).isfinite().all():
        products = inner_products(to_double(items))
    return normalised_products(products).to(dtype)


def _centred(features: Tensor, base_mean: Tensor | None) -> Tensor:
    return features if base_mean is None else features - base_mean.to(features)
