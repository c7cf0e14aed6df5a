"""PT-MAP: power transform, then prototypes and balanced assignments in turn."""

from typing import Any

import torch
from torch import Tensor

from remp.checks import require_at_least, require_positive, require_share
from remp.episodes import Episodes, one_hot_rows
from remp.methods.base import Method
from remp.methods.maths.sinkhorn import Plan, balanced
from remp.methods.maths.whole_episode import (
    centred,
    inner_products,
    mean_weights,
    normalised_products,
    power_transform,
    squared_distances,
    stacked,
)
from remp.rectification.number_range import TINY
from remp.rectification.similarity import unit


class PTMAP(Method):
    """Hu, Gripon, Pateux: Leveraging the Feature Distribution in Transfer-based Few-Shot Learning, 2021.
    https://arxiv.org/abs/2006.03806

    The square root makes features after a ReLU more Gaussian; support and queries are then each centred and brought to
    the unit sphere. Queries are shared out so that every class gets equally many, at the least total squared distance
    to the prototypes plus an entropy (Sinkhorn). Each prototype goes part of the way to the mean of what its class got.

    Ours differs from the public code in that a negative feature keeps its sign under the power, prototypes are kept as
    weights of the items (the same, without the dimension), and Sinkhorn starts from the plan before and stops for each
    task by itself. easyfsl's variant: `centre: false, steps: 10`.

    exponent: of the power transform, 1 for none. centre: subtract means. steps, step_size: updates of the prototypes
    and the share of the way. sharpness: factor of the squared distances in Sinkhorn. tolerance: by how much a class
    may miss its share of the queries.
    """

    transductive = True
    assumes_balance = True
    frozen = True
    trainable = False

    def __init__(
        self,
        *args: Any,
        exponent: float = 0.5,
        centre: bool = True,
        steps: int = 20,
        step_size: float = 0.2,
        sharpness: float = 10.0,
        tolerance: float = 1e-6,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        require_at_least(0, steps=steps)
        require_positive(exponent=exponent, sharpness=sharpness, tolerance=tolerance)
        require_share(step_size=step_size)
        self.exponent, self.centre, self.sharpness = exponent, centre, sharpness
        self.steps, self.step_size, self.tolerance = steps, step_size, tolerance

    def logits(self, episodes: Episodes) -> Tensor:
        products = self._products(stacked(episodes), episodes.support.shape[1])
        labels = one_hot_rows(episodes.support_labels, episodes.n_way, products.dtype)  # (E, N, S)
        weights, plan = mean_weights(labels, products.shape[-1]), None
        for _ in range(self.steps):
            plan = self._assign(weights, products, labels.shape[-1], plan)
            target = mean_weights(torch.cat([labels, plan.matrix], dim=-1))
            weights = torch.lerp(weights, target, self.step_size)
        plan = self._assign(weights, products, labels.shape[-1], plan)
        return plan.matrix.clamp(min=TINY).log().to(episodes.query.dtype).transpose(-1, -2)

    def _products(self, features: Tensor, n_support: int) -> Tensor:
        """Inner products (E, n, n) of the prepared items, from here on in double precision: steps and plans magnify
        what the order of a sum changes."""
        items = unit(power_transform(features, self.exponent))
        if self.centre:
            items = torch.cat([centred(items[:, :n_support]), centred(items[:, n_support:])], dim=1)
        return normalised_products(inner_products(items).double())

    def _assign(self, weights: Tensor, products: Tensor, n_support: int, before: Plan | None) -> Plan:
        """Queries shared out evenly, (E, N, Q)."""
        distances = squared_distances(weights, products)[..., n_support:]
        return balanced(-self.sharpness * distances, tolerance=self.tolerance, start=before)
