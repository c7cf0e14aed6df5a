"""ReMP: rectified metric propagation."""

from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from remp.checks import check_choice, require_at_least, require_positive
from remp.episodes import Episodes
from remp.errors import ConfigError
from remp.methods.base import Method, cross_entropy, for_training_classes, vector_size
from remp.rectification import Metric, Rectification, Repulsion, RowNorm
from remp.rectification.rectify import Rectified, rectify
from remp.rectification.similarity import SIMILARITIES, unit

Schedule = Literal["cooperative", "global-then-local", "local", "global"]
Projection = Literal["learned", "residual", "learned-1x1", "residual-1x1", "identity", "absent"]


class ReMP(Method):
    """Zhao, Li, Yu, Chen: ReMP: Rectified Metric Propagation for Few-Shot Learning, 2021.

    Training matches each query with a learned vector of its class among all training classes (global) and with the
    prototypes of its episode (local, times alpha). Testing refines the prototypes with the unlabelled queries: layer by
    layer, each prototype becomes an attention-weighted mean of its support and of the queries, and is pushed away from
    queries that attend to it little.

    Ours and the paper's text differ by default in: features are L2-normalised before the local metric (`normalise`),
    the prototype is replaced rather than added to (`projection: absent`), and scores have a scale. Each is a setting,
    and configs/paper-literal.yaml sets them all to the text.

    alpha: weight of the local term beside the global one. schedule: "cooperative" both terms; "global-then-local" the
    global one for `global_share` of the training, then the local one; "local" and "global" only that one. global_share:
    share of the training that is global, in "global-then-local". normalise: features get length 1 before the local
    metric. train_layers, layers: L in training and in testing. projection: h "learned" freely, learned as "residual"
    x + Wx, "identity", or "absent" (C ← AZ, no residual); "learned-1x1" and "residual-1x1" are 1 x 1 convolutions on
    the maps that a feature was flattened from, for features of many numbers. projection_rate: factor of its learning
    rate.
    similarity, scale: κ of the local term and of the attention, and its factor; "euclidean" is minus the squared
    distance, "plain-euclidean" minus the distance itself, "cosine" the cosine of the angle.
    global_similarity, global_scale: κ of the global term, and its factor. global_on_support: the global term on support
    too. repulsion: what an attention below β becomes; "negative" is minus the least one, "zero", or "none", it stays.
    row_norm: what rows of the attention are divided by, the sum of their "absolute" or "signed" values.
    threshold: of β, which is threshold / (N (L - l)) in layer l. step: share of the way that a layer goes, 1 in the
    paper. balanced: assume equally many queries of each class, which the paper does not.
    """

    frozen = True

    def __init__(
        self,
        *args: Any,
        alpha: float = 0.1,
        schedule: Schedule = "cooperative",
        global_share: float = 0.5,
        train_layers: int = 2,
        layers: int = Rectification.layers,
        projection: Projection = "absent",
        projection_rate: float = 0.01,
        normalise: bool = True,
        similarity: Metric = Rectification.similarity,
        scale: float = 10.0,
        global_similarity: Metric = "cosine",
        global_scale: float = 10.0,
        global_on_support: bool = False,
        repulsion: Repulsion = Rectification.repulsion,
        row_norm: RowNorm = Rectification.row_norm,
        threshold: float = Rectification.threshold,
        step: float = Rectification.step,
        balanced: bool = Rectification.balanced,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        check_choice("schedule", schedule, Schedule)
        check_choice("projection", projection, Projection)
        check_choice("global_similarity", global_similarity, Metric)
        require_at_least(0, alpha=alpha, global_share=global_share, train_layers=train_layers)
        require_positive(projection_rate=projection_rate, global_scale=global_scale)
        self.alpha, self.schedule, self.global_share = alpha, schedule, global_share
        self.train_layers, self.normalise = train_layers, normalise
        self.global_similarity, self.global_scale = global_similarity, global_scale
        self.global_on_support = global_on_support
        self.rectification = Rectification(
            layers=layers,
            repulsion=repulsion,
            row_norm=row_norm,
            similarity=similarity,
            scale=scale,
            residual=projection != "absent",
            threshold=threshold,
            step=step,
            balanced=balanced,
        )
        self.global_prototypes: nn.Parameter | None = None
        if self.n_classes:
            dim = vector_size(self)
            self.global_prototypes = nn.Parameter(torch.randn(self.n_classes, dim) * dim**-0.5)
        self.projection, self.projection_rate = projection, projection_rate
        self.weight: nn.Parameter | None = None
        if projection not in ("identity", "absent"):
            size = self._channels() if projection.endswith("-1x1") else vector_size(self)
            self.weight = nn.Parameter(torch.zeros(size, size) if self._is_residual else torch.eye(size))

    @property
    def transductive(self) -> bool:  # type: ignore[override]
        """Without layers nothing is learned from the queries: ProtoNet's rule."""
        return self.rectification.layers > 0

    @property
    def assumes_balance(self) -> bool:  # type: ignore[override]
        return self.rectification.balanced and self.transductive

    def logits(self, episodes: Episodes) -> Tensor:
        return self.rectified(episodes).logits

    def rectified(self, episodes: Episodes, *, keep_attention: bool = False, layers: int | None = None) -> Rectified:
        """Episodes of features -> prototypes, propagated queries, logits and each layer's attention."""
        settings = self.rectification if layers is None else replace(self.rectification, layers=layers)
        support, query = episodes.support, episodes.query
        if self.normalise:
            support, query = unit(support), unit(query)
        return rectify(
            support,
            episodes.support_labels,
            query,
            episodes.n_way,
            settings,
            projection=self._projection_matrix(),
            keep_attention=keep_attention,
        )

    def loss(self, episodes: Episodes, progress: float = 0.0) -> dict[str, Tensor]:
        features = episodes.map(self.embed)
        use_global, use_local = self.schedule != "local", self.schedule != "global"
        if self.schedule == "global-then-local":
            use_global, use_local = progress < self.global_share, progress >= self.global_share
        terms = {}
        with torch.autocast(features.query.device.type, enabled=False):  # a lower precision is for the backbone
            if use_global:
                terms["global"] = self.global_loss(features)
            if use_local:
                alpha = self.alpha if use_global else 1.0
                terms["local"] = alpha * self.local_loss(features)
        return terms

    def learning_rate_factor(self, parameter_name: str, progress: float) -> float:
        """A freely learned h drifts: it learns more slowly than the embedding."""
        return self.projection_rate if parameter_name == "weight" else 1.0

    def global_loss(self, episodes: Episodes) -> Tensor:
        """Eq. 2: each query (and support, if asked for) against the learned vectors of all training classes."""
        prototypes = for_training_classes(self.global_prototypes, "a global term")
        items, labels = episodes.query, episodes.known_query_labels
        if self.global_on_support:
            items = torch.cat([items, episodes.support], dim=1)
            labels = torch.cat([labels, episodes.support_labels], dim=1)
        similarity = SIMILARITIES[self.global_similarity](items, prototypes)
        return cross_entropy(self.global_scale * similarity, episodes.classes_of(labels))

    def local_loss(self, episodes: Episodes) -> Tensor:
        """Eq. 5: each query against the prototypes of its episode, after `train_layers` layers."""
        return cross_entropy(self.rectified(episodes, layers=self.train_layers).logits, episodes.known_query_labels)

    @property
    def _is_residual(self) -> bool:
        return self.projection.startswith("residual")

    def _projection_matrix(self) -> Tensor | None:
        """H, of as many numbers as a feature has, or as its map has channels."""
        if self.weight is None or not self._is_residual:
            return self.weight
        return torch.eye(len(self.weight)).to(self.weight) + self.weight

    def _channels(self) -> int:
        """Channels of the maps that features were flattened from."""
        if self.backbone is not None and self.backbone.width is not None:
            return self.backbone.width
        if len(self.feature_shape) == 3:
            return self.feature_shape[0]
        raise ConfigError(
            f"projection {self.projection!r} got feature_shape={self.feature_shape}; without a backbone that names the "
            "channels of its maps it needs their (channels, height, width)"
        )
