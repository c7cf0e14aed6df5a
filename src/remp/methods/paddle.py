"""PADDLE: soft k-means that leaves classes empty when the queries do not speak for them."""

from typing import Any, Literal

import torch
from torch import Tensor

from remp.checks import check_choice, require_at_least, require_positive
from remp.episodes import Episodes, one_hot_rows
from remp.methods.base import Method
from remp.methods.maths.whole_episode import inner_products, mean_weights, squared_distances, stacked
from remp.rectification.number_range import TINY, in_safe_range, to_dtype
from remp.rectification.similarity import unit

Normalisation = Literal["spread", "range"]
_SMALLEST_SHARE = 1e-6
_SMALLEST_SPREAD = 1e-3  # of unit vectors; below, rounding would be taken for differences


class PADDLE(Method):
    """Martin, Boudiaf, Chouzenoux, Pesquet, Ben Ayed: Towards Practical Few-Shot Query Sets: Transductive Minimum
    Description Length Inference, 2022. https://arxiv.org/abs/2210.14545

    Soft k-means from the class means, in which each class also costs description length: the score of a class gets the
    logarithm of its present share of the queries, so that rare classes fade. Made for many classes of which few occur
    among the queries; it takes nothing for granted about how frequent they are.

    Ours differs from the public code, which divides each dimension by its range over the queries and takes distances as
    they come. Where classes are nearer to each other than the width 1 of its softmax, the logarithm then decides, and
    the largest class takes all: near chance on CIFAR-FS. Here features have L2 norm 1, distances are in units of the
    spread of the queries, and `scale` was chosen on validation classes. The public code has `normalisation: range` and
    `scale: 1`.

    steps: updates. penalty: weight of the logarithm of the share, the paper's λ / |Q| with λ = |Q|; 0 is soft k-means.
    scale: factor of the squared distances. normalisation: L2 norm 1, then the "spread" of the queries as the unit; or
    their "range" in each dimension.
    """

    transductive = True
    frozen = True

    def __init__(
        self,
        *args: Any,
        steps: int = 100,
        penalty: float = 1.0,
        scale: float = 50.0,
        normalisation: Normalisation = "spread",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        require_at_least(1, steps=steps)
        require_at_least(0, penalty=penalty)
        require_positive(scale=scale)
        check_choice("normalisation", normalisation, Normalisation)
        self.steps, self.penalty, self.scale, self.normalisation = steps, penalty, scale, normalisation

    def logits(self, episodes: Episodes) -> Tensor:
        features, n_support = stacked(episodes), episodes.support.shape[1]
        items = (in_spread if self.normalisation == "spread" else _in_range)(features, n_support)
        labels = one_hot_rows(episodes.support_labels, episodes.n_way, items.dtype)  # (E, N, S)
        scales, penalties = (items.new_full((self.steps,), value) for value in (self.scale, self.penalty))
        scores = mixture_scores(items, labels, scales, penalties)
        return to_dtype(scores.log_softmax(-2), features.dtype).transpose(-1, -2)


def mixture_scores(items: Tensor, labels: Tensor, scales: Tensor, penalties: Tensor) -> Tensor:
    """Scores (E, N, Q) of the queries after as many updates as there are scales; their softmax over N is the answer.

    A mixture of round Gaussians whose shares are free. An update scores a query for a class by
    -½ scale · ‖q - w_n‖² + penalty · log(share of the class among the queries), the share left out at first, and moves
    w_n to the mean of the items by these answers and the labels.

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


def _in_range(items: Tensor, n_support: int) -> Tensor:
    """Each dimension centred and divided by its range over the queries (1 where they agree): (E, S + Q, d).

    The public code subtracts the minimum without dividing it; only differences of features count, so this changes
    nothing, and to subtract the mean is best for rounding.
    """
    (items,) = in_safe_range(items)
    query = items[:, n_support:]
    spread = query.amax(1, keepdim=True) - query.amin(1, keepdim=True)
    scaled = (items - query.mean(1, keepdim=True)) / torch.where(spread < TINY, 1.0, spread)
    return in_safe_range(scaled)[0]
