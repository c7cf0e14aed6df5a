"""Prepared image sets: one memory-mapped uint8 array a split, beside an index with a fingerprint."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap

from remp.errors import DataError
from remp.home import home

SPLITS = ("train", "val", "test")
FORMAT = 1

# The images of one class, uint8 (n, height, width, channels), made when they are asked for.
ClassImages = Callable[[], np.ndarray]
# split -> class name -> its images
SplitImages = Mapping[str, Mapping[str, ClassImages]]


@dataclass(frozen=True)
class ImageSet:
    """The images of one split, sorted by class.

    images: uint8 (n, height, width, channels), memory-mapped. labels: int64 (n,), 0 … n_classes - 1.
    mean, std: per channel in [0, 1], of the *training* images whatever the split.
    """

    name: str
    split: str
    images: np.ndarray
    labels: np.ndarray
    class_names: tuple[str, ...]
    fingerprint: str
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def n_classes(self) -> int:
        return len(self.class_names)

    @property
    def image_size(self) -> tuple[int, int, int]:
        """(height, width, channels)"""
        return self.images.shape[1:]


def prepared_folder(name: str) -> Path:
    """Where the prepared set `name` lies, or would lie."""
    return home() / "data" / name


def read_index(name: str) -> dict[str, Any]:
    """The index of a prepared set: source, sizes, splits, fingerprints."""
    path = prepared_folder(name) / "index.json"
    if not path.is_file():
        raise DataError(
            f"data set {name!r} is not prepared (no {path}). "
            f"Prepare it with: remp data prepare {name} --from PATH   (names: remp data list)"
        )
    index = json.loads(path.read_text(encoding="utf-8"))
    if index.get("format") != FORMAT:
        raise DataError(
            f"{path} has format {index.get('format')!r}, this version of remp reads {FORMAT}: prepare it again"
        )
    return index


def open_prepared(name: str, split: str) -> ImageSet:
    """Open one split of a prepared set; takes milliseconds whatever its size."""
    index = read_index(name)
    if split not in index["splits"]:
        raise DataError(f"data set {name!r} has no split {split!r}; it has: {', '.join(index['splits'])}")
    entry = index["splits"][split]
    path = prepared_folder(name) / f"{split}.npy"
    try:
        images = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path} cannot be opened ({error}): prepare {name!r} again with remp data prepare --force"
        ) from error
    expected = (sum(entry["counts"]), *index["image_size"])
    if images.shape != expected or images.dtype != np.uint8:
        raise DataError(f"{path} holds {images.dtype} {images.shape}, its index says uint8 {expected}: prepare again")
    return ImageSet(
        name=name,
        split=split,
        images=images,
        labels=np.repeat(np.arange(len(entry["counts"]), dtype=np.int64), entry["counts"]),
        class_names=tuple(entry["classes"]),
        fingerprint=entry["fingerprint"],
        mean=tuple(index["mean"]),
        std=tuple(index["std"]),
    )


def write_prepared(
    name: str,
    splits: SplitImages,
    *,
    image_size: tuple[int, int, int],
    counts: Mapping[str, Iterable[int]],
    source: str,
    overwrite: bool = False,
    on_class: Callable[[str, str], None] = lambda split, class_name: None,
) -> dict[str, Any]:
    """Write a prepared set and return its index.

    Everything is written into a hidden folder beside the target and renamed at the end, so a set either is there whole
    or not at all. `counts` gives the images of each class in the order of `splits`; `on_class` is told of each class
    that is done.
    """
    target = prepared_folder(name)
    if target.exists() and not overwrite:
        raise DataError(f"{name!r} is prepared already in {target}; pass --force to prepare it again")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{name}.partial-", dir=target.parent))
    try:
        index = _write_into(partial, name, splits, image_size=image_size, counts=counts, source=source, done=on_class)
        _replace_folder(partial, target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return index


def _write_into(
    folder: Path,
    name: str,
    splits: SplitImages,
    *,
    image_size: tuple[int, int, int],
    counts: Mapping[str, Iterable[int]],
    source: str,
    done: Callable[[str, str], None],
) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    mean, std = [0.5] * image_size[2], [0.25] * image_size[2]
    for split, classes in splits.items():
        n_images = [int(n) for n in counts[split]]
        array = open_memmap(
            folder / f"{split}.npy", mode="w+", dtype=np.uint8, shape=(sum(n_images), *image_size), version=(1, 0)
        )
        digest = hashlib.sha256(json.dumps([list(classes), n_images, image_size]).encode())
        start = 0
        total, squares = np.zeros(image_size[2]), np.zeros(image_size[2])
        for (class_name, images), n in zip(classes.items(), n_images, strict=True):
            block = np.ascontiguousarray(images())
            if block.shape != (n, *image_size) or block.dtype != np.uint8:
                raise DataError(
                    f"class {class_name!r} of {split}: got {block.dtype} {block.shape}, needed uint8 {(n, *image_size)}"
                )
            array[start : start + n] = block
            digest.update(block.tobytes())
            total += block.sum(axis=(0, 1, 2), dtype=np.float64)
            squares += np.square(block, dtype=np.float64).sum(axis=(0, 1, 2))
            start += n
            done(split, class_name)
        array.flush()
        del array
        entries[split] = {"classes": list(classes), "counts": n_images, "fingerprint": digest.hexdigest()}
        if split == "train" or (split == next(iter(splits)) and "train" not in splits):
            mean, std = _pixel_statistics(total, squares, sum(n_images) * image_size[0] * image_size[1])
    index = {
        "format": FORMAT,
        "name": name,
        "source": source,
        "image_size": list(image_size),
        "mean": mean,
        "std": std,
        "splits": entries,
    }
    (folder / "index.json").write_text(json.dumps(index, indent=1, ensure_ascii=False), encoding="utf-8")
    return index


def _pixel_statistics(total: np.ndarray, squares: np.ndarray, n: int) -> tuple[list[float], list[float]]:
    """Mean and standard deviation per channel, in [0, 1]; a constant channel gets 1 so that nothing divides by zero."""
    mean = total / max(n, 1) / 255
    variance = squares / max(n, 1) / 255**2 - mean**2
    std = np.where(variance > 1e-8, np.sqrt(np.maximum(variance, 1e-8)), 1.0)
    return mean.round(6).tolist(), std.round(6).tolist()


def _replace_folder(new: Path, target: Path) -> None:
    """Put `new` where `target` is; the old one goes only after the new one stands ready."""
    if target.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{target.name}.old-", dir=target.parent))
        os.replace(target, old / "set")
        os.replace(new, target)
        shutil.rmtree(old, ignore_errors=True)
    else:
        os.replace(new, target)
