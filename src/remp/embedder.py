"""From images to embeddings by a backbone that is given by its name."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from remp.augment import Normalisation
from remp.backbones.pretrained import PRETRAINED, Pretrained
from remp.backbones.timm_models import TIMM, load_timm
from remp.checkpoint import Trained, load_trained
from remp.datasets.decode import scale
from remp.errors import CheckpointError, ConfigError
from remp.methods.base import Method
from remp.models import find_checkpoint, shipped_models

DEFAULT = "efficientnet-lite0"
SIDES = range(32, 1025)
BATCH_PIXELS = 200_000  # so many pixels at once: the maps of more do not fit in a processor's cache
_VERSION = 1  # to be raised when the same weights give other numbers, so that cached embeddings are not taken for new


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

    def embed(self, images: np.ndarray) -> np.ndarray:
        """uint8 (n, height, width, 3 or 1) -> float32 (n, dim). Of images of another size, the centre is scaled."""
        embeddings = np.empty((len(images), self.dim), np.float32)
        with torch.inference_mode():
            for start in range(0, len(images), self.batch):
                part = torch.from_numpy(self._fitted(images[start : start + self.batch]))
                embeddings[start : start + len(part)] = self.network(self.normalisation(part)).numpy()
        return embeddings

    def _fitted(self, images: np.ndarray) -> np.ndarray:
        """uint8 (n, side, side, channels)"""
        is_grey = len(self.normalisation.mean) == 1
        if not is_grey and images.shape[1:] == (self.side, self.side, 3):
            return np.array(images)
        return np.stack([self._fit(image, "L" if is_grey else "RGB") for image in images])

    def _fit(self, image: np.ndarray, mode: str) -> np.ndarray:
        colours = Image.fromarray(np.broadcast_to(image, (*image.shape[:2], 3)))  # a grey image has one channel
        return np.array(scale(colours, self.side).convert(mode)).reshape(self.side, self.side, -1)


def find_embedder(name: str = DEFAULT, *, side: int | None = None) -> Embedder:
    """The embedder of a pretrained backbone, of `timm:NAME`, or of a checkpoint of ours: a file, the folder of a run or
    a shipped name. side: pixels of the images it is fed, if not those it is made for."""
    if side is not None and side not in SIDES:
        raise ConfigError(f"got a side of {side} pixels; needed {SIDES.start} … {SIDES.stop - 1}")
    if name in PRETRAINED:
        return _of_pretrained(PRETRAINED[name](), side)
    if name.startswith(TIMM):
        return _of_pretrained(load_timm(name), side)
    return _of_checkpoint(load_trained(_find(name)), name, side)


def is_checkpoint(name: str) -> bool:
    """Whether the name is for a checkpoint of ours rather than a backbone from elsewhere."""
    return name not in PRETRAINED and not name.startswith(TIMM)


def vector_method(trained: Trained) -> Method:
    """What makes a vector of an image: the method, or its backbone alone where the method works on maps."""
    return Method(trained.method.backbone) if trained.method.uses_maps else trained.method


def _find(name: str) -> Path:
    try:
        return find_checkpoint(name)
    except CheckpointError as error:
        raise ConfigError(
            f"there is no backbone {name!r}: give {' or '.join(PRETRAINED)}, {TIMM}NAME, a .safetensors file of remp, "
            f"the folder of a run, or a model that ships with remp: {', '.join(shipped_models()) or 'none'}"
        ) from error


def _of_pretrained(pretrained: Pretrained, side: int | None) -> Embedder:
    side = side or pretrained.side
    if pretrained.is_fixed_side and side != pretrained.side:
        raise ConfigError(f"{pretrained.name} takes images of {pretrained.side} pixels only, got {side}")
    return Embedder(
        name=pretrained.name,
        hash=_hash(pretrained.hash, side, pretrained.normalisation),
        dim=pretrained.dim,
        side=side,
        trained_on=pretrained.trained_on,
        network=pretrained.network,
        normalisation=pretrained.normalisation,
    )


def _of_checkpoint(trained: Trained, name: str, side: int | None) -> Embedder:
    height, width, channels = trained.image_size
    if height != width or side not in (None, height):
        raise ConfigError(f"{name} was trained on images of {height} x {width} pixels and takes no others")
    method = vector_method(trained).eval()
    with torch.inference_mode():
        dim = method.embed(torch.zeros(1, channels, height, width)).shape[1]
    return Embedder(
        name=name,
        hash=_hash(trained.hash, height, trained.normalisation),
        dim=dim,
        side=height,
        trained_on=trained.config.data,
        network=method.embed,
        normalisation=trained.normalisation,
    )


def _hash(weights: str, side: int, normalisation: Normalisation) -> str:
    parts = (_VERSION, weights, side, normalisation.mean, normalisation.std)
    return hashlib.sha256(repr(parts).encode()).hexdigest()
