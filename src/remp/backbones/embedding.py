"""The one place where images become vectors: scaled, normalised and fed to a network in batches."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from remp.datasets.decode import scale
from remp.errors import DataError
from remp.rectification.transform import ZOOM, FeatureTransform

BATCH_PIXELS = 200_000  # so many pixels at once: the maps of more do not fit in a processor's cache
NO_TRANSFORM = FeatureTransform()
_VERSION = 1  # to be raised when the same weights give other numbers, so that cached embeddings are not taken for new


@dataclass(frozen=True)
class Normalisation:
    """Pixel mean and standard deviation per channel, in [0, 1], of the training images."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, images: Tensor) -> Tensor:
        """uint8 (n, height, width, channels) -> float32 (n, channels, height, width), channels last in memory."""
        # One multiplication and one addition: (x / 255 - mean) / std.
        scale = 1 / (255 * torch.tensor(self.std, device=images.device))
        shift = -torch.tensor(self.mean, device=images.device) / torch.tensor(self.std, device=images.device)
        return torch.addcmul(shift, images.to(torch.float32), scale).permute(0, 3, 1, 2)

    def of(self, images: np.ndarray, device: torch.device | str = "cpu") -> Tensor:
        """The same of an array, which may be to be read only."""
        return self(torch.from_numpy(np.array(images)).to(device))


def images_at_once(height: int, width: int) -> int:
    """How many images of this size go through a network at once."""
    return max(1, BATCH_PIXELS // (height * width))


def embed_images(
    network: Callable[[Tensor], Tensor],
    prepare: Callable[[np.ndarray], Tensor],
    images: np.ndarray,
    *,
    batch: int,
    transform: FeatureTransform = NO_TRANSFORM,
) -> Tensor:
    """Features of all images, at least one of them: uint8 (n, height, width, channels) -> (n, …), without gradient.

    prepare: uint8 images -> what the network takes. transform: its parts that look at one image; `mirror` and
    `zoom` show the network each image twice, both together four times.
    """
    return embed_by_each(network, prepare, images, [transform], batch=batch)[0]


def embed_by_each(
    network: Callable[[Tensor], Tensor],
    prepare: Callable[[np.ndarray], Tensor],
    images: np.ndarray,
    transforms: Sequence[FeatureTransform],
    *,
    batch: int,
    advance: Callable[[int], None] | None = None,
) -> list[Tensor]:
    """The same by several transforms; the network sees each view of an image once. advance: told how many more images
    are done."""
    views = list(dict.fromkeys(view for transform in transforms for view in transform.views))
    features: list[Tensor] = []
    with torch.inference_mode():
        for start in range(0, len(images), batch):
            part = images[start : start + batch]
            seen = {}
            for is_mirrored in {is_mirrored for is_mirrored, _ in views}:
                shown = prepare(part[:, :, ::-1] if is_mirrored else part)
                for is_enlarged in {is_enlarged for mirrored, is_enlarged in views if mirrored == is_mirrored}:
                    seen[is_mirrored, is_enlarged] = network(enlarged_middle(shown) if is_enlarged else shown)
            made = [transform.features(*(seen[view] for view in transform.views)) for transform in transforms]
            if not features:
                features = [one.new_empty(len(images), *one.shape[1:]) for one in made]
            for whole, one in zip(features, made, strict=True):
                whole[start : start + len(part)] = one
            if advance:
                advance(len(part))
    if not features:
        raise DataError("there are no images to embed: give at least one")
    return features


def enlarged_middle(images: Tensor) -> Tensor:
    """The middle of each image, ZOOM of its sides, enlarged to the whole: (n, c, height, width) -> the same."""
    height, width = images.shape[-2:]
    rows, columns = max(1, round(ZOOM * height)), max(1, round(ZOOM * width))
    top, left = (height - rows) // 2, (width - columns) // 2
    middle = images[..., top : top + rows, left : left + columns]
    return F.interpolate(middle, size=(height, width), mode="bilinear", align_corners=False)


@dataclass(frozen=True)
class Embedder:
    """A network that turns images into vectors, with everything that is done to the images first.

    `find_embedder` returns it; `LabelOptions.backbone` and `embed` take it in place of a name.

    Parameters
    ----------
    name : str
        The name it was found by.
    hash : str
        Of everything that the numbers depend on: equal hashes mean equal embeddings.
    dim : int
        Numbers in an embedding.
    side : int
        Side of the square images that the network takes, in pixels.
    trained_on : str
        The data whose classes the network has seen.
    network : callable
        (n, channels, side, side) -> (n, dim)
    normalisation : Normalisation
        Mean and standard deviation of the channels, with `mean` and `std`.

    Examples
    --------
    >>> import numpy as np
    >>> from remp import find_embedder
    >>> embedder = find_embedder("cifar-fs-convnet64-1shot")
    >>> embedder.side, embedder.embed(np.zeros((2, 50, 40, 3), dtype=np.uint8)).shape == (2, embedder.dim)
    (32, True)
    """

    name: str
    hash: str
    dim: int
    side: int
    trained_on: str
    network: Callable[[Tensor], Tensor] = field(repr=False)
    normalisation: Normalisation

    @property
    def batch(self) -> int:
        """How many images go through the network at once."""
        return images_at_once(self.side, self.side)

    def embed(self, images: np.ndarray, transform: FeatureTransform = NO_TRANSFORM) -> np.ndarray:
        """Embed images.

        Parameters
        ----------
        images : ndarray
            uint8 (n, height, width, 3 or 1). The centre square of images of another size is scaled.
        transform : FeatureTransform
            By default nothing is done to the features.

        Returns
        -------
        ndarray
            float32 (n, dim)
        """
        if not len(images):
            return np.empty((0, self.dim), np.float32)
        made = embed_images(self.network, self._prepared, images, batch=self.batch, transform=transform)
        return made.float().numpy()

    def _prepared(self, images: np.ndarray) -> Tensor:
        """Network input (n, channels, side, side)"""
        is_grey = len(self.normalisation.mean) == 1
        if not is_grey and images.shape[1:] == (self.side, self.side, 3):
            return self.normalisation.of(images)
        fitted = np.stack([self._fit(image, "L" if is_grey else "RGB") for image in images])
        return self.normalisation.of(fitted)

    def _fit(self, image: np.ndarray, mode: str) -> np.ndarray:
        colours = Image.fromarray(np.broadcast_to(image, (*image.shape[:2], 3)))  # a grey image has one channel
        return np.array(scale(colours, self.side).convert(mode)).reshape(self.side, self.side, -1)


def embedding_hash(weights: str, side: int, normalisation: Normalisation) -> str:
    """The hash of an Embedder. weights: their hash."""
    parts = (_VERSION, weights, side, normalisation.mean, normalisation.std)
    return hashlib.sha256(repr(parts).encode()).hexdigest()
