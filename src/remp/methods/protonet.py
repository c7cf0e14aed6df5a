"""Prototypical Networks."""

from typing import ClassVar

from torch import Tensor

from remp.episodes import Episodes
from remp.methods.base import Method
from remp.rectification import class_means
from remp.similarity import negative_squared_distance


class ProtoNet(Method):
    """Snell, Swersky, Zemel: Prototypical Networks for Few-shot Learning, 2017. https://arxiv.org/abs/1703.05175

    A class is the mean of the features of its labelled images, its prototype. A query belongs to the nearest
    prototype by squared Euclidean distance.
    """

    frozen: ClassVar[bool] = True

    def logits(self, episodes: Episodes) -> Tensor:
        prototypes = class_means(episodes.support, episodes.support_labels, episodes.n_way)
        return negative_squared_distance(episodes.query, prototypes)
