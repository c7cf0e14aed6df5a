"""SimpleShot."""

from typing import Any, Literal

from torch import Tensor

from remp.checks import check_choice
from remp.episodes import Episodes
from remp.methods.base import Method
from remp.methods.maths.whole_episode import cl2n
from remp.rectification.rectify import class_means
from remp.rectification.similarity import negative_squared_distance

Variant = Literal["un", "l2n", "cl2n"]


class SimpleShot(Method):
    """Wang, Chao, Weinberger, van der Maaten: SimpleShot: Revisiting Nearest-Neighbor Classification for Few-Shot
    Learning, 2019. https://arxiv.org/abs/1911.04623

    A query belongs to the nearest class mean, as in Prototypical Networks, but features come from any network and
    are simply normalised first. Centring on the mean of the training classes before that removes what all
    images have in common.

    Ours differs from the public code in nothing that changes an answer: logits are minus the squared distance. Where
    the mean of the training classes is not known (`base_mean` is None), CL2N is L2N.

    normalisation: "un" features as they are, "l2n" with L2 norm 1, "cl2n" centred and then with L2 norm 1.
    """

    frozen = True

    def __init__(self, *args: Any, normalisation: Variant = "cl2n", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        check_choice("normalisation", normalisation, Variant)
        self.normalisation = normalisation

    def logits(self, episodes: Episodes) -> Tensor:
        support, query = (self._normalised(items) for items in (episodes.support, episodes.query))
        return negative_squared_distance(query, class_means(support, episodes.support_labels, episodes.n_way))

    def _normalised(self, features: Tensor) -> Tensor:
        if self.normalisation == "un":
            return features
        return cl2n(features, self.base_mean if self.normalisation == "cl2n" else None)


class SimpleShotUN(SimpleShot):
    """SimpleShot on features as they are."""

    def __init__(self, *args: Any, n_classes: int = 0, feature_shape: tuple[int, ...] = ()) -> None:
        super().__init__(*args, n_classes=n_classes, feature_shape=feature_shape, normalisation="un")


class SimpleShotL2N(SimpleShot):
    """SimpleShot on features with L2 norm 1."""

    def __init__(self, *args: Any, n_classes: int = 0, feature_shape: tuple[int, ...] = ()) -> None:
        super().__init__(*args, n_classes=n_classes, feature_shape=feature_shape, normalisation="l2n")
