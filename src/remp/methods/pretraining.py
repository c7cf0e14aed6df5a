"""Methods whose backbone first learns to tell all training classes apart."""

from typing import Any

from torch import Tensor, nn

from remp.checks import require_positive
from remp.episodes import Episodes
from remp.errors import ConfigError
from remp.methods.base import Method, cross_entropy, for_training_classes, vector_size
from remp.methods.maths.whole_episode import all_class_ids, all_items


class PretrainedMethod(Method):
    """For `pretrain_share` of the training, a linear classifier over all training classes; then episodes, at
    `episode_rate` times the learning rate of the run. A run without pre-training has the learning rate it says.

    A subclass writes `logits`, and `pretraining_loss` or `episode_loss` if its paper's differ. Support and queries of
    an episode make up the batch of a pre-training step.
    """

    def __init__(self, *args: Any, pretrain_share: float, episode_rate: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not 0 <= pretrain_share <= 1:
            raise ConfigError(f"pretrain_share is {pretrain_share}; needed a share of the training, 0 … 1")
        require_positive(episode_rate=episode_rate)
        self.pretrain_share, self.episode_rate = pretrain_share, episode_rate
        self.classifier = nn.Linear(vector_size(self), self.n_classes) if self.n_classes else None

    def loss(self, episodes: Episodes, progress: float = 0.0) -> dict[str, Tensor]:
        return self.pretraining_loss(episodes) if progress < self.pretrain_share else self.episode_loss(episodes)

    def learning_rate_factor(self, parameter_name: str, progress: float) -> float:
        return self.episode_rate if 0 < self.pretrain_share <= progress else 1.0

    def pretraining_loss(self, episodes: Episodes) -> dict[str, Tensor]:
        """Episodes of images -> named terms, in the first stage."""
        features = episodes.map(self.embed)
        return {"classes": self.classification_loss(all_items(features), all_class_ids(features))}

    def episode_loss(self, episodes: Episodes) -> dict[str, Tensor]:
        """Episodes of images -> named terms, in the second stage."""
        return {"local": cross_entropy(self.score(episodes), episodes.known_query_labels)}

    def classification_loss(self, features: Tensor, class_ids: Tensor) -> Tensor:
        """Mean cross-entropy against all training classes: vectors (E, n, d) of classes (E, n) -> scalar."""
        classifier = for_training_classes(self.classifier, "pre-training")
        return cross_entropy(classifier(features), class_ids)
