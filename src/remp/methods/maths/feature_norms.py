"""What methods do to features first: CL2N and its inner products, the power transform, centring."""

import torch
from torch import Tensor

from remp.methods.maths.whole_episode import inner_products, joined, normalised_products
from remp.rectification.number_range import to_double
from remp.rectification.similarity import unit

_OFFSET = 1e-6


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
