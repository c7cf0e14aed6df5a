"""A method as its settings describe it, and what it predicts of new pictures once it is trained."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.overrides import TorchFunctionMode

from remp.backbones import BACKBONES, Backbone
from remp.backbones.embedding import Normalisation, embed_images, images_at_once
from remp.config import RunConfig
from remp.datasets.decode import square
from remp.episodes import Episodes
from remp.errors import EpisodeError
from remp.methods import KNOWN, METHODS
from remp.methods.base import Method, device_of, evaluation_mode, takes_images
from remp.rectification.transform import FeatureTransform

Pictures = np.ndarray | Sequence[Image.Image] | Sequence[np.ndarray]
_LARGE = 256 * 256  # pixels of an image whose maps take much memory


class Prediction(NamedTuple):
    """What `Trained.predict` says of m pictures.

    Attributes
    ----------
    labels : ndarray
        (m,) the likeliest class of each.
    probabilities : ndarray
        (m, N), by the method's own softmax; a row sums to 1.
    classes : ndarray
        (N,) what the columns stand for.

    Examples
    --------
    >>> import numpy as np
    >>> from remp import Prediction
    >>> labels, probabilities, classes = Prediction(np.array(["a"]), np.array([[0.9, 0.1]]), np.array(["a", "b"]))
    >>> labels.tolist()
    ['a']
    """

    labels: np.ndarray
    probabilities: np.ndarray
    classes: np.ndarray


@dataclass(frozen=True)
class Trained:
    """A trained method: its weights, its settings, and how images are normalised for it. `load` returns it.

    Parameters
    ----------
    name : str
        The file it came from.
    method : Method
        The method, in evaluation mode.
    config : RunConfig
        The settings it was trained with.
    normalisation : Normalisation
        Mean and deviation of the channels.
    image_size : tuple of int
        (height, width, channels)
    info : dict
        The header of the checkpoint.
    hash : str
        SHA-256 of the file.

    Examples
    --------
    >>> import remp
    >>> model = remp.load("cifar-fs-convnet64-1shot")
    >>> model.image_size, model.config.method, model.config.data
    ((32, 32, 3), 'remp', 'cifar-fs')
    """

    name: str
    method: Method
    config: RunConfig
    normalisation: Normalisation
    image_size: tuple[int, int, int]
    info: dict[str, Any]
    hash: str

    def predict(
        self, support: Pictures, support_labels: Sequence[Any], query: Pictures, *, transform: str | None = None
    ) -> Prediction:
        """Label new pictures from a few labelled ones.

        Parameters
        ----------
        support : list of PIL pictures, or array
            n labelled pictures; as an array uint8 (n, height, width, channels), of any size.
        support_labels : sequence
            n labels, names or numbers.
        query : list of PIL pictures, or array
            m pictures to label.
        transform : str, optional
            Parts of "mirror+zoom+power+l2+centre", or "none". Default: the model's own.

        Returns
        -------
        Prediction
            With `labels` (m,), `probabilities` (m, n_classes) and `classes` (n_classes,), the sorted labels.

        Examples
        --------
        >>> import numpy as np, remp
        >>> pictures = np.random.default_rng(0).integers(0, 255, (5, 32, 32, 3), dtype=np.uint8)
        >>> model = remp.load("cifar-fs-convnet64-1shot")
        >>> found = model.predict(pictures[:2], ["cat", "dog"], pictures[2:])
        >>> found.classes.tolist(), found.probabilities.shape
        (['cat', 'dog'], (3, 2))
        """
        chosen = FeatureTransform.parse(self.config.transform if transform is None else transform)
        method = self.method
        labelled, asked = as_images(support, self.image_size), as_images(query, self.image_size)
        if any(label is None for label in support_labels):
            raise EpisodeError(
                "a label is None; needed a name or a number for each labelled picture: leave that one out"
            )
        if len({isinstance(label, str) for label in support_labels}) > 1:
            raise EpisodeError("some labels are names and some are numbers; needed one kind for all pictures")
        classes, codes = np.unique(np.asarray(support_labels), return_inverse=True)
        if len(codes) != len(labelled):
            raise EpisodeError(f"got {len(labelled)} labelled pictures and {len(codes)} labels; needed one for each")
        if len(classes) < 2:
            raise EpisodeError(f"got labels of {len(classes)} class; needed pictures of two classes or more")
        if not len(asked):
            raise EpisodeError("there is no picture to label: give at least one as query")
        together = np.concatenate([labelled, asked])
        prepare = partial(self.normalisation.of, device=device_of(method))
        of_images = takes_images(method, chosen)
        with evaluation_mode(method), torch.inference_mode():
            if of_images:
                items = prepare(together)
            else:
                batch = images_at_once(*self.image_size[:2])
                items = embed_images(method.embed, prepare, together, batch=batch, transform=chosen)
            episodes = Episodes(
                support=items[: len(labelled)][None],
                support_labels=torch.from_numpy(codes.reshape(1, -1)).to(items.device),
                query=items[len(labelled) :][None],
                query_labels=None,
                n_way=len(classes),
            )
            logits = method.score(episodes) if of_images else method.logits(chosen.episodes(episodes))
        probabilities = logits[0].double().softmax(-1).cpu().numpy()
        return Prediction(classes[probabilities.argmax(1)], probabilities, classes)


def build_method(config: RunConfig, image_size: tuple[int, int, int], n_classes: int) -> Method:
    """A method with fresh weights, drawn from the run's seed."""
    torch.manual_seed(config.seed)
    return _in_fast_order(_built(config, image_size, n_classes))


