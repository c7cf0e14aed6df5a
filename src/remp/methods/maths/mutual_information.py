"""The loss of TIM, transductive information maximisation: its slope in closed form, and Adam to go down it."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from remp.checks import require_at_least, require_positive

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
