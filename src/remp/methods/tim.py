"""Transductive information maximisation, by gradient descent and by alternating directions."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from remp.checks import require_at_least, require_positive, require_share
from remp.episodes import Episodes, one_hot_rows
from remp.methods.base import Method
from remp.methods.maths.whole_episode import inner_products, mean_weights, squared_distances, stacked
from remp.rectification.number_range import TINY
from remp.rectification.rectify import class_means
from remp.rectification.similarity import negative_squared_distance, unit

# Logarithms of probabilities are cut here: far below all that counts, far above what exp can still hold.
_LOWEST_LOG = -60.0
_FIRST_DECAY, _SECOND_DECAY, _EPSILON = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class InformationLoss:
    """cross_entropy · CE(support) - marginal · H(mean of p over queries) + conditional · mean over queries of H(p).

    p = softmax over classes of -temperature/2 · ‖z - w_n‖². H is Shannon's entropy for alpha = 1, otherwise that of
    Tsallis, (1 - Σ p^alpha) / (alpha - 1).
    """

    cross_entropy: float
    marginal: float
    conditional: float
    temperature: float
    alpha: float = 1.0

    def __post_init__(self) -> None:
        weights = {"marginal": self.marginal, "conditional": self.conditional}
        require_at_least(0, cross_entropy=self.cross_entropy, **weights)
        require_positive(temperature=self.temperature, alpha=self.alpha)

    def gradient(self, prototypes: Tensor, items: Tensor, labels: Tensor) -> Tensor:
        """Slope in the prototypes (E, N, d). items: (E, S + Q, d), support first; labels: its one-hot (E, N, S)."""
        slopes = self.slopes(self.logits(prototypes, items), labels)  # (E, N, S + Q)
        return self.temperature * (slopes @ items - slopes.sum(-1, keepdim=True) * prototypes)

    def logits(self, prototypes: Tensor, items: Tensor) -> Tensor:
        """(E, N, d), (E, n, d) -> (E, N, n), up to ‖z‖², which is the same for all classes."""
        squares = prototypes.square().sum(-1, keepdim=True)
        return self.temperature * (prototypes @ items.transpose(-1, -2) - squares / 2)

    def slopes(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Slope of the loss in each logit: (E, N, S + Q), (E, N, S) -> (E, N, S + Q)."""
        logs = logits.log_softmax(-2).clamp(min=_LOWEST_LOG)
        n_support = labels.shape[-1]
        support = (logs[..., :n_support].exp() - labels) * (self.cross_entropy / n_support)
        return torch.cat([support, self._query_slopes(logs[..., n_support:])], dim=-1)

    def _query_slopes(self, logs: Tensor) -> Tensor:
        """From the logarithms of the queries' probabilities, (E, N, Q) -> (E, N, Q)."""
        probabilities = logs.exp()
        marginal_logs = probabilities.mean(-1, keepdim=True).log()
        pull = self.conditional * self._entropy_slope(logs) - self.marginal * self._entropy_slope(marginal_logs)
        mean_pull = (probabilities * pull).sum(-2, keepdim=True)
        return probabilities * (pull - mean_pull) / logs.shape[-1]

    def _entropy_slope(self, logs: Tensor) -> Tensor:
        """dH/dp at p = exp(logs), up to a constant, which a softmax does not see."""
        if self.alpha == 1:
            return -logs
        return (self.alpha / (1 - self.alpha)) * ((self.alpha - 1) * logs).exp()


def adam(start: Tensor, gradient: Callable[[Tensor], Tensor], *, steps: int, step_size: float) -> Tensor:
    """Where `steps` steps of Adam lead from `start`. gradient: values -> slope of the loss in each of them."""
    values = start.clone()
    first, second = torch.zeros_like(values), torch.zeros_like(values)
    for step in range(1, steps + 1):
        slope = gradient(values)
        first.lerp_(slope, 1 - _FIRST_DECAY)
        second.mul_(_SECOND_DECAY).addcmul_(slope, slope, value=1 - _SECOND_DECAY)
        size = second.sqrt().div_((1 - _SECOND_DECAY**step) ** 0.5).add_(_EPSILON)
        values.addcdiv_(first, size, value=-step_size / (1 - _FIRST_DECAY**step))
    return values


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

    transductive = True
    assumes_balance = True
    frozen = True
    trainable = False

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

    def information_for(self, episodes: Episodes) -> InformationLoss:
        """What is minimised for these tasks."""
        return self.information

    def logits(self, episodes: Episodes) -> Tensor:
        information, n_support = self.information_for(episodes), episodes.support.shape[1]
        items = unit(stacked(episodes))
        labels = one_hot_rows(episodes.support_labels, episodes.n_way, items.dtype)
        start = class_means(items[:, :n_support], episodes.support_labels, episodes.n_way)
        slope = partial(information.gradient, items=items, labels=labels)
        prototypes = adam(start, slope, steps=self.steps, step_size=self.step_size)
        return information.temperature / 2 * negative_squared_distance(items[:, n_support:], prototypes)