def build_blank(config: RunConfig, image_size: tuple[int, int, int], n_classes: int, n_bytes: int) -> Method:
    """A method whose weights are still to be loaded. Raises ValueError if making them takes more bytes than this.

    A class of one's own may draw numbers that are not weights, and are in no file: it is made as it was for training.
    """
    if config.method not in METHODS:
        return build_method(config, image_size, n_classes)
    with _Blank(n_bytes):
        method = _built(config, image_size, n_classes)
    return _in_fast_order(method)


def _built(config: RunConfig, image_size: tuple[int, int, int], n_classes: int) -> Method:
    make, backbone = KNOWN[config.method], _build_backbone(config, image_size)
    if image_size[0] * image_size[1] <= _LARGE:
        map_shape = backbone.map_shape(image_size)
    else:
        with torch.device("meta"):  # shapes without memory; it takes a second to import what that needs
            map_shape = _build_backbone(config, image_size).map_shape(image_size)
    backbone.map_size = map_shape[1:]
    feature_shape = map_shape if make.uses_maps else backbone.feature_shape(map_shape)
    return make(backbone, n_classes=n_classes, feature_shape=feature_shape, **config.method_settings)


def _in_fast_order(method: Method) -> Method:
    return method.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


class _Blank(TorchFunctionMode):
    """Leaves weights at 0 instead of drawing them, and refuses, with ValueError, to make tensors of more bytes than
    this altogether: settings that nobody has checked may ask for any size. What arithmetic makes is not counted."""

    def __init__(self, n_bytes: int) -> None:
        super().__init__()
        self._left = n_bytes

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _MAKERS:
            self._count(func, args)
        elif func in _DRAWS:
            with torch.no_grad():
                return (args[0] if args else kwargs["tensor"]).zero_()
        return func(*args, **(kwargs or {}))

    def _count(self, func: Any, args: tuple[Any, ...]) -> None:
        args = args[1:] if func is torch.Tensor.new_zeros else args
        sizes = args[0] if args and isinstance(args[0], tuple | list | torch.Size) else args
        n_items = math.prod(size for size in sizes if isinstance(size, int))
        self._left -= 4 * n_items * (n_items if func is torch.eye and len(sizes) == 1 else 1)
        if self._left < 0:
            raise ValueError("its settings need far larger weights than it holds")


_MAKERS = {
    torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn, torch.full, torch.eye, torch.arange,
    torch.Tensor.new_zeros,
}  # fmt: skip
_DRAWS = {
    nn.init.kaiming_uniform_, nn.init.uniform_, nn.init.normal_, nn.init.trunc_normal_,
    torch.Tensor.uniform_, torch.Tensor.normal_,
}  # fmt: skip


def _build_backbone(config: RunConfig, image_size: tuple[int, int, int]) -> Backbone:
    make: Callable[..., Backbone] = BACKBONES[config.backbone]
    return make(image_size[2], **config.backbone_settings)


def as_images(pictures: Pictures, image_size: tuple[int, int, int]) -> np.ndarray:
    """uint8 (n, height, width, channels) of the size that the method was trained on: the centre of each, scaled."""
    height, width, channels = image_size
    if isinstance(pictures, np.ndarray) and pictures.dtype != np.uint8:
        raise EpisodeError(f"got pictures of {pictures.dtype}; needed uint8, 0 to 255, (n, height, width, channels)")
    if isinstance(pictures, np.ndarray) and pictures.shape[1:] == image_size:
        return pictures
    is_one = isinstance(pictures, np.ndarray) and (pictures.ndim == 2 or pictures.shape[2:] in ((1,), (3,), (4,)))
    if is_one or isinstance(pictures, Image.Image):  # rows of one picture are not several grey ones
        raise EpisodeError(
            f"got {_described(pictures)}; needed several pictures: a list, or (n, height, width, channels)"
        )
    if height != width:
        raise EpisodeError(
            f"the model was trained on pictures of {height} x {width} pixels, to which others cannot be cut: needed an "
            f"array uint8 (n, {height}, {width}, {channels})"
        )
    fitted = [square(_as_pil(picture), height, channels=channels) for picture in pictures]
    return np.stack(fitted) if fitted else np.empty((0, *image_size), np.uint8)


def _as_pil(picture: Any) -> Image.Image:
    if isinstance(picture, Image.Image):
        return picture
    array = np.asarray(picture)
    if array.dtype != np.uint8 or array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[-1] not in (1, 3, 4)):
        raise EpisodeError(f"got {_described(array)}; needed uint8 (height, width, channels) with 1, 3 or 4 channels")
    return Image.fromarray(array[..., 0] if array.ndim == 3 and array.shape[-1] == 1 else array)


def _described(picture: Any) -> str:
    return f"a picture of {picture.dtype} {picture.shape}" if isinstance(picture, np.ndarray) else "one picture"
