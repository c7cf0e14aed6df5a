"""Evaluation: every image embedded once, episodes scored in batches, every episode's accuracy kept."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from remp.augment import Normalisation
from remp.datasets.base import ImageSet
from remp.episodes import Episodes, EpisodeSampler, Protocol
from remp.methods.base import Method
from remp.progress import progress
from remp.statistics import Estimate, mean_interval
from remp.transform import FeatureTransform

EMBED_BATCH = 256
SCORE_BYTES = 64 * 2**20  # features of the episodes that are scored at once


@dataclass(frozen=True)
class Result:
    """Accuracies of a method on episodes, with all that is needed to repeat and to compare them."""

    accuracies: np.ndarray  # (E,)
    protocol: Protocol
    seed: int | None
    episode_hash: str
    data: str
    split: str
    fingerprint: str
    method: str
    transform: str
    transductive: bool
    assumes_balance: bool
    checkpoint: str = ""
    checkpoint_hash: str = ""

    @property
    def estimate(self) -> Estimate:
        return mean_interval(self.accuracies)

    def as_dict(self) -> dict[str, Any]:
        """All of it in plain types, with mean and interval; accuracies rounded to 1e-6."""
        values = {name: value for name, value in asdict(self).items() if name not in ("accuracies", "protocol")}
        estimate = self.estimate
        return {
            "mean": round(estimate.mean, 6),
            "half_width_95": round(estimate.half_width, 6) if estimate.n > 1 else None,
            "n_episodes": estimate.n,
            **self.protocol.as_dict(),
            **values,
            "accuracies": [round(float(a), 6) for a in self.accuracies],
        }

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.as_dict()) + "\n", encoding="utf-8")


def embed(
    method: Method,
    images: np.ndarray,
    normalisation: Normalisation,
    transform: FeatureTransform = FeatureTransform(),  # noqa: B008  (frozen)
    *,
    title: str = "",
) -> Tensor:
    """Features of all images: uint8 (n, height, width, channels) -> (n, …), in evaluation mode, without gradient."""
    was_training = method.training
    method.eval()
    device = next((p.device for p in method.parameters()), torch.device("cpu"))
    parts = []
    with torch.inference_mode(), progress(title or "embedding", len(images), unit="images") as bar:
        for start in range(0, len(images), EMBED_BATCH):
            batch = torch.from_numpy(np.array(images[start : start + EMBED_BATCH])).to(device)
            pixels = normalisation(batch)
            features = method.embed(pixels)
            if transform.mirror:
                features = (features + method.embed(pixels.flip(3))) / 2
            parts.append(transform.features(features))
            bar.advance(len(batch))
    method.train(was_training)
    return torch.cat(parts).clone()


def score_episodes(
    method: Method,
    episodes: Episodes,
    features: Tensor,
    transform: FeatureTransform = FeatureTransform(),  # noqa: B008
) -> np.ndarray:
    """Accuracy of each episode of image ids, given the features of all images (n, …) -> (E,)."""
    was_training = method.training
    method.eval()
    accuracies = []
    batch = _episodes_at_once(episodes, features)
    with torch.inference_mode(), progress("scoring", len(episodes), unit="episodes") as bar:
        for start in range(0, len(episodes), batch):
            part = transform.episodes(episodes[start : start + batch].gather(features))
            labels = part.query_labels
            assert labels is not None, "accuracy needs the labels of the queries"
            predicted = method.logits(part.without_query_labels()).argmax(-1)
            accuracies.append((predicted == labels).float().mean(1).cpu().numpy())
            bar.advance(len(part))
    method.train(was_training)
    return np.concatenate(accuracies)


def _episodes_at_once(episodes: Episodes, features: Tensor) -> int:
    items = episodes.support.shape[1] + episodes.query.shape[1]
    return max(1, SCORE_BYTES // (items * features[0].numel() * features.element_size()))


def evaluate(
    method: Method,
    images: ImageSet,
    normalisation: Normalisation,
    protocol: Protocol,
    *,
    n_episodes: int = 600,
    seed: int = 0,
    transform: FeatureTransform | str = "none",
    episodes: Episodes | None = None,
) -> Result:
    """Accuracy of `method` on episodes of `images`, drawn from `seed` unless given as image ids."""
    if isinstance(transform, str):
        transform = FeatureTransform.parse(transform)
    if episodes is None:
        sampler = EpisodeSampler(images.labels, protocol, seed=seed, class_names=images.class_names)
        episodes = sampler.sample(n_episodes)
    features = embed(method, images.images, normalisation, transform)
    return Result(
        accuracies=score_episodes(method, episodes, features, transform),
        protocol=protocol,
        seed=seed,
        episode_hash="",
        data=images.name,
        split=images.split,
        fingerprint=images.fingerprint,
        method=type(method).__name__,
        transform=str(transform),
        transductive=method.transductive or transform.transductive,
        assumes_balance=method.assumes_balance,
    )
