"""The one place where images become vectors: scaled, normalised and fed to a network in batches."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from remp.datasets.decode import scale
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


def embed_images(
    network: Callable[[Tensor], Tensor],
    prepare: Callable[[np.ndarray], Tensor],
    images: np.ndarray,
    *,
    batch: int,
    transform: FeatureTransform = NO_TRANSFORM,
    advance: Callable[[int], None] | None = None,
) -> Tensor:
    """Features of all images, at least one of them: uint8 (n, height, width, channels) -> (n, …), without gradient.

    prepare: uint8 images -> what the network takes. transform: its parts that look at one image; `mirror` and
    `zoom` show the network each image twice, both together four times. advance: told how many more are done.
    """
    features: Tensor | None = None
    with torch.inference_mode():
        for start in range(0, len(images), batch):
            part = images[start : start + batch]
            views = [prepare(view) for view in ([part, part[:, :, ::-1]] if transform.mirror else [part])]
            if transform.zoom:
                views += [enlarged_middle(view) for view in views]
            made = transform.features(*(network(view) for view in views))
            if features is None:
                features = made.new_empty(len(images), *made.shape[1:])
            features[start : start + len(part)] = made
            if advance:
                advance(len(part))
    assert features is not None, "no images to embed"
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
    """name: as given. hash: of everything the numbers depend on: equal hashes, equal embeddings. dim: numbers of an
    embedding. side: of the square images it is fed, in pixels. trained_on: the data whose classes the backbone has
    seen. network: (n, channels, side, side) -> (n, dim)."""

    name: str
    hash: str
    dim: int
    side: int
    trained_on: str
    network: Callable[[Tensor], Tensor] = field(repr=False)
    normalisation: Normalisation

    @property
    def batch(self) -> int:
        """How many images to embed at once."""
        return max(1, BATCH_PIXELS // self.side**2)

    def embed(self, images: np.ndarray, transform: FeatureTransform = NO_TRANSFORM) -> np.ndarray:
        """uint8 (n, height, width, 3 or 1) -> float32 (n, dim). Of images of another size, the centre is scaled."""
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
