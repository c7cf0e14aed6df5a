"""Methods whose backbone first learns to tell all training classes apart."""

from typing import Any

from torch import Tensor, nn

from remp.episodes import Episodes
from remp.errors import ConfigError
from remp.methods.base import Method, cross_entropy
from remp.methods.maths.whole_episode import all_class_ids, all_items
from remp.methods.shapes import vector_size


class PretrainedMethod(Method):
    """For `pretrain_share` of the training, a linear classifier over all training classes; then episodes.

    A subclass writes `logits`, and `pretraining_loss` or `episode_loss` if its paper's differ. Support and queries of
    an episode make up the batch of a pre-training step.
    """

    def __init__(self, *args: Any, pretrain_share: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not 0 <= pretrain_share <= 1:
            raise ConfigError(f"pretrain_share is {pretrain_share}; needed a share of the training, 0 … 1")
        self.pretrain_share = pretrain_share
        self.classifier = nn.Linear(vector_size(self), self.n_classes) if self.n_classes else None

    def loss(self, episodes: Episodes, progress: float = 0.0) -> dict[str, Tensor]:
        return self.pretraining_loss(episodes) if progress < self.pretrain_share else self.episode_loss(episodes)

    def pretraining_loss(self, episodes: Episodes) -> dict[str, Tensor]:
        """Episodes of images -> named terms, in the first stage."""
        features = episodes.map(self.embed)
        return {"classes": self.classification_loss(all_items(features), all_class_ids(features))}

    def episode_loss(self, episodes: Episodes) -> dict[str, Tensor]:
        """Episodes of images -> named terms, in the second stage."""
        return {"local": cross_entropy(self.score(episodes), episodes.query_labels)}

    def classification_loss(self, features: Tensor, class_ids: Tensor) -> Tensor:
        """Mean cross-entropy against all training classes: vectors (E, n, d) of classes (E, n) -> scalar."""
        assert self.classifier is not None, "pre-training needs n_classes, the number of training classes"
        return cross_entropy(self.classifier(features), class_ids)
