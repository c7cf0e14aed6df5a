"""Mixtures of round Gaussians whose shares are free: what PADDLE and UNEM iterate."""

import torch
from torch import Tensor

from remp.methods.maths.whole_episode import inner_products, mean_weights, squared_distances
from remp.rectification.similarity import unit

_SMALLEST_SHARE = 1e-6
_SMALLEST_SPREAD = 1e-3  # of unit vectors; below, rounding would be taken for differences


def mixture_scores(items: Tensor, labels: Tensor, scales: Tensor, penalties: Tensor) -> Tensor:
    """Scores (E, N, Q) of the queries after as many updates as there are scales; their softmax over N is the answer.

    An update scores a query for a class by -½ scale · ‖q - w_n‖² + penalty · log(share of the class among the queries),
    the share left out at first, and moves w_n to the mean of the items by these answers and the labels.

    items: (E, S + Q, d), support first. labels: of the support, one-hot (E, N, S). scales, penalties: (steps,).
    """
    products, n_support = inner_products(items), labels.shape[-1]
    weights, log_shares = mean_weights(labels, items.shape[1]), torch.zeros_like(labels[..., :1])
    scores = log_shares
    for scale, penalty in zip(scales, penalties, strict=True):
        scores = penalty * log_shares - scale / 2 * squared_distances(weights, products)[..., n_support:]
        answers = scores.softmax(-2)
        log_shares = (answers.mean(-1, keepdim=True) + _SMALLEST_SHARE).log()
        weights = mean_weights(torch.cat([labels, answers], dim=-1))
    return scores


def in_spread(items: Tensor, n_support: int) -> Tensor:
    """Unit vectors, centred and divided by the root mean square distance of the queries from their mean: (E, S + Q, d).

    Queries that agree, or a single one, have no spread: they are not divided.
    """
    items = unit(items)
    items = items - items[:, n_support:].mean(1, keepdim=True)
    spread = items[:, n_support:].square().sum(-1).mean(-1).sqrt()  # (E,)
    return items / torch.where(spread < _SMALLEST_SPREAD, 1.0, spread)[:, None, None]
