"""The features of a split, made once by a trained backbone, for any number of classifiers."""

import re
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from remp.backbones.embedding import Embedder
from remp.datasets.base import ImageSet
from remp.errors import ConfigError
from remp.evaluation.evaluate import check_size, count_seen, embed
from remp.methods.base import Method
from remp.models import vector_method
from remp.rectification.transform import FeatureTransform
from remp.system.progress import progress
from remp.trained import Trained

MEAN_BATCH = 8192  # images whose features are held at once while their mean is taken
PART = 64  # images that are scaled at once
MEAN_IMAGES = 2048  # of the training classes, evenly spread, for their mean feature
_FROM_IMAGENET = ("mini-imagenet", "tiered-imagenet")
_IMAGENET_CLASS = re.compile(r"n\d{8}")


@dataclass(frozen=True)
class FrozenFeatures:
    """The features of a split, and where they come from.

    values: (n, dim), one row per image. base_mean: (dim,) mean over the training images, in the same space, or None.
    transform: what was done to the backbone's output and is done to each episode. seen_classes: how many classes of
    the split have the name of a class that the backbone was trained on.
    """

    images: ImageSet
    values: Tensor
    base_mean: Tensor | None
    transform: FeatureTransform
    backbone: str
    checkpoint: str
    checkpoint_hash: str
    seen_classes: int = 0


def frozen_features(
    trained: Trained, images: ImageSet, *, training_images: ImageSet | None = None, transform: str = "none"
) -> FrozenFeatures:
    """Embed `images`, and take the mean feature of `training_images` if they are given.

    There is no mean if the transform centres each episode: then features are in a space of the episode's own.
    """
    check_size(trained, images)
    chosen = FeatureTransform.parse(transform)
    embedder = vector_method(trained)
    base_mean = None
    if training_images is not None and not chosen.centre:
        base_mean = _mean(embedder, training_images, trained, chosen)
    return FrozenFeatures(
        images=images,
        values=embed(embedder, images.images, trained.normalisation, chosen),
        base_mean=base_mean,
        transform=chosen,
        backbone=trained.config.backbone,
        checkpoint=trained.name,
        checkpoint_hash=trained.hash,
        seen_classes=count_seen(trained, images),
    )


def _mean(embedder: Method, images: ImageSet, trained: Trained, transform: FeatureTransform) -> Tensor:
    """Mean feature (dim,), without ever holding the features of all images."""
    check_size(trained, images)
    sums = []
    with progress("mean of the training images", len(images.images), unit="images") as bar:
        for start in range(0, len(images.images), MEAN_BATCH):
            part = images.images[start : start + MEAN_BATCH]
            sums.append(embed(embedder, part, trained.normalisation, transform).double().sum(0))
            bar.advance(len(part))
    return (sum(sums[1:], sums[0]) / len(images.images)).float()


def pretrained_features(
    embedder: Embedder, images: ImageSet, *, training_images: ImageSet | None = None, transform: str = "none"
) -> FrozenFeatures:
    """As `frozen_features`, with images scaled to the side of the embedder; the mean of the training images is taken
    over an even sample of them. Raises ConfigError for classes that the backbone has been trained on."""
    check_unseen(embedder, images)
    chosen = FeatureTransform.parse(transform)
    base_mean = None
    if training_images is not None and not chosen.centre:
        sample = np.unique(np.linspace(0, len(training_images.images) - 1, MEAN_IMAGES).astype(np.int64))
        base_mean = _embed(embedder, training_images, sample, chosen).mean(0)
    return FrozenFeatures(
        images=images,
        values=_embed(embedder, images, np.arange(len(images.images)), chosen),
        base_mean=base_mean,
        transform=chosen,
        backbone=embedder.name,
        checkpoint=f"{embedder.trained_on} weights at {embedder.side} px",
        checkpoint_hash=embedder.hash,
    )


def check_unseen(embedder: Embedder, images: ImageSet) -> None:
    """Raise ConfigError for a set that is cut from ImageNet: its classes are no new ones to such a backbone."""
    if images.name in _FROM_IMAGENET or any(_IMAGENET_CLASS.fullmatch(name) for name in images.class_names):
        raise ConfigError(
            f"{images.name!r} is cut from ImageNet and {embedder.name} was trained on {embedder.trained_on}: classes "
            "and images of every split were seen with their labels, so this would not be a few-shot accuracy. "
            "Take other data, such as cifar-fs, or --features with a checkpoint trained on the training classes"
        )


def _embed(embedder: Embedder, images: ImageSet, numbers: np.ndarray, transform: FeatureTransform) -> Tensor:
    """(len(numbers), dim)"""
    parts = []
    with progress("embedding", len(numbers), unit="images") as bar:
        for start in range(0, len(numbers), PART):
            parts.append(embedder.embed(images.images[numbers[start : start + PART]], transform))
            bar.advance(len(parts[-1]))
    return torch.from_numpy(np.concatenate(parts))
