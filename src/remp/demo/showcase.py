"""One episode before and after rectification: chosen by an open rule, with all that a picture of it needs."""

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from remp.datasets.base import ImageSet
from remp.episodes import Episodes, Protocol
from remp.errors import ConfigError
from remp.evaluation.evaluate import draw_episodes, embed
from remp.methods.remp import ReMP
from remp.rectification.rectify import Rectified, class_means
from remp.rectification.similarity import unit
from remp.rectification.transform import FeatureTransform
from remp.trained import Trained

BATCH = 50  # episodes that are looked at together
LEAST_GAIN = 5  # queries that rectification corrects in the episode that is shown


@dataclass(frozen=True)
class Stage:
    """An episode before or after rectification. prototypes: (N, d). predictions: (Q,). attention: (N, Q), the weights
    of the queries for each prototype, below 0 if repelled."""

    prototypes: np.ndarray
    predictions: np.ndarray
    attention: np.ndarray


@dataclass(frozen=True)
class Showcase:
    """An episode, its queries sorted by true class.

    number: which of the drawn episodes it is, from 1. class_names: (N,). support_images: (S, height, width, channels)
    with support_labels (S,); query_images: (Q, …) with query_labels (Q,). query: (Q, d), the features that `before` and
    `after` share. before: the class means and the attention of the first layer; after: that of the last.
    """

    number: int
    n_drawn: int
    class_names: tuple[str, ...]
    support_images: np.ndarray
    support_labels: np.ndarray
    query_images: np.ndarray
    query_labels: np.ndarray
    query: np.ndarray
    before: Stage
    after: Stage

    @property
    def gain(self) -> int:
        """How many more queries are answered right after rectification than before."""
        return int(self.right(self.after).sum() - self.right(self.before).sum())

    def right(self, stage: Stage) -> np.ndarray:
        """Which queries a stage answers right: bool (Q,)."""
        return stage.predictions == self.query_labels

    def own_attention(self, stage: Stage) -> float:
        """The share of the attention that attracts, of a stage, that goes to queries of the prototype's own class."""
        weights = stage.attention.clip(min=0)
        own = weights[self.query_labels, range(len(self.query_labels))]
        return float(own.sum() / max(weights.sum(), 1e-12))

    @property
    def corrected(self) -> np.ndarray:
        return ~self.right(self.before) & self.right(self.after)

    @property
    def spoiled(self) -> np.ndarray:
        return self.right(self.before) & ~self.right(self.after)


def find_showcase(
    trained: Trained,
    images: ImageSet,
    protocol: Protocol,
    *,
    n_episodes: int = 600,
    seed: int = 0,
    least_gain: int = LEAST_GAIN,
) -> Showcase:
    """The first drawn episode in which rectification gets `least_gain` more queries right, or the one with most."""
    method = _rectifying(trained)
    transform = FeatureTransform.parse(trained.config.transform)
    features = embed(method, images.images, trained.normalisation, transform)
    episodes = draw_episodes(images, protocol, n_episodes=n_episodes, seed=seed)
    best, most = 0, -math.inf
    for start in range(0, n_episodes, BATCH):
        gains = _gains(method, transform.episodes(episodes[start : start + BATCH].gather(features)))
        enough = np.flatnonzero(gains >= least_gain)
        candidate = int(enough[0]) if len(enough) else int(gains.argmax())
        if gains[candidate] > most:
            best, most = start + candidate, int(gains[candidate])
        if len(enough):
            break
    return _show(method, transform, images, episodes, features, best)


def _rectifying(trained: Trained) -> ReMP:
    if not isinstance(trained.method, ReMP) or trained.method.rectification.layers == 0:
        raise ConfigError(
            f"{trained.name} is {trained.config.method!r} and rectifies nothing: give a ReMP with at least one layer"
        )
    return trained.method


@torch.inference_mode()
def _gains(method: ReMP, episodes: Episodes) -> np.ndarray:
    """How many more queries of each episode of features are answered right after rectification than before: (E,)."""
    hidden, labels = episodes.without_query_labels(), episodes.known_query_labels
    before, after = (method.rectified(hidden, layers=layers).logits.argmax(-1) for layers in (0, None))
    return ((after == labels).sum(1) - (before == labels).sum(1)).cpu().numpy()


@torch.inference_mode()
def _show(
    method: ReMP, transform: FeatureTransform, images: ImageSet, episodes: Episodes, features: Tensor, index: int
) -> Showcase:
    ids = _sorted_by_class(episodes[index : index + 1])
    assert ids.class_ids is not None, "drawn episodes name their classes"
    episode = transform.episodes(ids.gather(features))
    rectified = method.rectified(episode.without_query_labels(), keep_attention=True)
    start = method.rectified(episode.without_query_labels(), layers=0)
    support = unit(episode.support) if method.normalise else episode.support
    means = class_means(support, episode.support_labels, episode.n_way)
    return Showcase(
        number=index + 1,
        n_drawn=len(episodes),
        class_names=tuple(images.class_names[i] for i in ids.class_ids[0].tolist()),
        support_images=images.images[ids.support[0].numpy()],
        support_labels=ids.support_labels[0].numpy(),
        query_images=images.images[ids.query[0].numpy()],
        query_labels=ids.known_query_labels[0].numpy(),
        query=start.query[0].cpu().numpy(),
        before=_stage(means, start, rectified.attention[0]),
        after=_stage(_in_the_first_space(rectified, start), rectified, rectified.attention[-1]),
    )


def _stage(prototypes: Tensor, rectified: Rectified, attention: Tensor) -> Stage:
    n_query = rectified.query.shape[1]
    predictions = rectified.logits.argmax(-1)
    parts = (prototypes, predictions, attention[..., -n_query:])
    return Stage(*(part[0].cpu().numpy() for part in parts))


def _in_the_first_space(rectified: Rectified, start: Rectified) -> Tensor:
    """Prototypes shrunk by as much as the layers enlarged the queries; exact unless a projection is learned."""
    return rectified.prototypes * (start.query.norm() / rectified.query.norm().clamp(min=1e-12))


def _sorted_by_class(episode: Episodes) -> Episodes:
    """One episode of image ids with its queries in the order of their classes."""
    labels = episode.known_query_labels
    order = labels[0].argsort(stable=True)
    return replace(episode, query=episode.query[:, order], query_labels=labels[:, order])
