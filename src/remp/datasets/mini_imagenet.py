"""miniImageNet (Vinyals et al. 2016) in the split of Ravi and Larochelle (2017): 64 / 16 / 20 classes of 600 images."""

import csv
import io
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from remp.datasets.archives import Members, open_members
from remp.datasets.decode import decode_members
from remp.datasets.image_names import is_picture, last_parts
from remp.datasets.raw import RawClass, RawSet, ReadOptions, check_counts, fixed_size, refuse_rotations
from remp.datasets.safe_pickle import as_text, load_pickle
from remp.datasets.split_lists import read_split_list
from remp.errors import DataError

_SIZE, _IMAGES_PER_CLASS = 84, 600


def read_mini_imagenet(source: Path, options: ReadOptions) -> RawSet:
    """`images/` with train.csv, val.csv and test.csv, or the three mini-imagenet-cache-*.pkl, in one folder."""
    refuse_rotations(options, "mini-imagenet")
    folder = source.parent if source.suffix == ".pkl" else source
    if any(folder.glob("*-cache-*.pkl")):
        return _read_cache(folder, options)
    return _read_images(open_members(folder), options)


def _read_images(members: Members, options: ReadOptions) -> RawSet:
    size = options.size or _SIZE
    paths = {last_parts(name, 1): name for name in members.names() if is_picture(name)}
    splits = {}
    for split, classes in read_split_list("mini-imagenet").items():
        rows = _read_csv(members, split)
        files = {name: [file for file, label in rows if label == name] for name in classes}
        check_counts({name: len(listed) for name, listed in files.items()}, _IMAGES_PER_CLASS, f"{split}.csv")
        present = {name: [paths[file] for file in listed if file in paths] for name, listed in files.items()}
        check_counts({name: len(found) for name, found in present.items()}, _IMAGES_PER_CLASS, f"{members.path}/images")
        splits[split] = {
            name: RawClass(len(found), partial(decode_members, members, found, size)) for name, found in present.items()
        }
    return RawSet(splits, (size, size, 3), "miniImageNet, images and csv files")


def _read_csv(members: Members, split: str) -> list[tuple[str, str]]:
    """(file name, class) of every image of a split."""
    found = [name for name in members.names() if last_parts(name, 1) == f"{split}.csv"]
    if len(found) != 1:
        raise DataError(
            f"{members.path} has {len(found)} {split}.csv, needed one: mini-imagenet is images/ beside train.csv, "
            "val.csv and test.csv, or mini-imagenet-cache-train.pkl, -val.pkl and -test.pkl"
        )
    reader = csv.DictReader(io.StringIO(members.read(found[0]).decode("utf-8", errors="replace")))
    rows = list(reader)
    if not {"filename", "label"} <= set(reader.fieldnames or ()):
        raise DataError(f"{members.path}/{found[0]} has columns {reader.fieldnames}, needed filename and label")
    return [(row["filename"], row["label"]) for row in rows]


def _read_cache(folder: Path, options: ReadOptions) -> RawSet:
    size = fixed_size(options, (_SIZE,), "mini-imagenet from its cache pickles")
    load = lru_cache(maxsize=1)(_load_cache)  # classes are asked for split by split: one file, 0.8 GB, is in memory
    splits = {}
    for split, classes in read_split_list("mini-imagenet").items():
        path = folder / f"mini-imagenet-cache-{split}.pkl"
        indices = load(path)["class_dict"]
        counts = {name: len(indices.get(name, ())) for name in classes}
        check_counts(counts, _IMAGES_PER_CLASS, str(path))
        splits[split] = {name: RawClass(counts[name], partial(_images_of, load, path, name)) for name in classes}
    return RawSet(splits, (size, size, 3), "miniImageNet, cache pickles")


def _images_of(load: Callable[[Path], dict[str, Any]], path: Path, name: str) -> np.ndarray:
    cache = load(path)
    return cache["image_data"][cache["class_dict"][name]]


def _load_cache(path: Path) -> dict[str, Any]:
    """image_data: uint8 (n, 84, 84, 3); class_dict: class -> its rows."""
    if not path.is_file():
        raise DataError(f"{path} is missing: mini-imagenet needs the cache pickles of train, val and test")
    with path.open("rb") as file:
        cache = as_text(load_pickle(file, str(path)))
    images = cache.get("image_data") if isinstance(cache, dict) else None
    if not isinstance(images, np.ndarray) or images.shape[1:] != (_SIZE, _SIZE, 3) or "class_dict" not in cache:
        raise DataError(f"{path} is not a mini-imagenet cache: needed image_data (n, 84, 84, 3) and class_dict")
    return {"image_data": np.asarray(images), "class_dict": as_text(cache["class_dict"])}
