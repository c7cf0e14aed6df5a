"""miniImageNet (Vinyals et al. 2016) in the split of Ravi and Larochelle (2017): 64 / 16 / 20 classes of 600 images."""

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from remp.datasets.archives import Members, open_members
from remp.datasets.raw import (
    RawClass,
    RawSet,
    ReadOptions,
    check_counts,
    check_size,
    decoded_classes,
    is_picture,
    last_parts,
    read_split_list,
)
from remp.datasets.safe_pickle import as_text, get_images, get_numbers, load_pickle
from remp.errors import DataError
from remp.untrusted import border, listed

_SIZE, _IMAGES_PER_CLASS = 84, 600
_CSV_BYTES = 2**22  # the largest, train.csv, has 1.2 million


def read_mini_imagenet(source: Path, options: ReadOptions) -> RawSet:
    """`images/` with train.csv, val.csv and test.csv, or the three mini-imagenet-cache-*.pkl, in one folder."""
    folder = source.parent if source.suffix == ".pkl" else source
    if any(folder.glob("*-cache-*.pkl")):
        return _read_cache(folder, options)
    return _read_images(open_members(folder), options)


def _read_images(members: Members, options: ReadOptions) -> RawSet:
    size = options.size or _SIZE
    paths = {last_parts(name, 1): name for name in members.names() if is_picture(name)}
    splits = {}
    for split, classes in read_split_list("mini-imagenet").items():
        files = _read_csv(members, split, classes)
        check_counts({name: len(listed) for name, listed in files.items()}, _IMAGES_PER_CLASS, f"{split}.csv")
        present = {name: [paths[file] for file in listed if file in paths] for name, listed in files.items()}
        check_counts({name: len(found) for name, found in present.items()}, _IMAGES_PER_CLASS, f"{members.path}/images")
        splits[split] = decoded_classes(members, present, size)
    return RawSet(splits, (size, size, 3), "miniImageNet, images and csv files")


def _read_csv(members: Members, split: str, classes: list[str]) -> dict[str, list[str]]:
    """Class -> the file names of its images."""
    found = [name for name in members.names() if last_parts(name, 1) == f"{split}.csv"]
    if len(found) != 1:
        raise DataError(
            f"{members.path} has {len(found)} {split}.csv, needed one: mini-imagenet is images/ beside train.csv, "
            "val.csv and test.csv, or mini-imagenet-cache-train.pkl, -val.pkl and -test.pkl"
        )
    content = members.read(found[0])
    if len(content) > _CSV_BYTES:
        raise DataError(
            f"{members.path}/{found[0]} has {len(content):,} bytes, far more than {split}.csv: get it again"
        )
    files: dict[str, list[str]] = {name: [] for name in classes}
    with border(f"{members.path}/{found[0]} is not CSV", "get it again"):
        reader = csv.DictReader(io.StringIO(content.decode("utf-8", errors="replace")))
        columns = list(reader.fieldnames or ())
        for row in reader:
            if row.get("label") in files:
                files[row["label"]].append(row.get("filename") or "")
    if not {"filename", "label"} <= set(columns):
        raise DataError(f"{members.path}/{found[0]} has columns {listed(columns)}, needed filename and label")
    return files


def _read_cache(folder: Path, options: ReadOptions) -> RawSet:
    check_size(options, (_SIZE,), "mini-imagenet from its cache pickles")
    load = lru_cache(maxsize=1)(_load_cache)  # classes are asked for split by split: one file, 0.8 GB, is in memory
    splits = {}
    for split, classes in read_split_list("mini-imagenet").items():
        path = folder / f"mini-imagenet-cache-{split}.pkl"
        counts = {name: len(rows) for name, rows in load(path).rows_of(classes).items()}
        check_counts(counts, _IMAGES_PER_CLASS, str(path))
        splits[split] = {name: RawClass(counts[name], partial(_images_of, load, path, name)) for name in classes}
    return RawSet(splits, (_SIZE, _SIZE, 3), "miniImageNet, cache pickles")


def _images_of(load: Callable[[Path], "_Cache"], path: Path, name: str) -> np.ndarray:
    cache = load(path)
    return cache.images[cache.rows_of([name])[name]]


@dataclass(frozen=True)
class _Cache:
    """images: uint8 (n, 84, 84, 3). rows: class -> its rows, as they stand in the file."""

    path: Path
    images: np.ndarray
    rows: dict[str, Any]

    def rows_of(self, classes: list[str]) -> dict[str, np.ndarray]:
        """Class -> its rows (k,), none if it is not there."""
        found = {name: get_numbers({name: self.rows.get(name, [])}, name, str(self.path)) for name in classes}
        for name, rows in found.items():
            if len(rows) and not 0 <= rows.min() <= rows.max() < len(self.images):
                raise DataError(
                    f"{self.path} says that {name!r} has image {rows.max()}, but it has {len(self.images)} images: "
                    "it is damaged, get it again"
                )
        return found


def _load_cache(path: Path) -> _Cache:
    if not path.is_file():
        raise DataError(f"{path} is missing: mini-imagenet needs the cache pickles of train, val and test")
    with path.open("rb") as file:
        cache = as_text(load_pickle(file, str(path)))
    rows = as_text(cache.get("class_dict")) if isinstance(cache, dict) else None
    if not isinstance(rows, dict):
        raise DataError(f"{path} is not a mini-imagenet cache: needed image_data (n, 84, 84, 3) and class_dict")
    return _Cache(path, get_images(cache, "image_data", str(path), (_SIZE, _SIZE, 3)), rows)
