"""Transductive information maximisation, by gradient descent and by alternating directions."""

from typing import Any, ClassVar

import torch
from torch import Tensor

from remp.checks import require_at_least, require_positive, require_share
from remp.episodes import Episodes, one_hot_rows
from remp.methods.base import Method
from remp.methods.maths.mutual_information import InformationLoss, adam
from remp.methods.maths.whole_episode import inner_products, mean_weights, squared_distances, stacked
from remp.rectification.number_range import TINY
from remp.rectification.rectify import class_means
from remp.rectification.similarity import negative_squared_distance, unit


class TIMGD(Method):
    """Boudiaf, Masud, Rony, Dolz, Piantanida, Ben Ayed: Transductive Information Maximization for Few-Shot Learning,
    2020. https://arxiv.org/abs/2008.11297

    The prototypes of a softmax classifier are moved until its answers are confident for each query, spread over all
    classes in the mean of the queries, and right on the support. That is: the mutual information of queries and their
    labels is made large. Features have L2 norm 1.

    Ours differs from the public code in nothing but that the gradient is written out, and each task is a problem of its
    own.

    cross_entropy, marginal, conditional: weights of the three terms. temperature: of the softmax, of half the
    squared distance. steps, step_size: of Adam.
    """

    transductive: ClassVar[bool] = True
    assumes_balance: ClassVar[bool] = True
    frozen: ClassVar[bool] = True

    def __init__(
        self,
        *args: Any,
        cross_entropy: float = 0.1,
        marginal: float = 1.0,
        conditional: float = 0.1,
        temperature: float = 15.0,
        steps: int = 1000,
        step_size: float = 1e-4,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        require_at_least(0, steps=steps)
        require_positive(step_size=step_size)
        self.information = InformationLoss(cross_entropy, marginal, conditional, temperature)
        self.steps, self.step_size = steps, step_size

    def logits(self, episodes: Episodes) -> Tensor:
        return descend(episodes, self.information, steps=self.steps, step_size=self.step_size)


class TIMADM(Method):
    """The same paper's second solver: alternating directions, a hundred times as fast.

    Each query gets a target: its probabilities, sharpened, and divided by how often each class is predicted. Each
    prototype then moves in one closed-form step towards the items whose target exceeds their probability.

    Ours differs from the public code in that prototypes are kept as weights of the items, which is the same and
    independent of the dimension.

    cross_entropy, marginal, conditional: weights of the three terms. temperature: of the softmax, of half the squared
    distance. steps: updates. step_size: share of the way to the closed-form solution.
    """

    transductive: ClassVar[bool] = True
    assumes_balance: ClassVar[bool] = True
    frozen: ClassVar[bool] = True

    def __init__(
        self,
        *args: Any,
        cross_entropy: float = 0.1,
        marginal: float = 1.0,
        conditional: float = 0.1,
        temperature: float = 15.0,
        steps: int = 150,
        step_size: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        require_at_least(0, marginal=marginal, conditional=conditional, steps=steps)
        require_positive(cross_entropy=cross_entropy, temperature=temperature)
        require_share(step_size=step_size)
        self.sharpness, self.evenness = 1 + conditional, marginal / (1 + marginal)
        self.support_weight = cross_entropy / (1 + conditional)
        self.temperature, self.steps, self.step_size = temperature, steps, step_size

    def logits(self, episodes: Episodes) -> Tensor:
        items = unit(stacked(episodes))
        products = inner_products(items)
        labels = one_hot_rows(episodes.support_labels, episodes.n_way, items.dtype)  # (E, N, S)
        importance = self._importance(episodes, items)
        weights = mean_weights(labels, items.shape[1])
        for _ in range(self.steps):
            logs = self._log_probabilities(weights, products)
            targets = torch.cat([labels, self._query_targets(logs[..., labels.shape[-1] :])], dim=-1)
            weights = torch.lerp(weights, _solution(weights, logs.exp(), targets, importance), self.step_size)
        return self._log_probabilities(weights, products)[..., labels.shape[-1] :].transpose(-1, -2)

    def _importance(self, episodes: Episodes, items: Tensor) -> Tensor:
        """Weight of each item in the solution, (S + Q,)."""
        n_support, n_query = episodes.support.shape[1], episodes.query.shape[1]
        weights = items.new_full((n_support + n_query,), self.support_weight)
        weights[n_support:] = n_support / n_query
        return weights

    def _log_probabilities(self, weights: Tensor, products: Tensor) -> Tensor:
        return (-self.temperature / 2 * squared_distances(weights, products)).log_softmax(-2)

    def _query_targets(self, logs: Tensor) -> Tensor:
        """q ∝ p^sharpness / (Σ over queries of p^sharpness)^evenness, normalised over classes: (E, N, Q)."""
        sharpened = self.sharpness * logs
        return (sharpened - self.evenness * sharpened.logsumexp(-1, keepdim=True)).softmax(-2)


def descend(episodes: Episodes, information: InformationLoss, *, steps: int, step_size: float) -> Tensor:
    """Adam on the prototypes, from the class means: episodes of features -> logits (E, Q, N)."""
    items, n_support = unit(stacked(episodes)), episodes.support.shape[1]
    labels = one_hot_rows(episodes.support_labels, episodes.n_way, items.dtype)
    start = class_means(items[:, :n_support], episodes.support_labels, episodes.n_way)
    prototypes = adam(start, lambda at: information.gradient(at, items, labels), steps=steps, step_size=step_size)
    return information.temperature / 2 * negative_squared_distance(items[:, n_support:], prototypes)


def _solution(weights: Tensor, probabilities: Tensor, targets: Tensor, importance: Tensor) -> Tensor:
    """The closed-form prototypes, as weights of the items (E, N, n)."""
    own = (probabilities * importance).sum(-1, keepdim=True)
    total = (targets * importance).sum(-1, keepdim=True).clamp(min=TINY)
    return ((targets - probabilities) * importance + own * weights) / total
