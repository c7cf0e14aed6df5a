"""DFMN-MCT: confidence-weighted prototypes under a learned metric."""

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remp.episodes import Episodes
from remp.methods.base import Method, cross_entropy
from remp.methods.dense import dense_cross_entropy, positions, query_class_ids
from remp.methods.shapes import map_shape
from remp.ops.weighted_means import means_with_queries
from remp.similarity import negative_squared_distance, unit

# A length scale never gets smaller: distances stay below 4 / SMALLEST_SCALE².
SMALLEST_SCALE = 1e-2


class DFMNMCT(Method):
    """Kye, Lee, Kim, Hwang: Meta-Learned Confidence for Few-shot Learning, 2020. https://arxiv.org/abs/2002.12017

    Maps are scaled to length 1 and divided by a learned length scale, a number for each map. The confidence of a query
    in each class is the softmax of minus its squared distances; queries join the class means with that weight, again
    and again. Training adds a dense classifier: every position of a map is to tell its class among all training ones.

    Ours follows the first version of the paper and its code, without the views (mirrored images, third block) over
    which that averages confidences. The convolution of the length scale is padded where a map is smaller than 3 x 3.

    updates, train_updates: how often the class means are updated in testing and in training. instance_weight: of the
    loss within the episode, beside 1 for the dense one.
    """

    transductive: ClassVar[bool] = True
    uses_maps: ClassVar[bool] = True

    def __init__(
        self,
        *args: Any,
        updates: int = 10,
        train_updates: int = 1,
        instance_weight: float = 0.2,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.updates, self.train_updates, self.instance_weight = updates, train_updates, instance_weight
        shape = map_shape(self)
        self.length_scale = LengthScale(shape)
        self.class_vectors = nn.Parameter(torch.empty(self.n_classes, shape[0])) if self.n_classes else None
        if self.class_vectors is not None:
            nn.init.xavier_uniform_(self.class_vectors)

    def logits(self, episodes: Episodes) -> Tensor:
        return self._matched(episodes, self.updates)

    def loss(self, episodes: Episodes, progress: float = 0.0) -> dict[str, Tensor]:
        features = episodes.map(self.embed)
        instance = cross_entropy(self._matched(features, self.train_updates), episodes.query_labels)
        return {"dense": self._dense_loss(features), "instance": self.instance_weight * instance}

    def _matched(self, episodes: Episodes, updates: int) -> Tensor:
        """Scores after so many updates of the class means: maps (E, ., width, h, w) -> (E, Q, N)"""
        query = self._scaled(episodes.query)
        weights = query.new_zeros(*query.shape[:2], episodes.n_way)  # at first queries do not count
        for _ in range(updates):
            weights = self._scores(episodes, query, weights).softmax(-1)
        return self._scores(episodes, query, weights)

    def _scores(self, episodes: Episodes, scaled_query: Tensor, weights: Tensor) -> Tensor:
        prototypes = means_with_queries(episodes.support, episodes.support_labels, episodes.query, weights)
        return negative_squared_distance(scaled_query, self._scaled(prototypes))

    def _scaled(self, maps: Tensor) -> Tensor:
        """(E, n, width, h, w) -> (E, n, width * h * w)"""
        return unit(maps.flatten(2)) / self.length_scale(maps)

    def _dense_loss(self, episodes: Episodes) -> Tensor:
        assert self.class_vectors is not None, "a dense term needs n_classes, the number of training classes"
        scores = negative_squared_distance(positions(episodes.query), self.class_vectors)  # (E, Q, h * w, n_classes)
        return dense_cross_entropy(scores, query_class_ids(episodes))


class LengthScale(nn.Module):
    """A positive number for each map: 3x3 convolution to one channel, batch norm, ReLU, linear layer, softplus."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        super().__init__()
        width, height, breadth = shape
        padding = 0 if min(height, breadth) >= 3 else 1
        n_outputs = (height - 2 + 2 * padding) * (breadth - 2 + 2 * padding)
        self.convolution = nn.Conv2d(width, 1, 3, padding=padding)
        self.norm = nn.BatchNorm2d(1, eps=2e-5)
        self.linear = nn.Linear(n_outputs, 1)

    def forward(self, maps: Tensor) -> Tensor:
        """(E, n, width, h, w) -> (E, n, 1)"""
        responses = F.relu(self.norm(self.convolution(maps.flatten(0, 1))))
        scales = F.softplus(self.linear(responses.flatten(1)))
        return scales.clamp(min=SMALLEST_SCALE).unflatten(0, maps.shape[:2])
