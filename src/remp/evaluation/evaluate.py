"""Evaluation: every image embedded once, episodes scored in batches, every episode's accuracy kept."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from remp.backbones.embedding import NO_TRANSFORM, Normalisation, embed_by_each, images_at_once
from remp.config import make_config
from remp.datasets.base import ImageSet
from remp.episodes import Episodes, EpisodeSampler, Protocol
from remp.episodes.files import episode_hash
from remp.errors import CheckpointError, ConfigError, EpisodeError, RempError
from remp.evaluation.result import Result
from remp.methods.base import Method, device_of, evaluation_mode, takes_images
from remp.rectification.transform import FeatureTransform
from remp.system.memory import keep_freed_memory
from remp.system.progress import progress
from remp.system.threads import on_all_cores
from remp.trained import Trained

SCORE_BYTES = 24 * 2**20  # what the items of the episodes that are scored at once, on one core, may take


def evaluate(
    trained: Trained,
    images: ImageSet,
    protocol: Protocol,
    *,
    n_episodes: int = 600,
    seed: int | None = None,
    transform: str | None = None,
    episodes: Episodes | None = None,
    features: Tensor | None = None,
) -> Result:
    """Accuracy of a trained method on few-shot episodes.

    Parameters
    ----------
    trained : Trained
        What `load` returns.
    images : ImageSet
        One split of a data set, from `open_data`.
    protocol : Protocol
        What the episodes look like.
    n_episodes : int
        How many to draw.
    seed : int, optional
        Which ones; default 0. The same seed gives the same episodes on every machine. With `episodes`, what those were
        drawn from, for the record.
    transform : str, optional
        Parts of "mirror+zoom+power+l2+centre", or "none". Default: the transform in the checkpoint's settings.
    episodes : Episodes, optional
        Episodes of image ids to score instead of drawing some, for example from `load_episodes`.
    features : Tensor, optional
        (n, …) of all images, if `embed` has made them before with the same backbone and transform.

    Returns
    -------
    Result
        The accuracy of every episode, and everything that the number depends on.

    Examples
    --------
    A network that learns for four episodes, to show the calls:

    >>> import tempfile
    >>> import remp
    >>> settings = {"data": "glyphs", "width": 8, "n_way": 5, "n_query": 2, "episodes": 4, "validation_episodes": 5}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     trained = remp.load(remp.train(settings, out=f"{folder}/run", print_settings=False))  # doctest: +ELLIPSIS
          4 episodes ...
    >>> images, protocol = remp.open_data("glyphs", "test"), remp.Protocol(n_way=5, n_shot=1)
    >>> result = remp.evaluate(trained, images, protocol, n_episodes=20)
    >>> result.estimate.n, result.split, result.transductive
    (20, 'test', True)
    """
    if not isinstance(trained, Trained):  # type: ignore[redundant-expr]
        raise ConfigError(f"trained is {trained!r}; needed what remp.load returns, e.g. of the path of a checkpoint")
    if not isinstance(images, ImageSet):  # type: ignore[redundant-expr]
        raise ConfigError(f"images is {images!r}; needed an ImageSet, e.g. remp.open_data('cifar-fs', 'test')")
    check_size(trained, images)
    chosen = FeatureTransform.parse(trained.config.transform if transform is None else transform)
    if episodes is None:
        seed = seed or 0
        episodes = draw_episodes(images, protocol, n_episodes=n_episodes, seed=seed)
    else:
        _check_given(episodes, protocol, images)
    return Result(
        accuracies=accuracies(trained.method, images, trained.normalisation, episodes, chosen, features),
        protocol=protocol,
        seed=None if seed is None else int(seed),
        episode_hash=episode_hash(episodes, images.fingerprint),
        data=images.name,
        split=images.split,
        fingerprint=images.fingerprint,
        method=trained.config.method,
        backbone=trained.config.backbone,
        settings=trained.config.flat(),
        transform=str(chosen),
        transductive=trained.method.transductive or chosen.transductive,
        assumes_balance=trained.method.assumes_balance,
        checkpoint=trained.name,
        checkpoint_hash=trained.hash,
        seen_classes=count_seen(trained, images),
        changed_settings=_changed_settings(trained),
    )


def _changed_settings(trained: Trained) -> dict[str, Any]:
    """Settings of the method that are others than those in the header of the checkpoint."""
    header = trained.info.get("config")
    if not isinstance(header, dict):
        return {}
    before, now = make_config(header).method_settings, trained.config.method_settings
    return {name: value for name, value in now.items() if value != before.get(name)}


def _check_given(episodes: Episodes, protocol: Protocol, images: ImageSet) -> None:
    """Raise EpisodeError unless the episodes are of this protocol, and their ids are images of the set."""
    if episodes.n_way != protocol.n_way:
        raise EpisodeError(f"the episodes are {episodes.n_way}-way, the protocol {protocol.n_way}-way: make them agree")
    if episodes.support.dim() != 2 or episodes.support.is_floating_point():
        raise EpisodeError(
            f"the episodes hold {episodes.support.dtype} of shape {tuple(episodes.support.shape)}; needed image ids "
            "(E, S), as EpisodeSampler draws them"
        )
    has = episodes.support.shape[1], episodes.query.shape[1]
    if has != (needed := (sum(protocol.shots), protocol.n_way * protocol.n_query)):
        raise EpisodeError(
            f"the episodes have {has[0]} labelled images and {has[1]} queries, by the protocol they have "
            f"{needed[0]} and {needed[1]}: make them agree"
        )
    ids = torch.cat([episodes.support, episodes.query], dim=1)
    if len(ids) == 0 or ids.min() < 0 or ids.max() >= len(images.labels):
        found = f"image ids {int(ids.min())} … {int(ids.max())}" if len(ids) else "no episode"
        raise EpisodeError(
            f"got {found}; needed episodes of the {len(images.labels)} images of {images.name}/{images.split}"
        )


def draw_episodes(images: ImageSet, protocol: Protocol, *, n_episodes: int, seed: int, prefix: str = "n_") -> Episodes:
    """Episodes of image ids. prefix: of the settings that an error names."""
    sampler = EpisodeSampler(images.labels, protocol, seed=seed, class_names=images.class_names, prefix=prefix)
    return sampler.sample(n_episodes)


def accuracies(
    method: Method,
    images: ImageSet,
    normalisation: Normalisation,
    episodes: Episodes,
    transform: FeatureTransform = NO_TRANSFORM,
    features: Tensor | None = None,
) -> np.ndarray:
    """Accuracy of each episode of image ids -> (E,). features: (n, …) of all images, if they are known."""
    if takes_images(method, transform):
        return _score_image_episodes(method, episodes, images.images, normalisation)
    if features is None:
        features = embed(method, images.images, normalisation, transform)
    elif len(features) != len(images.images):
        raise EpisodeError(
            f"got features of {len(features)} images; needed those of all {len(images.images)} of "
            f"{images.name}/{images.split}, in their order"
        )
    return score_embedded(method, episodes, features, transform)


def embed(
    method: Method, images: np.ndarray, normalisation: Normalisation, transform: FeatureTransform = NO_TRANSFORM
) -> Tensor:
    """Features of all images: uint8 (n, height, width, channels) -> (n, …), in evaluation mode, without gradient."""
    return embed_by_transforms(method, images, normalisation, [transform])[0]


def embed_by_transforms(
    method: Method, images: np.ndarray, normalisation: Normalisation, transforms: Sequence[FeatureTransform]
) -> list[Tensor]:
    """The same by each of several transforms, in one pass."""
    prepare = partial(normalisation.of, device=device_of(method))
    keep_freed_memory()  # of a batch, for the next
    with evaluation_mode(method), torch.inference_mode(), progress("embedding", len(images), unit="images") as bar:
        batch = images_at_once(*images.shape[1:3])
        return embed_by_each(method.embed, prepare, images, transforms, batch=batch, advance=bar.advance)


def score_episodes(method: Method, episodes: Episodes, features: Tensor) -> np.ndarray:
    """Accuracy of each episode, given the features of all images.

    Parameters
    ----------
    method : Method
        The classifier. Its backbone, if it has one, is not used.
    episodes : Episodes
        E episodes of image ids.
    features : Tensor
        (n, …) of all images, by id.

    Returns
    -------
    ndarray
        (E,) accuracies, 0 … 1.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from remp import METHODS, EpisodeSampler, Protocol, score_episodes
    >>> labels = np.repeat(np.arange(6), 20)
    >>> features = torch.eye(6)[labels] + 0.1 * torch.rand(120, 6)
    >>> episodes = EpisodeSampler(labels, Protocol(n_way=5, n_shot=1), seed=0).sample(3)
    >>> score_episodes(METHODS["protonet"](), episodes, features)
    array([1., 1., 1.])
    """
    return score_embedded(method, episodes, features, NO_TRANSFORM)


def score_embedded(method: Method, episodes: Episodes, features: Tensor, transform: FeatureTransform) -> np.ndarray:
    """As `score_episodes`, with features that `embed` made by this transform; what is left of it is done here: to
    centre each episode."""
    items = (episodes.support.shape[1] + episodes.query.shape[1]) * features[0].numel()
    of_a_core = -(-len(episodes) // torch.get_num_threads())
    batch = max(1, min(SCORE_BYTES // (items * features.element_size()), of_a_core))
    starts = range(0, len(episodes), batch)

    def score(start: int) -> np.ndarray:
        with torch.inference_mode():
            part = transform.episodes(episodes[start : start + batch].gather(features))
            return _accuracy(method.logits(part.without_query_labels()), part)

    keep_freed_memory()
    parts = []
    with evaluation_mode(method), torch.inference_mode(), progress("scoring", len(episodes), unit="episodes") as bar:
        for part in on_all_cores(score, starts) if features.device.type == "cpu" else map(score, starts):
            parts.append(part)
            bar.advance(len(part))
    return np.concatenate(parts)


def _score_image_episodes(
    method: Method, episodes: Episodes, images: np.ndarray, normalisation: Normalisation
) -> np.ndarray:
    device = device_of(method)
    parts = []
    with evaluation_mode(method), torch.inference_mode(), progress("scoring", len(episodes), unit="episodes") as bar:
        for i in range(len(episodes)):
            part = episodes[i : i + 1].map(lambda ids: normalisation.of(images[ids.numpy()], device))
            parts.append(_accuracy(method.score(part.without_query_labels()), part))
            bar.advance()
    return np.concatenate(parts)


def _accuracy(logits: Tensor, episodes: Episodes) -> np.ndarray:
    labels = episodes.known_query_labels.cpu()
    if logits.shape != (*labels.shape, episodes.n_way):
        raise EpisodeError(
            f"the method returned logits of shape {tuple(logits.shape)} for {len(labels)} episodes with "
            f"{labels.shape[1]} queries of {episodes.n_way} classes; needed {(*labels.shape, episodes.n_way)}"
        )
    if logits.isnan().any():  # which argmax would take for the first class
        raise RempError(
            "the scores of an episode are not numbers (NaN): the weights, the features or a setting of the method "
            "is so large that the arithmetic overflows. Take another checkpoint or setting"
        )
    return (logits.argmax(-1).cpu() == labels).double().mean(1).numpy()


def count_seen(trained: Trained, images: ImageSet) -> int:
    """How many classes of the set have the name of a class that was trained on."""
    names = trained.info.get("class_names")
    return len({str(name) for name in names} & set(images.class_names)) if isinstance(names, list) else 0


def check_size(trained: Trained, images: ImageSet) -> None:
    """Raise CheckpointError unless the images are of the size that was trained on."""
    if trained.image_size != tuple(images.image_size):
        needs, has = ("x".join(map(str, size)) for size in (trained.image_size, images.image_size))
        height, _, channels = trained.image_size
        again = f"prepare the data again with --size {height}, or " if channels == images.image_size[2] else ""
        raise CheckpointError(
            f"{trained.name} was trained on images of {needs} (height x width x channels), {images.name!r} has {has}: "
            f"{again}take another checkpoint"
        )
