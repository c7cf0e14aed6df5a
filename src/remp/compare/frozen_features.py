"""The features of a split, made once by a trained backbone, for any number of classifiers."""

from dataclasses import dataclass

from torch import Tensor

from remp.checkpoint import Trained
from remp.datasets.base import ImageSet
from remp.embedder import vector_method
from remp.evaluation import check_size, embed
from remp.methods.base import Method
from remp.progress import progress
from remp.transform import FeatureTransform

MEAN_BATCH = 8192  # images whose features are held at once while their mean is taken


@dataclass(frozen=True)
class FrozenFeatures:
    """values: (n, dim), a row an image. base_mean: (dim,) mean over the training images, in the same space, or None.
    transform: what was done to the backbone's output and is done to each episode. The rest says where it comes from."""

    images: ImageSet
    values: Tensor
    base_mean: Tensor | None
    transform: FeatureTransform
    backbone: str
    checkpoint: str
    checkpoint_hash: str


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
