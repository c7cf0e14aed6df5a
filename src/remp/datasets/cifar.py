"""CIFAR-FS (Bertinetto et al. 2019) and FC100 (Oreshkin et al. 2018): CIFAR-100 split by class, and by superclass."""

import io
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from remp.datasets.archives import Members, open_members
from remp.datasets.raw import RawClass, RawSet, ReadOptions, check_counts, fixed_size, refuse_rotations
from remp.datasets.safe_pickle import as_text, load_pickle
from remp.datasets.split_lists import read_split_list
from remp.errors import DataError

_SIZE, _IMAGES_PER_CLASS = 32, 600


def read_cifar_fs(source: Path, options: ReadOptions) -> RawSet:
    """CIFAR-FS: 64, 16 and 20 classes of 600 images."""
    _check_options(options, "cifar-fs")
    cifar = _read_official(open_members(source))
    return _as_raw_set(cifar, read_split_list("cifar-fs"), source)


def read_fc100(source: Path, options: ReadOptions) -> RawSet:
    """FC100: 12, 4 and 4 superclasses, that is 60, 20 and 20 classes of 600 images."""
    _check_options(options, "fc100")
    cifar = _read_official(open_members(source))
    superclasses = read_split_list("fc100")
    classes = {
        split: [name for parent in names for name in cifar.classes_of(parent)] for split, names in superclasses.items()
    }
    return _as_raw_set(cifar, classes, source)


def _check_options(options: ReadOptions, name: str) -> None:
    fixed_size(options, (_SIZE,), name)
    refuse_rotations(options, name)


@dataclass(frozen=True)
class _Cifar100:
    """images: uint8 (n, 32, 32, 3), those of the training file first. labels, parents: int64 (n,)."""

    images: np.ndarray
    labels: np.ndarray
    parents: np.ndarray
    class_names: list[str]
    parent_names: list[str]

    def classes_of(self, parent_name: str) -> list[str]:
        labels = self.labels[self.parents == self.parent_names.index(parent_name)]
        return [self.class_names[label] for label in np.unique(labels)]

    def images_of(self, class_name: str) -> np.ndarray:
        return self.images[self.labels == self.class_names.index(class_name)]

    def count(self, class_name: str) -> int:
        return int(np.count_nonzero(self.labels == self.class_names.index(class_name)))


def _as_raw_set(cifar: _Cifar100, classes: dict[str, list[str]], source: Path) -> RawSet:
    splits = {}
    for split, names in classes.items():
        check_counts({name: cifar.count(name) for name in names}, _IMAGES_PER_CLASS, f"{source} ({split})")
        splits[split] = {name: RawClass(cifar.count(name), partial(cifar.images_of, name)) for name in names}
    return RawSet(splits, (_SIZE, _SIZE, 3), f"CIFAR-100, {source.name}")


def _read_official(members: Members) -> _Cifar100:
    meta, *parts = (_read_member(members, name) for name in ("meta", "train", "test"))
    try:
        cifar = _Cifar100(
            images=np.concatenate([_as_images(part["data"]) for part in parts]),
            labels=np.concatenate([part["fine_labels"] for part in parts]),
            parents=np.concatenate([part["coarse_labels"] for part in parts]),
            class_names=as_text(meta["fine_label_names"]),
            parent_names=as_text(meta["coarse_label_names"]),
        )
        _check_labels(cifar)
    except (KeyError, ValueError, TypeError) as error:
        raise DataError(f"{members.path} is not laid out as cifar-100-python ({error!r}): get it again") from error
    return cifar


def _as_images(rows: np.ndarray) -> np.ndarray:
    """Rows of 3072 bytes, channels first -> (n, 32, 32, 3)."""
    if rows.dtype != np.uint8:
        raise ValueError(f"data is {rows.dtype}, not uint8")
    return np.asarray(rows).reshape(-1, 3, _SIZE, _SIZE).transpose(0, 2, 3, 1)


def _check_labels(cifar: _Cifar100) -> None:
    for labels, names in ((cifar.labels, cifar.class_names), (cifar.parents, cifar.parent_names)):
        if labels.shape != cifar.images.shape[:1] or labels.min() < 0 or labels.max() >= len(names):
            raise ValueError(f"{len(cifar.images)} images with labels {labels.shape} of {len(names)} names")


def _read_member(members: Members, name: str) -> dict[str, Any]:
    """The member cifar-100-python/`name`, unpickled."""
    found = [member for member in members.names() if member.rsplit("/", 1)[-1] == name]
    if len(found) != 1:
        raise DataError(
            f"{members.path} has {len(found)} files called {name!r}, needed one: this is not cifar-100-python.tar.gz "
            "(CIFAR-100, the Python version) or the folder cifar-100-python"
        )
    content = as_text(load_pickle(io.BytesIO(members.read(found[0])), f"{members.path}/{found[0]}"))
    if not isinstance(content, dict):
        raise DataError(f"{members.path}/{found[0]} holds a {type(content).__name__}, needed a dict: wrong file")
    return content
