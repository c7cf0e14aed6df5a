"""Episode files: drawn episodes on disk, with a hash that says whether two results were made on the same ones."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from remp.datasets.base import ImageSet
from remp.episodes import Episodes, Protocol
from remp.errors import DataError, EpisodeError
from remp.system.files import write_atomically
from remp.untrusted import border, shortened

FORMAT = "remp-episodes-1"
_ARRAYS = ("support", "support_labels", "query", "query_labels", "class_ids")
_FIELDS = ("protocol", "seed", "data", "split", "fingerprint", "hash")


@dataclass(frozen=True)
class EpisodeFile:
    """Episodes of image ids, and where they come from.

    seed: None if they were not drawn by an EpisodeSampler. data, split, fingerprint: the image set the ids belong to.
    """

    episodes: Episodes
    protocol: Protocol
    seed: int | None
    data: str
    split: str
    fingerprint: str
    hash: str


def episode_hash(episodes: Episodes, fingerprint: str) -> str:
    """SHA-256 of episodes of image ids from the set with this fingerprint; the same on every machine."""
    digest = hashlib.sha256(json.dumps([FORMAT, fingerprint, episodes.n_way]).encode())
    for name in _ARRAYS:
        values = getattr(episodes, name)
        array = np.zeros((0, 0)) if values is None else values.cpu().numpy()
        digest.update(json.dumps([name, *array.shape]).encode())
        digest.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
    return digest.hexdigest()


def save_episodes(
    path: Path | str,
    episodes: Episodes,
    protocol: Protocol,
    images: ImageSet,
    *,
    seed: int | None = None,
    overwrite: bool = False,
) -> str:
    """Write episodes of image ids to a file, so that others can score exactly the same ones.

    The file is written completely or not at all.

    Parameters
    ----------
    path : str or Path
        The file to write.
    episodes : Episodes
        Of image ids, as `EpisodeSampler` draws them.
    protocol : Protocol
        What they look like.
    images : ImageSet
        The set that the ids belong to.
    seed : int, optional
        What they were drawn from.
    overwrite : bool
        Replace a file that is there.

    Returns
    -------
    str
        The hash of the episodes.

    Examples
    --------
    >>> import tempfile
    >>> import remp
    >>> images, protocol = remp.open_data("glyphs", "test"), remp.Protocol(n_way=5, n_shot=1)
    >>> episodes = remp.EpisodeSampler(images.labels, protocol, seed=0).sample(10)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     digest = remp.save_episodes(f"{folder}/my.episodes", episodes, protocol, images, seed=0)
    ...     remp.load_episodes(f"{folder}/my.episodes", images).hash == digest
    True
    """
    from safetensors.numpy import save

    path = Path(path)
    if path.exists() and not overwrite:
        raise EpisodeError(f"{path} exists already: give another name (or in Python, overwrite=True)")
    _check_episodes(path, episodes, protocol)
    _check_images(path, episodes, images)
    digest = episode_hash(episodes, images.fingerprint)
    header = {
        "format": FORMAT,
        "protocol": protocol.as_dict(),
        "seed": seed,
        "data": images.name,
        "split": images.split,
        "fingerprint": images.fingerprint,
        "hash": digest,
    }
    arrays = {name: np.ascontiguousarray(getattr(episodes, name).cpu().numpy(), dtype=np.int64) for name in _ARRAYS}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, save(arrays, metadata={"remp": json.dumps(header)}))
    return digest


def load_episodes(path: Path | str, images: ImageSet | None = None) -> EpisodeFile:
    """Read a file of episodes and check it. Nothing in a file is ever run.

    Parameters
    ----------
    path : str or Path
        What `save_episodes` wrote.
    images : ImageSet, optional
        Check also that the episodes were made for exactly this set.

    Returns
    -------
    EpisodeFile
        With `episodes`, `protocol`, `seed` and `hash`.

    Raises
    ------
    DataError
        If the file is missing, damaged, or made for other images.

    Examples
    --------
    >>> import remp
    >>> remp.load_episodes("nowhere.episodes")
    Traceback (most recent call last):
        ...
    remp.errors.DataError: ...
    """
    path = Path(path)
    header, arrays = _read(path)
    episodes, protocol = _rebuild(path, header, arrays)
    file = EpisodeFile(episodes, protocol, *(header[name] for name in _FIELDS[1:]))
    if episode_hash(episodes, file.fingerprint) != file.hash:
        raise DataError(f"{path} is damaged: its episodes do not have the hash it names: {_CURE}")
    if images is not None:
        if file.fingerprint != images.fingerprint:
            raise DataError(
                f"{path} was made for {file.data}/{file.split} with fingerprint {file.fingerprint[:12]}, "
                f"the set at hand is {images.name}/{images.split} with {images.fingerprint[:12]}: "
                "take the set it was made for, or draw new episodes with: remp episodes"
            )
        _check_images(path, episodes, images)
    return file


_CURE = "copy it again, or draw the episodes anew with: remp episodes"


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    from safetensors import safe_open

    if not path.is_file():
        raise DataError(f"there is no episode file {path}. Write one with: remp episodes")
    with (
        border(f"{path} is not an episode file, or is cut short", _CURE),
        safe_open(path, framework="numpy") as file,
    ):
        header = json.loads((file.metadata() or {}).get("remp", "{}"))
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a dict)
    if not isinstance(header, dict) or header.get("format") != FORMAT or set(arrays) != set(_ARRAYS):
        raise DataError(f"{path} is not an episode file of this version of remp ({FORMAT}): {_CURE}")
    return header, arrays


def _rebuild(path: Path, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> tuple[Episodes, Protocol]:
    """The episodes and their protocol, with every number where it may be."""
    missing = [name for name in _FIELDS if name not in header]
    if missing:
        raise DataError(f"{path} lacks {', '.join(missing)} in its header: {_CURE}")
    if any(array.dtype != np.int64 or array.ndim != 2 for array in arrays.values()):
        raise DataError(f"{path} holds arrays that are not int64 (episodes, items): {_CURE}")
    if not all(isinstance(header[name], str) for name in ("data", "split", "fingerprint", "hash")):
        raise DataError(f"{path} does not say for which images it was made: {_CURE}")
    if not (header["seed"] is None or type(header["seed"]) is int):
        raise DataError(f"{path} has no whole number as its seed: {_CURE}")
    tensors: dict[str, Tensor] = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    protocol = _protocol(path, header["protocol"], n_way=arrays["class_ids"].shape[1])
    episodes = Episodes(**tensors, n_way=protocol.n_way)
    try:
        _check_episodes(path, episodes, protocol)
    except EpisodeError as error:
        raise DataError(f"{path} contradicts itself: {error}: {_CURE}") from error
    return episodes, protocol


def _protocol(path: Path, fields: Any, n_way: int) -> Protocol:
    """The protocol of a header, which must be of so many classes: with another number it could have any size."""
    if not isinstance(fields, dict) or not fields.keys() <= Protocol().as_dict().keys() or fields.get("n_way") != n_way:
        raise DataError(f"{path} contradicts itself: its protocol is not one of {n_way} classes: {_CURE}")
    n_shot = fields.get("n_shot", Protocol().n_shot)
    try:
        return Protocol(**{**fields, "n_shot": tuple(n_shot) if isinstance(n_shot, list) else n_shot})
    except EpisodeError as error:
        raise DataError(f"{path} contradicts itself: {shortened(str(error))}: {_CURE}") from error


def _check_episodes(path: Path, episodes: Episodes, protocol: Protocol) -> None:
    """Shapes as the protocol says, labels in range, no image both in support and in query."""
    if episodes.query_labels is None or episodes.class_ids is None:
        raise EpisodeError(f"episodes for {path} lack query labels or class ids: save those an EpisodeSampler drew")
    n_way, n_support = protocol.n_way, sum(protocol.shots)
    widths = (n_support, n_support, n_way * protocol.n_query, n_way * protocol.n_query, n_way)
    for name, width in zip(_ARRAYS, widths, strict=True):
        shape = tuple(getattr(episodes, name).shape)
        if shape != (len(episodes), width):
            needed = (len(episodes), width)
            raise EpisodeError(f"{name} has shape {shape}; needed {needed}: give the protocol that the episodes have")
    labels = torch.cat([episodes.support_labels, episodes.query_labels], dim=1)
    ids = torch.cat([episodes.support, episodes.query], dim=1).sort(dim=1).values
    if not len(episodes):
        raise EpisodeError("there is no episode: draw at least one")
    if not ((labels >= 0) & (labels < n_way)).all():
        found = f"{int(labels.min())} to {int(labels.max())}"
        raise EpisodeError(f"labels run from {found}; needed 0 to {n_way - 1}: number the classes within each episode")
    shots = episodes.support_labels.new_zeros(len(episodes), n_way)
    shots.scatter_add_(1, episodes.support_labels, torch.ones_like(episodes.support_labels))
    shots = shots.sort(dim=1).values
    if (shots != torch.tensor(sorted(protocol.shots))).any():
        raise EpisodeError(
            f"some class does not have as many labelled images as the protocol says, {protocol.n_shot}: give the "
            "protocol that the episodes have"
        )
    if len(twice := (ids[:, 1:] == ids[:, :-1]).nonzero()):
        episode, place = twice[0].tolist()
        raise EpisodeError(
            f"an image comes twice in one episode: number {int(ids[episode, place])} in episode {episode}. "
            "Draw without replacement, as EpisodeSampler does"
        )


def _check_images(path: Path, episodes: Episodes, images: ImageSet) -> None:
    """Every id is an image of the set, and of the class it is said to be."""
    ids = torch.cat([episodes.support, episodes.query], dim=1).cpu().numpy()
    ways = torch.cat([episodes.support_labels, episodes.known_query_labels], dim=1)
    if ids.size and (ids.min() < 0 or ids.max() >= len(images.labels)):
        raise DataError(
            f"{path}: image ids run from {ids.min()} to {ids.max()}, but {images.name}/{images.split} has "
            f"{len(images.labels)} images: draw the episodes from that set"
        )
    if (images.labels[ids] != episodes.classes_of(ways).cpu().numpy()).any():
        raise DataError(
            f"{path}: an image of {images.name}/{images.split} is not of the class that the episodes name: draw the "
            "episodes from that set"
        )
