"""BD-CSPN: bias diminishing and cosine-similarity prototypes."""

from typing import Any, ClassVar, Literal

from torch import Tensor

from remp.checks import check_choice, require_positive
from remp.episodes import Episodes
from remp.methods.base import Method
from remp.methods.maths.bias_diminishing import Weighting, completed_weights, cosines, in_unshifted_items, shift_queries
from remp.methods.maths.feature_norms import cl2n_products
from remp.methods.maths.whole_episode import squared_distances

Metric = Literal["cosine", "euclidean"]


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

    transductive: ClassVar[bool] = True
    assumes_balance: ClassVar[bool] = True  # equal means of support and queries: classes equally frequent in both
    frozen: ClassVar[bool] = True

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
