"""Alpha-TIM: information maximisation for queries of unequal class frequencies."""

from typing import Any, ClassVar

from torch import Tensor

from remp.checks import require_at_least, require_positive
from remp.episodes import Episodes
from remp.methods.base import Method
from remp.methods.maths.mutual_information import InformationLoss
from remp.methods.tim import descend

_MANY_SHOTS = 5


class AlphaTIM(Method):
    """Veilleux, Boudiaf, Piantanida, Ben Ayed: Realistic Evaluation of Transductive Few-Shot Learning, 2021.
    https://arxiv.org/abs/2204.11181

    TIM wants the classes equally frequent among the queries: the slope of Shannon's entropy grows without bound as a
    class gets rare. Here both entropies of the queries are those of Tsallis, whose slope is bounded for alpha > 1, so
    that even class shares are preferred but not forced.

    The public code tunes alpha by shots on validation classes; both of its values are kept here: `alpha_few` below 5
    labelled images per class in the mean, `alpha_many` from 5 on.

    alpha_few, alpha_many: alpha of the entropies with few and with many labelled images. cross_entropy, marginal,
    conditional: weights of the three terms. temperature: of the softmax, of half the squared distance.
    steps, step_size: of Adam.
    """

    transductive: ClassVar[bool] = True
    frozen: ClassVar[bool] = True

    def __init__(
        self,
        *args: Any,
        alpha_few: float = 2.0,
        alpha_many: float = 7.0,
        cross_entropy: float = 1.0,
        marginal: float = 1.0,
        conditional: float = 1.0,
        temperature: float = 15.0,
        steps: int = 1000,
        step_size: float = 1e-4,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        require_at_least(0, steps=steps)
        require_positive(step_size=step_size)
        self.few = InformationLoss(cross_entropy, marginal, conditional, temperature, alpha_few)
        self.many = InformationLoss(cross_entropy, marginal, conditional, temperature, alpha_many)
        self.steps, self.step_size = steps, step_size

    def logits(self, episodes: Episodes) -> Tensor:
        shots = episodes.support.shape[1] / episodes.n_way
        information = self.many if shots >= _MANY_SHOTS else self.few
        return descend(episodes, information, steps=self.steps, step_size=self.step_size)
