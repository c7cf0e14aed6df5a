"""DFMN-MCT: confidence-weighted prototypes under a learned metric."""

import math
from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remp.checks import require_at_least
from remp.episodes import Episodes
from remp.methods.base import (
    Method,
    backbone_of,
    cross_entropy,
    dense_cross_entropy,
    evaluation_mode,
    for_training_classes,
    map_shape,
    positions,
)
from remp.methods.maths.whole_episode import means_with_queries
from remp.rectification.number_range import at_least_single
from remp.rectification.similarity import negative_squared_distance, unit

# A length scale never gets smaller: distances stay below 4 / SMALLEST_SCALE².
SMALLEST_SCALE = 1e-2


class DFMNMCT(Method):
    """Kye, Lee, Kim, Hwang: Meta-Learned Confidence for Few-shot Learning, 2020. https://arxiv.org/abs/2002.12017

    Maps are scaled to length 1 and divided by a learned length scale, a number for each map. The confidence of a query
    in each class is the softmax of minus its squared distances, averaged over views of the images: as they are and
    mirrored, in the last block of the backbone and in the one before. Queries join the class means with that weight,
    again and again. Training adds a dense classifier: every position of a map is to tell its class among all training
    ones.

    Ours follows the first version of the paper and its code. The convolution of the length scale is padded where a map
    is smaller than 3 x 3.

    updates, train_updates: how often the class means are updated in testing and in training. instance_weight: of the
    loss within the episode, beside 1 for the dense one. mirror_view, block_view: whether confidences are averaged over
    mirrored images and over the maps of the last block but one, too. Ready-made maps are the only view of their images.
    """

    transductive = True
    uses_maps = True

    def __init__(
        self,
        *args: Any,
        updates: int = 10,
        train_updates: int = 1,
        instance_weight: float = 0.2,
        mirror_view: bool = True,
        block_view: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        require_at_least(0, updates=updates, train_updates=train_updates, instance_weight=instance_weight)
        self.updates, self.train_updates, self.instance_weight = updates, train_updates, instance_weight
        self.mirror_view, self.block_view = mirror_view, block_view
        shape = map_shape(self)
        self.length_scale = LengthScale(shape)
        self.class_vectors = nn.Parameter(torch.empty(self.n_classes, shape[0])) if self.n_classes else None
        if self.class_vectors is not None:
            nn.init.xavier_uniform_(self.class_vectors)

    def embed(self, images: Tensor) -> Tensor:
        """All views of each image in one row: its last map and that of the block before, then those of its mirror
        image, through which no gradient flows: (n, channels, height, width) -> (n, d)."""
        if not self.mirror_view:
            return self._blocks(images)
        with torch.no_grad(), evaluation_mode(backbone_of(self)):
            mirrored = self._blocks(images.flip(3))
        torch.clear_autocast_cache()  # PyTorch 2.4 takes the weights from there, and no gradient flows
        return torch.cat([self._blocks(images), mirrored], dim=1)

    def logits(self, episodes: Episodes) -> Tensor:
        """Logarithms of the confidences. Episodes of what `embed` returns, or of maps (E, ., channels, h, w)."""
        sides = self._sides(episodes)
        return self._log_confidence(sides, self._weights(sides, self.updates))

    def loss(self, episodes: Episodes, progress: float = 0.0) -> dict[str, Tensor]:
        sides = self._sides(episodes.map(self.embed))
        # The prototypes owe their queries to all views; the loss is of the last map of the images as they are.
        scores, *_ = self._scores(sides[0], self._weights(sides, self.train_updates))
        instance = cross_entropy(scores, episodes.known_query_labels)
        return {"dense": self._dense_loss(sides[0]), "instance": self.instance_weight * instance}

    def _blocks(self, images: Tensor) -> Tensor:
        """The last map of each image and, if it is a view, that of the block before, in one row."""
        backbone = backbone_of(self)
        *before, last = backbone.stages(images)[-2:] if self.block_view else [backbone.maps(images)]
        return torch.cat([at_least_single(maps.flatten(1)) for maps in (backbone.enlarged(last), *before)], dim=1)

    def _sides(self, episodes: Episodes) -> list[Episodes]:
        """The images as they are and mirrored, if they are: rows (E, ., d) that begin with the last map."""
        rows = episodes.map(lambda items: items.flatten(1))
        if not self.mirror_view or rows.query.shape[2] == prod(self.feature_shape):
            return [rows]
        return [rows.map(lambda items, i=i: items.chunk(2, dim=1)[i]) for i in (0, 1)]  # type: ignore[misc]

    def _weights(self, sides: list[Episodes], updates: int) -> Tensor:
        """How much each query counts for each class after so many updates of the class means: (E, Q, N)"""
        query = sides[0].query
        weights = query.new_zeros(*query.shape[:2], sides[0].n_way)  # at first queries do not count
        for _ in range(updates):
            weights = self._log_confidence(sides, weights).exp()
        return weights

    def _log_confidence(self, sides: list[Episodes], weights: Tensor) -> Tensor:
        """Logarithm of the mean over the views of the softmax of the scores: (E, Q, N)"""
        views = [scores.log_softmax(-1) for side in sides for scores in self._scores(side, weights)]
        return torch.stack(views).logsumexp(0) - math.log(len(views))

    def _scores(self, side: Episodes, weights: Tensor) -> list[Tensor]:
        """Minus the squared distances (E, Q, N) to the class means, in which queries count by `weights`, by block."""
        prototypes = means_with_queries(side.support, side.support_labels, side.query, weights)
        pairs = zip(self._scaled(side.query), self._scaled(prototypes), strict=True)
        return [negative_squared_distance(query, prototype) for query, prototype in pairs]

    def _scaled(self, rows: Tensor) -> list[Tensor]:
        """The blocks in rows (E, n, d), each of length 1 by the scale of the last map, as the authors do."""
        last, before = rows.tensor_split([prod(self.feature_shape)], dim=2)
        scale = self.length_scale(last.unflatten(2, self.feature_shape))
        return [unit(block) / scale for block in (last, before) if block.shape[2]]

    def _dense_loss(self, side: Episodes) -> Tensor:
        class_vectors = for_training_classes(self.class_vectors, "a dense term")
        maps = side.query[..., : prod(self.feature_shape)].unflatten(2, self.feature_shape)
        scores = negative_squared_distance(positions(maps), class_vectors)  # (E, Q, h * w, n_classes)
        return dense_cross_entropy(scores, side.classes_of(side.known_query_labels))


class LengthScale(nn.Module):
    """A positive number for each map: 3x3 convolution to one channel, batch norm, ReLU, linear layer, softplus."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        super().__init__()
        channels, height, width = shape
        padding = 0 if min(height, width) >= 3 else 1
        n_outputs = (height - 2 + 2 * padding) * (width - 2 + 2 * padding)
        self.convolution = nn.Conv2d(channels, 1, 3, padding=padding)
        self.norm = nn.BatchNorm2d(1, eps=2e-5)
        self.linear = nn.Linear(n_outputs, 1)

    def forward(self, maps: Tensor) -> Tensor:
        """(E, n, channels, h, w) -> (E, n, 1)"""
        responses = F.relu(self.norm(self.convolution(maps.flatten(0, 1))))
        scales = F.softplus(self.linear(responses.flatten(1)))
        return scales.clamp(min=SMALLEST_SCALE).unflatten(0, maps.shape[:2])
