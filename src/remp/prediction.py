"""Labels for new pictures from a few labelled ones, by a trained method."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image

from remp.backbones.embedding import Normalisation, embed_images
from remp.datasets.decode import scale
from remp.episodes import Episodes
from remp.errors import EpisodeError
from remp.methods.base import Method
from remp.rectification.transform import FeatureTransform

Pictures = np.ndarray | Sequence[Image.Image] | Sequence[np.ndarray]
_BATCH = 256


class Prediction(NamedTuple):
    """labels: (m,) of the pictures that were asked for; probabilities: (m, N), a row sums to 1, by the method's own
    softmax; classes: (N,) what the columns stand for."""

    labels: np.ndarray
    probabilities: np.ndarray
    classes: np.ndarray


def predict(
    method: Method,
    normalisation: Normalisation,
    image_size: tuple[int, int, int],
    support: Pictures,
    support_labels: Sequence[Any],
    query: Pictures,
    *,
    transform: FeatureTransform,
) -> Prediction:
    """One episode of pictures -> a label for each query; a transductive method sees all queries together."""
    labelled, asked = as_images(support, image_size), as_images(query, image_size)
    classes, codes = np.unique(np.asarray(support_labels), return_inverse=True)
    if len(codes) != len(labelled):
        raise EpisodeError(f"got {len(labelled)} labelled pictures and {len(codes)} labels; needed one for each")
    if len(classes) < 2:
        raise EpisodeError(f"got labels of {len(classes)} class; needed pictures of two classes or more")
    if not len(asked):
        raise EpisodeError("there is no picture to label: give at least one as query")
    together = np.concatenate([labelled, asked])
    device = next((parameter.device for parameter in method.parameters()), torch.device("cpu"))

    def prepare(images: np.ndarray) -> torch.Tensor:
        return normalisation(torch.from_numpy(np.array(images)).to(device))

    was_training = method.training
    method.eval()
    try:
        with torch.inference_mode():
            is_plain = type(method).score is Method.score
            make = method.embed if is_plain else _unchanged
            items = embed_images(make, prepare, together, batch=_BATCH, transform=transform if is_plain else _NONE)
            episodes = Episodes(
                support=items[: len(labelled)][None],
                support_labels=torch.from_numpy(codes.reshape(1, -1)).to(device),
                query=items[len(labelled) :][None],
                query_labels=None,
                n_way=len(classes),
            )
            logits = method.logits(transform.episodes(episodes)) if is_plain else method.score(episodes)
    finally:
        method.train(was_training)
    probabilities = logits[0].double().softmax(-1).cpu().numpy()
    return Prediction(classes[probabilities.argmax(1)], probabilities, classes)


def as_images(pictures: Pictures, image_size: tuple[int, int, int]) -> np.ndarray:
    """uint8 (n, height, width, channels) of the size that the method was trained on: the centre of each, scaled."""
    height, width, channels = image_size
    if isinstance(pictures, np.ndarray) and pictures.dtype != np.uint8:
        raise EpisodeError(f"got pictures of {pictures.dtype}; needed uint8, 0 to 255, (n, height, width, channels)")
    if isinstance(pictures, np.ndarray) and pictures.shape[1:] == image_size:
        return pictures
    mode = "L" if channels == 1 else "RGB"
    fitted = [np.array(scale(_as_pil(picture).convert("RGB"), height).convert(mode)) for picture in pictures]
    return np.stack(fitted).reshape(-1, height, width, channels) if fitted else np.empty((0, *image_size), np.uint8)


def _as_pil(picture: Any) -> Image.Image:
    if isinstance(picture, Image.Image):
        return picture
    array = np.asarray(picture)
    if array.dtype != np.uint8 or array.ndim not in (2, 3):
        raise EpisodeError(f"got a picture of {array.dtype} {array.shape}; needed uint8 (height, width, channels)")
    return Image.fromarray(array[..., 0] if array.ndim == 3 and array.shape[-1] == 1 else array)


def _unchanged(images: torch.Tensor) -> torch.Tensor:
    return images


_NONE = FeatureTransform()
