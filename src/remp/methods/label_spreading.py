"""Label spreading on the graph of an episode."""

from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from remp.checks import check_choice, require_at_least, require_below_one, require_positive
from remp.episodes import Episodes, one_hot_rows
from remp.methods.base import Method
from remp.methods.maths.graph import nearest_neighbours, normalise, propagate, without_loops
from remp.methods.maths.whole_episode import cl2n_products

Kernel = Literal["rbf", "knn"]


class LabelSpreading(Method):
    """Zhou, Bousquet, Lal, Weston, Schölkopf: Learning with Local and Global Consistency, 2004.
    https://papers.nips.cc/paper/2506-learning-with-local-and-global-consistency

    Labelled images and queries are the nodes of one graph, near ones joined by strong edges. Labels spread along the
    edges while labelled nodes keep sending out their own. What arrives at a query after infinitely many steps has a
    closed form.

    Ours differs from the paper: features are normalised first (CL2N), and alpha is 0.5, not 0.99: on so few, evenly
    spread nodes the labels of well-connected images would flood the graph.

    kernel: edges of weight exp(-gamma · squared distance) between all, "rbf", or of weight 1 between those of which
    one is among the `neighbours` nearest of the other, "knn". gamma: inverse width of the rbf. neighbours: number of
    the nearest, the node itself not counted. alpha: how much of a node's label comes from its neighbours, between 0
    and 1.
    """

    transductive = True
    frozen = True

    def __init__(
        self,
        *args: Any,
        kernel: Kernel = "rbf",
        gamma: float = 5.0,
        neighbours: int = 7,
        alpha: float = 0.5,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        check_choice("kernel", kernel, Kernel)
        require_positive(gamma=gamma, alpha=alpha)
        require_below_one(alpha=alpha)
        require_at_least(1, neighbours=neighbours)
        self.kernel, self.gamma, self.neighbours, self.alpha = kernel, gamma, neighbours, alpha

    def logits(self, episodes: Episodes) -> Tensor:
        """Logarithms of what arrives at each query, so that a softmax gives its shares."""
        n_support, n_query = episodes.support.shape[1], episodes.query.shape[1]
        products = cl2n_products(episodes.support, episodes.query, self.base_mean)
        known = one_hot_rows(episodes.support_labels, episodes.n_way, products.dtype)  # (E, N, S)
        start = pad(known, (0, n_query)).transpose(-1, -2)  # (E, S + Q, N)
        arrived = propagate(normalise(self._edges(products)), (1 - self.alpha) * start, self.alpha)
        smallest = torch.finfo(arrived.dtype).tiny
        return arrived[:, n_support:].clamp(min=smallest).log().to(episodes.query.dtype)

    def _edges(self, products: Tensor) -> Tensor:
        """Symmetric weights (E, n, n) with a diagonal of zeros, from inner products (E, n, n)."""
        squares = products.diagonal(dim1=-2, dim2=-1)
        distances = (squares.unsqueeze(-1) + squares.unsqueeze(-2) - 2 * products).clamp(min=0)
        if self.kernel == "rbf":
            return without_loops((-self.gamma * distances).exp())
        loops = torch.eye(products.shape[-1], dtype=torch.bool, device=products.device)
        near = nearest_neighbours((-distances).masked_fill(loops, -torch.inf), self.neighbours)
        return without_loops((near | near.transpose(-1, -2)).to(products.dtype))
