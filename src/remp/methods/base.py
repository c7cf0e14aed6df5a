"""The contract of a few-shot method: episodes of features in, logits out."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import ClassVar, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remp.backbones.base import Backbone
from remp.backbones.embedding import NO_TRANSFORM
from remp.episodes import Episodes
from remp.errors import ConfigError, EpisodeError
from remp.rectification.number_range import at_least_single
from remp.rectification.transform import FeatureTransform

Layer = TypeVar("Layer")


class Method(nn.Module):
    """A few-shot classifier. A subclass writes `logits`, and `loss` only if its paper adds a term.

    The answer for an episode never depends on the other episodes of its batch.

    Parameters
    ----------
    backbone : Backbone, optional
        None for use on ready-made features.
    n_classes : int
        Number of training classes, for a global classifier.
    feature_shape : tuple of int
        Shape of what `embed` returns for one image.

    Attributes
    ----------
    transductive : bool
        The answer for a query depends on the other queries of its episode.
    assumes_balance : bool
        The classes of the queries are taken to be equally frequent.
    frozen : bool
        Works on any ready-made features, without training.
    trainable : bool
        Its answers can be differentiated, so that a backbone can be trained by them.
    uses_maps : bool
        Features are the backbone's maps (channels, height, width) rather than vectors.
    base_mean : Tensor or None
        (dim,) mean feature of the training classes; `compare` sets it where it is known. A method that centres on it
        does not centre if it is None.

    Examples
    --------
    >>> import torch
    >>> from remp import Episodes, Method
    >>> class Guess(Method):
    ...     def logits(self, episodes: Episodes) -> torch.Tensor:
    ...         return torch.zeros(*episodes.query.shape[:2], episodes.n_way)
    """

    transductive: ClassVar[bool] = False
    assumes_balance: ClassVar[bool] = False
    frozen: ClassVar[bool] = False  # works on any ready-made features, without training
    trainable: ClassVar[bool] = True  # its answers have gradients
    uses_maps: ClassVar[bool] = False  # features are the backbone's maps (channels, h, w) rather than vectors

    def __init__(
        self, backbone: Backbone | None = None, *, n_classes: int = 0, feature_shape: tuple[int, ...] = ()
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.n_classes = n_classes
        self.feature_shape = feature_shape
        self.base_mean: Tensor | None = None

    def embed(self, images: Tensor) -> Tensor:
        """Features of images. Override it to use something else than what the backbone returns.

        Parameters
        ----------
        images : Tensor
            (n, channels, height, width), normalised.

        Returns
        -------
        Tensor
            (n, …) with the rest as in `feature_shape`, in float32 or better.
        """
        backbone = backbone_of(self)
        return at_least_single(backbone.enlarged(backbone.maps(images)) if self.uses_maps else backbone(images))

    def logits(self, episodes: Episodes) -> Tensor:
        """The answers of the method: the one function that every subclass writes.

        Parameters
        ----------
        episodes : Episodes
            E tasks of features. In testing they have no query labels.

        Returns
        -------
        Tensor
            (E, Q, n_way): the larger the number, the likelier the class. Their softmax gives probabilities.
        """
        raise NotImplementedError

    def score(self, episodes: Episodes) -> Tensor:
        """The answers for images: `logits` of their features. Override it if the backbone changes from task to task.

        Parameters
        ----------
        episodes : Episodes
            E tasks of images.

        Returns
        -------
        Tensor
            (E, Q, n_way), as `logits` returns it.
        """
        return self.logits(episodes.map(self.embed))

    def loss(self, episodes: Episodes, progress: float = 0.0) -> dict[str, Tensor]:
        """What training minimises. Override it if the method adds a term.

        Parameters
        ----------
        episodes : Episodes
            E tasks of images, with query labels.
        progress : float
            The share of the training that is done, 0 … 1.

        Returns
        -------
        dict
            From names, which appear in the log, to terms; their sum is minimised.
        """
        return {"local": cross_entropy(self.score(episodes), episodes.known_query_labels)}

    def learning_rate_factor(self, parameter_name: str, progress: float) -> float:
        """What the learning rate of the run is multiplied by for one parameter. Override it for other rates than 1.

        Parameters
        ----------
        parameter_name : str
            As in `named_parameters`.
        progress : float
            The share of the training that is done, 0 … 1.

        Returns
        -------
        float
            The factor; 0 keeps the parameter as it is.
        """
        return 1.0


def takes_images(method: Method, transform: FeatureTransform = NO_TRANSFORM) -> bool:
    """Whether features change from task to task, so that none can be made beforehand: the method overrides `score`.
    Raises ConfigError if something is to be done to such features."""
    if type(method).score is Method.score:
        return False
    if transform != NO_TRANSFORM:
        raise ConfigError(
            f"transform is {str(transform)!r}, but {type(method).__name__} changes its features from task to task: "
            "set transform to none"
        )
    return True


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean over all queries of all episodes: (E, Q, n), (E, Q) -> scalar."""
    if logits.dim() != 3 or logits.shape[:2] != labels.shape:
        raise EpisodeError(
            f"got logits of shape {tuple(logits.shape)} for {labels.shape[0]} episodes with {labels.shape[1]} queries; "
            f"needed {tuple(labels.shape)} and a number for each class"
        )
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def dense_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean over the positions of all items, each labelled as its item: (E, n, positions, classes), (E, n) -> scalar"""
    return cross_entropy(logits.flatten(1, 2), labels.repeat_interleave(logits.shape[2], dim=1))


def backbone_of(method: Method) -> Backbone:
    """The backbone. Raises ConfigError for a method that was made without one."""
    if method.backbone is None:
        raise ConfigError("this method was made without a backbone: give it features, or make it with a backbone")
    return method.backbone


def device_of(method: Method) -> torch.device:
    """Where the weights of a method are; the processor for one without."""
    return next((parameter.device for parameter in method.parameters()), torch.device("cpu"))


def for_training_classes(layer: Layer | None, what: str) -> Layer:
    """A part of a method that is there if it was made for so many training classes. what: needs it, in words."""
    if layer is None:
        raise ConfigError(f"{what} needs the number of training classes: make the method with n_classes")
    return layer


def vector_size(method: Method) -> int:
    """Numbers in a feature."""
    if not method.feature_shape:
        raise ConfigError(
            f"{type(method).__name__} learns layers on its features: give feature_shape, the size of a feature"
        )
    return prod(method.feature_shape)


def map_shape(method: Method) -> tuple[int, int, int]:
    """(channels, height, width) of a feature that is a map."""
    if len(method.feature_shape) != 3:
        raise ConfigError(
            f"{type(method).__name__} got feature_shape={method.feature_shape}; it learns layers on maps and needs "
            "their (channels, height, width)"
        )
    channels, height, width = method.feature_shape
    return channels, height, width


def positions(maps: Tensor) -> Tensor:
    """A row of channels for each position of a map: (E, n, width, h, w) -> (E, n, h * w, width)"""
    return maps.flatten(3).transpose(2, 3)


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """While it lasts `module` is in evaluation mode; then its mode is what it was."""
    was_training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(was_training)
