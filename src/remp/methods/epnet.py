"""EPNet: embedding propagation network."""

from typing import Any

import torch
from torch import Tensor, nn

from remp.checks import require_at_least, require_below_one
from remp.episodes import Episodes, one_hot_rows
from remp.errors import ConfigError
from remp.methods.base import cross_entropy, for_training_classes, vector_size
from remp.methods.maths.graph import normalise, propagator, squared_distances, without_loops
from remp.methods.maths.whole_episode import all_class_ids, all_items
from remp.methods.pretraining import PretrainedMethod
from remp.rectification.number_range import to_dtype

_EXTRA_DEGREE = 1e-4
_SMALLEST_SHARE = 1e-6
_SMALLEST_VARIANCE = 1e-6  # of distances in units of their mean: nodes may be equidistant


class EPNet(PretrainedMethod):
    """Rodríguez, Laradji, Drouin, Lacoste: Embedding Propagation: Smoother Manifold for Few-Shot Classification, 2020.
    https://arxiv.org/abs/2003.04151

    Every feature of an episode is replaced by a mixture of all of them, weighted by all walks on the graph of their
    similarities, which smooths the space between classes. Labels then spread in the same way on the graph of the
    smoothed features. Pre-training classifies images and recognises by how many quarter turns each was rotated.

    Ours differs from the public code: a pre-training step takes the images of one episode in four rotations, not 128
    images of any class; both stages are parts of one run; equidistant nodes do not divide by zero.

    pretrain_share: share of the training that is pre-training. episode_rate: factor of the learning rate after it (the
    paper pre-trains with 0.1 or 0.2 and goes on with 0.01 or 0.001). embedding_alpha, label_alpha: how far embeddings
    and labels spread, below 1. classification_weight: of the linear classifier on plain features beside the episodes.
    """

    transductive = True
    frozen = True

    def __init__(
        self,
        *args: Any,
        pretrain_share: float = 0.5,
        episode_rate: float = 0.05,
        embedding_alpha: float = 0.5,
        label_alpha: float = 0.2,
        classification_weight: float = 0.1,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, pretrain_share=pretrain_share, episode_rate=episode_rate, **kwargs)
        require_below_one(embedding_alpha=embedding_alpha, label_alpha=label_alpha)
        require_at_least(0, classification_weight=classification_weight)
        self.embedding_alpha, self.label_alpha = embedding_alpha, label_alpha
        self.classification_weight = classification_weight
        self.rotation = nn.Linear(vector_size(self), 4) if self.n_classes else None

    def logits(self, episodes: Episodes) -> Tensor:
        """Logarithms of the share of each class among the walks that end at a query."""
        n_support = episodes.support.shape[1]
        walks = propagator(similarities(self.propagated(all_items(episodes))), self.label_alpha)
        walks = walks / walks.sum(-1, keepdim=True)
        one_hot = one_hot_rows(episodes.support_labels, episodes.n_way, walks.dtype).transpose(-1, -2)  # (E, S, N)
        shares = walks[:, n_support:, :n_support] @ one_hot
        return to_dtype((shares + _SMALLEST_SHARE).log(), episodes.query.dtype)

    def propagated(self, features: Tensor) -> Tensor:
        """Features smoothed over all of their set: (…, n, d) -> (…, n, d)."""
        walks = propagator(similarities(features), self.embedding_alpha)
        return to_dtype(walks @ features.to(walks.dtype), features.dtype)

    def pretraining_loss(self, episodes: Episodes) -> dict[str, Tensor]:
        """Classes from the propagated features of all four rotations of all images, turns from the plain ones."""
        rotation = for_training_classes(self.rotation, "pre-training")
        images = rotations(all_items(episodes))  # (E, 4 (S + Q), …)
        features = self.embed(images.flatten(0, 1)).unflatten(0, images.shape[:2])
        class_ids = all_class_ids(episodes)
        turns = torch.arange(4, device=class_ids.device).repeat_interleave(class_ids.shape[1])
        with torch.autocast(features.device.type, enabled=False):  # a lower precision is for the backbone
            return {
                "classes": self.classification_loss(self.propagated(features), class_ids.repeat(1, 4)),
                "rotation": cross_entropy(rotation(features), turns.expand(len(episodes), -1)),
            }

    def episode_loss(self, episodes: Episodes) -> dict[str, Tensor]:
        features = episodes.map(self.embed)
        with torch.autocast(features.query.device.type, enabled=False):
            terms = {"local": cross_entropy(self.logits(features), episodes.known_query_labels)}
            if self.classification_weight:
                classes = self.classification_loss(all_items(features), all_class_ids(features))
                terms["classes"] = self.classification_weight * classes
        return terms


def similarities(nodes: Tensor) -> Tensor:
    """The normalised graph of a set of features, without loops: (…, n, d) -> (…, n, n)."""
    weights = torch.exp(-in_standard_deviations(squared_distances(nodes)))
    return normalise(without_loops(weights), extra_degree=_EXTRA_DEGREE)


def in_standard_deviations(distances: Tensor) -> Tensor:
    """Distances (…, n, n) divided by the standard deviation of those that are not zero."""
    apart = distances > 0
    count = apart.sum((-2, -1), keepdim=True)
    mean = distances.sum((-2, -1), keepdim=True) / count.clamp(min=1)
    relative = distances / mean.clamp(min=torch.finfo(distances.dtype).tiny)  # squares of these cannot overflow
    variance = ((relative - 1).square() * apart).sum((-2, -1), keepdim=True) / (count - 1).clamp(min=1)
    return relative / variance.clamp(min=_SMALLEST_VARIANCE).sqrt()


def rotations(images: Tensor) -> Tensor:
    """All images as they are, then turned by one, two and three quarters: (E, n, c, h, h) -> (E, 4 n, c, h, h)."""
    height, width = images.shape[-2:]
    if height != width:
        raise ConfigError(
            f"got images of {height} x {width}; rotations need squares: prepare square images, or set pretrain_share: 0"
        )
    return torch.cat([images.rot90(turns, (-2, -1)) for turns in range(4)], dim=1)
