"""Prototypical Networks."""

from typing import Any

from torch import Tensor

from remp.checks import require_positive
from remp.episodes import Episodes
from remp.methods.base import Method
from remp.rectification.rectify import class_means
from remp.rectification.similarity import nearness


class ProtoNet(Method):
    """Snell, Swersky, Zemel: Prototypical Networks for Few-shot Learning, 2017. https://arxiv.org/abs/1703.05175

    A class is the mean of the features of its labelled images, its prototype. A query belongs to the nearest
    prototype by squared Euclidean distance.

    scale: factor of the distances, 1 in the paper. A smaller one keeps the softmax from saturating at the start of
    training on long features; which class is nearest does not depend on it.
    """

    frozen = True

    def __init__(self, *args: Any, scale: float = 1.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        require_positive(scale=scale)
        self.scale = scale

    def logits(self, episodes: Episodes) -> Tensor:
        prototypes = class_means(episodes.support, episodes.support_labels, episodes.n_way)
        return self.scale * nearness(episodes.query, prototypes)  # ‖query‖², which all classes share, is left out
