"""BD-CSPN: bias diminishing and cosine-similarity prototypes."""

from typing import Any, Literal

import torch
from torch import Tensor

from remp.checks import check_choice, require_positive
from remp.episodes import Episodes, one_hot_rows
from remp.methods.base import Method
from remp.methods.maths.whole_episode import cl2n_products, mean_weights, squared_distances

Metric = Literal["cosine", "euclidean"]
Weighting = Literal["across-classes", "within-class"]


class BDCSPN(Method):
    """Liu, Song, Qin: Prototype Rectification for Few-Shot Learning, 2020. https://arxiv.org/abs/1911.10713

    All queries are shifted by one vector, so that their mean is that of the support. Each query then counts for the
    class whose mean is nearest by cosine, and each prototype becomes a mean of its labelled images and its queries,
    weighted by how near they are.

    There is no code of the authors, and later implementations read the weights differently. Ours by default: the
    preference for its class over the others (as in LaplacianShot's code, but with weights that sum to 1). easyfsl's is
    `weighting: within-class, scale: 1`; the paper's seems to be `within-class` with scale 10, under which a single
    labelled image outweighs all of its queries. Labelled images keep their labels.

    scale: factor of the cosines, ε of the paper. shift: whether queries are shifted. weighting: an item's weight is its
    closeness to its class relative to its closeness to other classes, "across-classes", or to that of other items of
    the class, "within-class". relabel_support: labelled images too count for the class nearest to them. similarity: of
    queries and completed prototypes. match_shifted: whether it is the shifted queries that are matched.
    """

    transductive = True
    assumes_balance = True  # equal means of support and queries: classes equally frequent in both
    frozen = True

    def __init__(
        self,
        *args: Any,
        scale: float = 10.0,
        shift: bool = True,
        weighting: Weighting = "across-classes",
        relabel_support: bool = False,
        similarity: Metric = "cosine",
        match_shifted: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        check_choice("weighting", weighting, Weighting)
        check_choice("similarity", similarity, Metric)
        require_positive(scale=scale)
        self.scale, self.shift, self.weighting, self.relabel_support = scale, shift, weighting, relabel_support
        self.similarity, self.match_shifted = similarity, match_shifted

    def logits(self, episodes: Episodes) -> Tensor:
        n_support = episodes.support.shape[1]
        unshifted = cl2n_products(episodes.support, episodes.query, self.base_mean)
        products = shift_queries(unshifted, n_support) if self.shift else unshifted
        weights = completed_weights(
            products,
            episodes.support_labels,
            episodes.n_way,
            scale=self.scale,
            weighting=self.weighting,
            relabel_support=self.relabel_support,
        )
        if self.shift and not self.match_shifted:
            products, weights = unshifted, in_unshifted_items(weights, n_support)
        if self.similarity == "cosine":
            similarities = cosines(weights, products)
        else:
            similarities = -squared_distances(weights, products)
        return self.scale * similarities[..., n_support:].transpose(-1, -2).to(episodes.query.dtype)


# Items have norm 1 and rounding leaves about 1e-7 of a square: a prototype with a smaller one has no direction.
_SMALLEST_SQUARE = 1e-12


def shift_queries(products: Tensor, n_support: int) -> Tensor:
    """Inner products after every query moved by ξ = mean of the support - mean of the queries."""
    shift = _shift(products, n_support)
    along = products @ shift  # (E, n): ξ · x_i
    moved = (shift < 0).to(products.dtype).expand_as(along)  # 1 for queries
    # (x_i + m_i ξ) · (x_j + m_j ξ) = x_i · x_j + m_i h_j + h_i m_j, with h = ξ · x + m ‖ξ‖² / 2.
    half = along + moved * (along @ shift).unsqueeze(-1) / 2
    return torch.baddbmm(products, torch.stack([moved, half], dim=-1), torch.stack([half, moved], dim=-2))


def in_unshifted_items(weights: Tensor, n_support: int) -> Tensor:
    """The same points as weights (E, N, n) of the items before `shift_queries`."""
    return weights + weights[..., n_support:].sum(-1, keepdim=True) * _shift(weights, n_support)


def completed_weights(
    products: Tensor,
    support_labels: Tensor,
    n_way: int,
    *,
    scale: float = 10.0,
    weighting: Weighting = "across-classes",
    relabel_support: bool = False,
) -> Tensor:
    """Prototypes completed with the queries nearest to them by cosine: weights (E, N, n) of all items.

    "across-classes": an item weighs as much as it prefers its class to the others, by a softmax of scale · cosine over
    the means of all classes. "within-class": it weighs exp(scale · cosine with the mean of its class), so that labelled
    items, which are part of that mean, weigh most. Either way the weights of a class sum to 1.
    relabel_support: labelled items too count for the class nearest to them.
    """
    labelled = one_hot_rows(support_labels, n_way, products.dtype)  # (E, N, S)
    means = mean_weights(labelled, products.shape[-1])
    scores = cosines(means, products)  # (E, N, n)
    belongs = scores == scores.amax(-2, keepdim=True)  # equally near to two: to both
    if not relabel_support:
        belongs = torch.cat([labelled.bool(), belongs[..., labelled.shape[-1] :]], dim=-1)
    log_weights = scale * scores if weighting == "within-class" else (scale * scores).log_softmax(-2)
    weights = log_weights.masked_fill(~belongs, torch.finfo(scores.dtype).min).softmax(-1)
    return torch.where(belongs.any(-1, keepdim=True), weights, means)


def cosines(weights: Tensor, products: Tensor) -> Tensor:
    """Between prototypes and items: weights (E, N, n), inner products (E, n, n) -> (E, N, n)."""
    crossed = weights @ products
    squares = (weights * crossed).sum(-1, keepdim=True)  # (E, N, 1)
    item_squares = products.diagonal(dim1=-2, dim2=-1).unsqueeze(-2)  # (E, 1, n)
    return crossed * (squares.clamp(min=_SMALLEST_SQUARE) * item_squares.clamp(min=_SMALLEST_SQUARE)).rsqrt()


def _shift(like: Tensor, n_support: int) -> Tensor:
    """ξ as weights (n,) of the items: 1/S for support, -1/Q for queries."""
    n_query = like.shape[-1] - n_support
    return torch.cat([like.new_full((n_support,), 1 / n_support), like.new_full((n_query,), -1 / max(n_query, 1))])
