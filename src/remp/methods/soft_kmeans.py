"""Soft k-means that starts from the labelled images."""

from typing import Any

from torch import Tensor

from remp.episodes import Episodes
from remp.methods.base import Method
from remp.methods.maths.whole_episode import cl2n
from remp.rectification import Rectification
from remp.rectification.rectify import rectify


class SoftKMeans(Method):
    """Ren, Triantafillou, Ravi, Snell, Swersky, Tenenbaum, Larochelle, Zemel: Meta-Learning for Semi-Supervised
    Few-Shot Classification, 2018. https://arxiv.org/abs/1803.00676

    Prototypes start as class means. Each query is then shared among the classes by a softmax over its distances, and
    each prototype becomes the mean of its labelled images and of its shares of the queries; and again.

    Ours differs from the paper: the queries themselves are the unlabelled images, and since the features are not
    trained for it, they are normalised (CL2N), distances are multiplied by `scale` and there are ten steps. The paper
    has `normalise: false`, `scale: 1`, `steps: 1`. It is ReMP's rectification without repulsion and residual.

    steps: updates of the prototypes. scale: inverse temperature of the softmax, factor of the squared distances.
    normalise: features centred on the mean of the training classes where known, with L2 norm 1.
    """

    transductive = True
    frozen = True

    def __init__(self, *args: Any, steps: int = 10, scale: float = 10.0, normalise: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.normalise = normalise
        self.updates = Rectification(layers=steps, scale=scale, repulsion="none", residual=False)

    def logits(self, episodes: Episodes) -> Tensor:
        support, query = episodes.support, episodes.query
        if self.normalise:
            support, query = cl2n(support, self.base_mean), cl2n(query, self.base_mean)
        return rectify(support, episodes.support_labels, query, episodes.n_way, self.updates).logits
