"""LaplacianShot."""

import math
from typing import Any

import torch
from torch import Tensor

from remp.checks import require_at_least
from remp.episodes import Episodes, one_hot_rows
from remp.methods.base import Method
from remp.methods.bd_cspn import completed_weights, shift_queries
from remp.methods.maths.whole_episode import cl2n_products, mean_weights, squared_distances


class LaplacianShot(Method):
    """Ziko, Dolz, Granger, Ben Ayed: Laplacian Regularized Few-Shot Learning, 2020. https://arxiv.org/abs/2006.15486

    A query should be near the prototype of its class, and neighbouring queries should be of the same class. Both are
    one energy, and each step lowers a bound of it in closed form: a softmax of minus the distances plus what the
    neighbours say.

    Ours differs from the public code: prototypes are completed by our reading of BD-CSPN (labelled images keep their
    labels, weights sum to 1), and every task stops on its own, its energy taken in float64.

    knn: neighbours of a query, itself included, as in the paper: 3 makes 2. laplacian_weight: λ, how much the
    neighbours count; None for one that follows the number of shots, see `weight_by_shot`. rectify: whether queries are
    shifted and prototypes completed as in BD-CSPN. steps: updates at most. tolerance: a task stops once its energy
    changes by a smaller share, from the third update on.
    """

    transductive = True
    assumes_balance = True  # through the shift of BD-CSPN only
    frozen = True

    def __init__(
        self,
        *args: Any,
        knn: int = 3,
        laplacian_weight: float | None = None,
        rectify: bool = True,
        steps: int = 20,
        tolerance: float = 1e-6,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        require_at_least(0, laplacian_weight=laplacian_weight or 0.0, steps=steps, tolerance=tolerance)
        require_at_least(1, knn=knn)
        self.knn, self.laplacian_weight, self.rectify = knn, laplacian_weight, rectify
        self.steps, self.tolerance = steps, tolerance

    def logits(self, episodes: Episodes) -> Tensor:
        n_support, labels, n_way = episodes.support.shape[1], episodes.support_labels, episodes.n_way
        products = cl2n_products(episodes.support, episodes.query, self.base_mean)
        neighbours = nearest_others(products[:, n_support:, n_support:], self.knn - 1)
        if self.rectify:
            products = shift_queries(products, n_support)
            weights = completed_weights(products, labels, n_way)
        else:
            weights = mean_weights(one_hot_rows(labels, n_way, products.dtype), products.shape[-1])
        distances = squared_distances(weights, products)[..., n_support:]  # (E, N, Q)
        weight = weight_by_shot(n_support / n_way) if self.laplacian_weight is None else self.laplacian_weight
        return self._smoothed(distances.double(), neighbours, weight).transpose(-1, -2).to(episodes.query.dtype)

    def _smoothed(self, distances: Tensor, neighbours: Tensor, weight: float) -> Tensor:
        """Logits (E, N, Q) that agree with the neighbours. distances: (E, N, Q); neighbours: (E, k, Q)."""
        logits = -distances
        agreement = weight * _sum_over(neighbours, logits.softmax(1))
        running = torch.ones(len(distances), 1, 1, dtype=torch.bool, device=distances.device)
        energy = distances.new_full(running.shape, torch.inf)
        for step in range(self.steps):
            updated = agreement - distances
            logits = updated if running.all() else torch.where(running, updated, logits)
            log_shares = updated.log_softmax(1)
            shares = log_shares.exp()
            agreement = weight * _sum_over(neighbours, shares)
            before, energy = energy, (shares * (log_shares + distances - agreement)).sum((1, 2), keepdim=True)
            if step >= 2:
                running = running & ((energy - before).abs() > self.tolerance * before.abs())
                if not running.any():
                    break
        return logits


def weight_by_shot(n_shot: float) -> float:
    """λ for so many labelled images per class, on average: 0.7 for 1 and 0.3 for 5 or more, the values that were found
    on the validation classes of miniImageNet; in between it falls evenly with the logarithm of the shots."""
    return 0.7 - 0.4 * min(max(math.log(n_shot, 5), 0.0), 1.0)


def nearest_others(products: Tensor, k: int) -> Tensor:
    """The k queries nearest to each query, fewer if there are fewer: inner products (E, Q, Q) -> (E, k, Q).

    For the few that are wanted, one maximum after the other takes a fraction of the time of a sort.
    """
    closeness = products.detach() - products.detach().diagonal(dim1=-2, dim2=-1).unsqueeze(-2) / 2
    closeness.diagonal(dim1=-2, dim2=-1).fill_(-torch.inf)
    n_episodes, n_query, _ = closeness.shape
    neighbours = torch.empty(n_episodes, min(k, n_query - 1), n_query, dtype=torch.long, device=closeness.device)
    for i in range(neighbours.shape[1]):
        neighbours[:, i] = nearest = closeness.max(-1).indices
        closeness.scatter_(-1, nearest.unsqueeze(-1), -torch.inf)
    return neighbours


def _sum_over(neighbours: Tensor, shares: Tensor) -> Tensor:
    """For each query the sum of its neighbours' shares: (E, k, Q), (E, N, Q) -> (E, N, Q)."""
    total = torch.zeros_like(shares)
    for index in neighbours.unbind(1):
        total = total + shares.gather(2, index.unsqueeze(1).expand_as(shares))
    return total