class TIMADM(Method):
    """The same paper's second solver: alternating directions, a hundred times as fast.

    Each query gets a target: its probabilities, sharpened, and divided by how often each class is predicted. Each
    prototype then moves in one closed-form step towards the items whose target exceeds their probability.

    Ours differs from the public code in that prototypes are kept as weights of the items, which is the same and
    independent of the dimension.

    cross_entropy, marginal, conditional: weights of the three terms. temperature: of the softmax, of half the squared
    distance. steps: updates. step_size: share of the way to the closed-form solution.
    """

    transductive = True
    assumes_balance = True
    frozen = True

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
        n_support, n_query = episodes.support.shape[1], episodes.query.shape[1]
        importance = items.new_full((n_support + n_query,), self.support_weight)  # of each item in the solution
        importance[n_support:] = n_support / n_query
        weights = mean_weights(labels, items.shape[1])
        for _ in range(self.steps):
            logs = self._log_probabilities(weights, products)
            targets = torch.cat([labels, self._query_targets(logs[..., n_support:])], dim=-1)
            weights = torch.lerp(weights, _solution(weights, logs.exp(), targets, importance), self.step_size)
        return self._log_probabilities(weights, products)[..., n_support:].transpose(-1, -2)

    def _log_probabilities(self, weights: Tensor, products: Tensor) -> Tensor:
        return (-self.temperature / 2 * squared_distances(weights, products)).log_softmax(-2)

    def _query_targets(self, logs: Tensor) -> Tensor:
        """q ∝ p^sharpness / (Σ over queries of p^sharpness)^evenness, normalised over classes: (E, N, Q)."""
        sharpened = self.sharpness * logs
        return (sharpened - self.evenness * sharpened.logsumexp(-1, keepdim=True)).softmax(-2)


def _solution(weights: Tensor, probabilities: Tensor, targets: Tensor, importance: Tensor) -> Tensor:
    """The closed-form prototypes, as weights of the items (E, N, n)."""
    own = (probabilities * importance).sum(-1, keepdim=True)
    total = (targets * importance).sum(-1, keepdim=True).clamp(min=TINY)
    return ((targets - probabilities) * importance + own * weights) / total


_MANY_SHOTS = 5


class AlphaTIM(TIMGD):
    """Veilleux, Boudiaf, Piantanida, Ben Ayed: Realistic Evaluation of Transductive Few-Shot Learning, 2021.
    https://arxiv.org/abs/2204.11181

    TIM wants the classes equally frequent among the queries: the slope of Shannon's entropy grows without bound as a
    class gets rare. Here both entropies of the queries are those of Tsallis, whose slope is bounded for alpha > 1, so
    that even class shares are preferred but not forced.

    The public code tunes alpha by shots on validation classes; both of its values are kept here: `alpha_few` below 5
    labelled images per class in the mean, `alpha_many` from 5 on.

    alpha_few, alpha_many: alpha of the entropies with few and with many labelled images.
    """

    assumes_balance = False

    def __init__(
        self,
        *args: Any,
        alpha_few: float = 2.0,
        alpha_many: float = 7.0,
        cross_entropy: float = 1.0,
        marginal: float = 1.0,
        conditional: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, cross_entropy=cross_entropy, marginal=marginal, conditional=conditional, **kwargs)
        self.few, self.many = (replace(self.information, alpha=alpha) for alpha in (alpha_few, alpha_many))

    def information_for(self, episodes: Episodes) -> InformationLoss:
        return self.many if episodes.support.shape[1] / episodes.n_way >= _MANY_SHOTS else self.few
