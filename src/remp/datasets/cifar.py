"""CIFAR-FS (Bertinetto et al. 2019) and FC100 (Oreshkin et al. 2018): CIFAR-100 split by class, and by superclass."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from remp.datasets.archives import Members, open_members
from remp.datasets.raw import (
    RawClass,
    RawSet,
    ReadOptions,
    check_counts,
    decoded_classes,
    group_by_folder,
    last_parts,
    read_split_list,
)
from remp.datasets.safe_pickle import as_text, get_images, get_names, get_numbers, load_pickle
from remp.errors import DataError

_SIZE, _IMAGES_PER_CLASS = 32, 600


def read_cifar_fs(source: Path, options: ReadOptions) -> RawSet:
    """CIFAR-FS: 64, 16 and 20 classes of 600 images; also from the R2D2 authors' zip, `cifar100/data/class/*.png`."""
    members, classes = open_members(source), read_split_list("cifar-fs")
    folders = {last_parts(folder, 1): names for folder, names in group_by_folder(members.names()).items()}
    if folders:
        return _read_folders(members, folders, classes)
    return _as_raw_set(_read_official(members), classes, members)


def read_fc100(source: Path, options: ReadOptions) -> RawSet:
    """FC100: 12, 4 and 4 superclasses, that is 60, 20 and 20 classes of 600 images."""
    members = open_members(source)
    cifar = _read_official(members)
    splits = read_split_list("fc100")
    children = {parent: cifar.classes_of(parent) for parents in splits.values() for parent in parents}
    for parent, found in children.items():
        if not found:
            raise DataError(f"{members.path} has no class of the superclass {parent!r}: get cifar-100-python again")
    classes = {split: [name for parent in parents for name in children[parent]] for split, parents in splits.items()}
    return _as_raw_set(cifar, classes, members)


@dataclass(frozen=True)
class _Cifar100:
    """images: uint8 (n, 32, 32, 3), those of the training file first. labels, parents: int64 (n,)."""

    images: np.ndarray
    labels: np.ndarray
    parents: np.ndarray
    class_names: list[str]
    parent_names: list[str]

    def classes_of(self, parent_name: str) -> list[str]:
        """The classes of a superclass; none if that is not there."""
        parent = self.parent_names.index(parent_name) if parent_name in self.parent_names else -1
        labels = self.labels[self.parents == parent]
        return [self.class_names[label] for label in np.unique(labels)]

    def raw_class(self, class_name: str) -> RawClass:
        """A class; without images if that is not there."""
        label = self.class_names.index(class_name) if class_name in self.class_names else -1
        rows = np.flatnonzero(self.labels == label)
        return RawClass(len(rows), lambda: self.images[rows])


def _as_raw_set(cifar: _Cifar100, classes: dict[str, list[str]], members: Members) -> RawSet:
    splits = {}
    for split, names in classes.items():
        splits[split] = {name: cifar.raw_class(name) for name in names}
        counts = {name: found.count for name, found in splits[split].items()}
        check_counts(counts, _IMAGES_PER_CLASS, f"{members.path} ({split})")
    return RawSet(splits, (_SIZE, _SIZE, 3), "CIFAR-100, the official archive")


def _read_folders(members: Members, folders: dict[str, list[str]], classes: dict[str, list[str]]) -> RawSet:
    splits = {}
    for split, names in classes.items():
        files = {name: folders.get(name, []) for name in names}
        check_counts({name: len(files[name]) for name in names}, _IMAGES_PER_CLASS, f"{members.path} ({split})")
        splits[split] = decoded_classes(members, files, _SIZE)
    return RawSet(splits, (_SIZE, _SIZE, 3), "CIFAR-100, a folder per class")


def _read_official(members: Members) -> _Cifar100:
    meta, train, test = (_read_member(members, name) for name in ("meta", "train", "test"))
    cifar = _Cifar100(
        images=np.concatenate([_as_images(part, members) for part in (train, test)]),
        labels=_both(train, test, "fine_labels", members),
        parents=_both(train, test, "coarse_labels", members),
        class_names=get_names(meta, "fine_label_names", f"{members.path}/meta"),
        parent_names=get_names(meta, "coarse_label_names", f"{members.path}/meta"),
    )
    for labels, known in ((cifar.labels, cifar.class_names), (cifar.parents, cifar.parent_names)):
        if len(labels) != len(cifar.images) or not ((labels >= 0) & (labels < len(known))).all():
            raise DataError(
                f"{members.path} is not laid out as cifar-100-python: {len(cifar.images)} images have {len(labels)} "
                f"labels of {len(known)} names. Get it again"
            )
    return cifar


def _as_images(part: dict[str, Any], members: Members) -> np.ndarray:
    """Rows of 3072 bytes, channels first -> (n, 32, 32, 3)."""
    rows = get_images(part, "data", str(members.path), (3 * _SIZE * _SIZE,))
    return rows.reshape(-1, 3, _SIZE, _SIZE).transpose(0, 2, 3, 1)


def _both(train: dict[str, Any], test: dict[str, Any], key: str, members: Members) -> np.ndarray:
    return np.concatenate([get_numbers(part, key, str(members.path)) for part in (train, test)])


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
