"""TADAM: a backbone that is conditioned on the task."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remp.backbones.base import batch_norms, changed_batch_norms
from remp.checks import require_at_least, require_positive
from remp.episodes import Episodes
from remp.errors import ConfigError
from remp.methods.base import Method, backbone_of, cross_entropy, for_training_classes, vector_size
from remp.methods.maths.whole_episode import all_class_ids, all_items
from remp.rectification.rectify import class_means
from remp.rectification.similarity import negative_distance


class TADAM(Method):
    """Oreshkin, Rodriguez, Lacoste: TADAM: Task dependent adaptive metric for improved few-shot learning, 2018.
    https://arxiv.org/abs/1805.10123

    The mean of the prototypes describes the task. Small networks turn it into a factor and a shift for every channel
    of every layer, and the images pass through the network so conditioned once more. A query belongs to the nearest
    prototype; distances have a scale. Classifying among all training classes helps at first, less and less later.

    Ours differs in: every batch norm is conditioned, those on skip paths too; the auxiliary task is on the images of
    the episode, in every step with the weight that is its probability in the paper.

    metric_scale: of the Euclidean distances. auxiliary_decay: the auxiliary task weighs this to the power of the
    twentieths of the training that are over. condition_penalty: on the squares of the factors that let conditioning in.
    """

    def __init__(
        self,
        *args: Any,
        metric_scale: float = 7.5,
        auxiliary_decay: float = 0.9,
        condition_penalty: float = 0.01,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        require_positive(metric_scale=metric_scale)
        require_at_least(0, auxiliary_decay=auxiliary_decay, condition_penalty=condition_penalty)
        self.metric_scale, self.auxiliary_decay = metric_scale, auxiliary_decay
        self.condition_penalty = condition_penalty
        layers = [] if self.backbone is None else batch_norms(self.backbone)
        if self.backbone is not None and not layers:
            raise ConfigError(f"tadam conditions batch norms, and {type(self.backbone).__name__} has none")
        self.conditions = nn.ModuleList(Condition(vector_size(self), layer.num_features) for layer in layers)
        self.classifier = nn.Linear(vector_size(self), self.n_classes) if self.n_classes else None

    def logits(self, episodes: Episodes) -> Tensor:
        prototypes = class_means(episodes.support, episodes.support_labels, episodes.n_way)
        return self.metric_scale * negative_distance(episodes.query, prototypes)

    def score(self, episodes: Episodes) -> Tensor:
        support = self.embed(episodes.support.flatten(0, 1)).unflatten(0, episodes.support.shape[:2])
        return self._conditioned_logits(episodes, support)

    def loss(self, episodes: Episodes, progress: float = 0.0) -> dict[str, Tensor]:
        plain = episodes.map(self.embed)
        classifier = for_training_classes(self.classifier, "an auxiliary task")
        logits = self._conditioned_logits(episodes, plain.support)
        weight = self.auxiliary_decay ** math.floor(20 * progress)
        gates = torch.cat([part for name, part in self.conditions.named_parameters() if "post_multipliers" in name])
        return {
            "local": cross_entropy(logits, episodes.known_query_labels),
            "auxiliary": weight * cross_entropy(classifier(all_items(plain)), all_class_ids(plain)),
            "penalty": self.condition_penalty * gates.square().sum(),
        }

    def _conditioned_logits(self, episodes: Episodes, plain_support: Tensor) -> Tensor:
        """Episodes of images, features (E, S, dim) of the unconditioned backbone -> (E, Q, N)"""
        task = class_means(plain_support, episodes.support_labels, episodes.n_way).mean(1)  # (E, dim)
        n_items = episodes.support.shape[1] + episodes.query.shape[1]
        conditions = [condition(task) for condition in self.conditions]

        def change(number: int, layer: nn.BatchNorm2d, maps: Tensor, normed: Tensor) -> Tensor:
            factor, shift = (part.repeat_interleave(n_items, 0)[:, :, None, None] for part in conditions[number])
            return (1 + factor) * normed + shift

        with changed_batch_norms(backbone_of(self), change):
            return self.logits(episodes.map(self.embed))


class Condition(nn.Module):
    """What a task changes in a layer: (n, dim) -> a factor and a shift of each channel, both (n, width), at first 0."""

    def __init__(self, dim: int, width: int) -> None:
        super().__init__()
        self.factor, self.shift = _Residual(dim, width), _Residual(dim, width)
        self.post_multipliers = nn.Parameter(torch.zeros(2))

    def forward(self, task: Tensor) -> tuple[Tensor, Tensor]:
        of_factor, of_shift = self.post_multipliers
        return of_factor * self.factor(task), of_shift * self.shift(task)


class _Residual(nn.Module):
    """Three linear layers with swish between; the second and third are added to what they take."""

    def __init__(self, dim: int, width: int) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(dim, width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = F.silu(self.first(x))
        x = F.silu(x + self.second(x))
        return x + self.third(x)
