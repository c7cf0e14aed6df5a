"""Prepared image sets: one memory-mapped uint8 array per split, beside an index with a fingerprint."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.lib.format import dtype_to_descr, write_array_header_1_0

from remp.datasets.raw import LARGEST_SIDE, RawSet
from remp.errors import DataError
from remp.system.files import home, remove_abandoned
from remp.untrusted import border, shortened

SPLITS = ("train", "val", "test")
FORMAT = 1
_AGAIN = "prepare the data set again with remp data prepare --force"


@dataclass(frozen=True)
class ImageSet:
    """The images of one split, sorted by class. `open_data` returns it.

    Parameters
    ----------
    name, split : str
        Which data set and which of its splits.
    images : array
        uint8 (n, height, width, channels), memory-mapped.
    labels : array
        int64 (n,), 0 … n_classes - 1.
    class_names : tuple of str
        One name for each class.
    fingerprint : str
        The same on two machines only if they have the same images.
    mean, std : tuple of float
        For each channel in [0, 1], of the *training* images whatever the split.

    Examples
    --------
    >>> import remp
    >>> images = remp.open_data("glyphs", "val")
    >>> images.image_size, images.images.dtype.name
    ((32, 32, 1), 'uint8')
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
        """Number of classes."""
        return len(self.class_names)

    @property
    def image_size(self) -> tuple[int, int, int]:
        """(height, width, channels)"""
        return self.images.shape[1:]


def prepared_folder(name: str) -> Path:
    """Where the prepared set `name` lies, or would lie."""
    return home() / "data" / name


def list_prepared() -> list[str]:
    """The names of all prepared sets, sorted."""
    return sorted(path.parent.name for path in (home() / "data").glob("[!.]*/index.json"))


def read_index(name: str) -> dict[str, Any]:
    """The index of a prepared set: source, sizes, splits, fingerprints."""
    path = prepared_folder(name) / "index.json"
    if not path.is_file():
        raise DataError(
            f"data set {name!r} is not prepared (no {path}). "
            f"Prepare it with: remp data prepare {name} --from PATH   (names: remp data list)"
        )
    with border(f"{path} is damaged", _AGAIN):
        index = json.loads(path.read_text(encoding="utf-8", errors="surrogatepass"))
    found = index.get("format") if isinstance(index, dict) else None
    if found != FORMAT:
        raise DataError(f"{path} has format {shortened(repr(found))}, this version of remp reads {FORMAT}: {_AGAIN}")
    if not _is_index(index):
        raise DataError(f"{path} lacks classes, counts, sizes or statistics, or they contradict each other: {_AGAIN}")
    return index


def _is_index(index: dict[str, Any]) -> bool:
    """Whether everything that is read from an index is there and of its kind."""
    size: Any = index.get("image_size")
    splits = index.get("splits")
    return (
        _are(size, int, 3)
        and all(0 < side <= LARGEST_SIDE for side in size[:2])
        and size[2] in (1, 3)
        and all(_are(index.get(name), float, size[2]) for name in ("mean", "std"))
        and all(1e-6 <= deviation <= 1 for deviation in index["std"])  # others make numbers that are not finite
        and all(0 <= mean <= 1 for mean in index["mean"])
        and isinstance(splits, dict)
        and all(isinstance(entry, dict) and _is_entry(entry) for entry in splits.values())
    )


def _is_entry(entry: dict[str, Any]) -> bool:
    classes = entry.get("classes")
    counts: Any = entry.get("counts")
    return (
        isinstance(classes, list)
        and all(isinstance(name, str) for name in classes)
        and _are(counts, int, len(classes))
        and all(0 <= count < 2**48 for count in counts)
        and isinstance(entry.get("fingerprint"), str)
    )


def _are(values: Any, kind: type, n: int) -> bool:
    """Whether these are so many finite numbers, whole ones if `kind` is int."""
    numbers = (int,) if kind is int else (int, float)
    return isinstance(values, list) and len(values) == n and all(type(v) in numbers and abs(v) < 1e300 for v in values)


def open_prepared(name: str, split: str) -> ImageSet:
    """Open one split of a prepared set; takes milliseconds whatever its size."""
    index = read_index(name)
    if split not in index["splits"]:
        raise DataError(f"data set {name!r} has no split {split!r}; it has: {', '.join(index['splits'])}")
    entry = index["splits"][split]
    path = prepared_folder(name) / f"{split}.npy"
    with border(f"{path} cannot be opened", _AGAIN):
        images = np.load(path, mmap_mode="r", allow_pickle=False)
    expected = (sum(entry["counts"]), *index["image_size"])
    if not isinstance(images, np.ndarray) or images.shape != expected or images.dtype != np.uint8:
        got = f"{images.dtype} {images.shape}" if isinstance(images, np.ndarray) else "no single array"
        raise DataError(f"{path} holds {got}, its index says uint8 {expected}: {_AGAIN}")
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
    raw: RawSet,
    *,
    overwrite: bool = False,
    on_class: Callable[[str, str], None] = lambda split, class_name: None,
) -> dict[str, Any]:
    """Write a prepared set and return its index.

    Everything is written into a hidden folder beside the target and renamed at the end, so a set either is there whole
    or not at all. `on_class` is told of each class that is done.
    """
    check_not_prepared(name, overwrite=overwrite)
    target = prepared_folder(name)
    target.parent.mkdir(parents=True, exist_ok=True)
    hidden = f".{name}.partial-"
    remove_abandoned(target.parent, hidden)
    partial = Path(tempfile.mkdtemp(prefix=hidden, dir=target.parent))
    try:
        index = {"format": FORMAT, "name": name, "source": raw.source, "image_size": list(raw.image_size)}
        index |= _write_splits(partial, raw, on_class)
        content = json.dumps(index, indent=1, ensure_ascii=False)
        # a folder may have a name that is not UTF-8
        (partial / "index.json").write_text(content, encoding="utf-8", errors="surrogatepass")
        partial.chmod(0o755)
        _replace_folder(partial, target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return index


def check_not_prepared(name: str, *, overwrite: bool) -> None:
    """Raise DataError if a set of that name is prepared already and may not be overwritten."""
    target = prepared_folder(name)
    if target.exists() and not overwrite:
        raise DataError(f"{name!r} is prepared already in {target}; pass --force to prepare it again")


def _write_splits(folder: Path, raw: RawSet, on_class: Callable[[str, str], None]) -> dict[str, Any]:
    writers = {}
    for split, classes in raw.splits.items():
        counts = [found.count for found in classes.values()]
        writer = SplitWriter(folder / f"{split}.npy", list(classes), counts, raw.image_size)
        with writer:
            for class_name, found in classes.items():
                writer.add(found.images())
                on_class(split, class_name)
        writers[split] = writer
    mean, std = writers.get("train", next(iter(writers.values()))).pixel_statistics()
    return {"mean": mean, "std": std, "splits": {split: writer.entry() for split, writer in writers.items()}}


def _replace_folder(new: Path, target: Path) -> None:
    """Put `new` where `target` is; the old one goes only after the new one stands ready."""
    if target.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{target.name}.old-", dir=target.parent))
        os.replace(target, old / "set")
        try:
            os.replace(new, target)
        except OSError:
            os.replace(old / "set", target)
            raise
        finally:
            shutil.rmtree(old, ignore_errors=True)
    else:
        os.replace(new, target)


class SplitWriter:
    """A context that takes the classes of a split in their order: `add(images)` once for each.

    Plain writes, not a memory map: on a full disk a map kills the process, a write raises OSError.
    """

    def __init__(self, path: Path, classes: list[str], counts: list[int], image_size: tuple[int, int, int]) -> None:
        self._path, self._classes, self._counts, self._image_size = path, classes, counts, image_size
        self._digest = hashlib.sha256(json.dumps([classes, counts, image_size]).encode())
        self._histogram = np.zeros((image_size[2], 256), dtype=np.int64)
        self._n_added = 0

    def __enter__(self) -> "SplitWriter":
        self._file = self._path.open("wb")
        shape = (sum(self._counts), *self._image_size)
        header = {"descr": dtype_to_descr(np.dtype(np.uint8)), "fortran_order": False, "shape": shape}
        write_array_header_1_0(self._file, header)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._file:
            if error is None:
                self._file.flush()
                os.fsync(self._file.fileno())

    def add(self, images: np.ndarray) -> None:
        """Append the next class: uint8 (its count, height, width, channels)."""
        needed = (self._counts[self._n_added], *self._image_size)
        if images.shape != needed or images.dtype != np.uint8:
            name = self._classes[self._n_added]
            raise DataError(f"class {name!r}: got {images.dtype} {images.shape}, needed uint8 {needed}")
        content = images.tobytes()
        self._file.write(content)
        self._digest.update(content)
        for channel, histogram in enumerate(self._histogram):
            histogram += np.bincount(images[..., channel].ravel(), minlength=256)
        self._n_added += 1

    def entry(self) -> dict[str, Any]:
        """What the index says of the split."""
        return {"classes": self._classes, "counts": self._counts, "fingerprint": self._digest.hexdigest()}

    def pixel_statistics(self) -> tuple[list[float], list[float]]:
        """Mean and standard deviation per channel, in [0, 1]; a constant channel gets 1: nobody divides by 0."""
        values = np.arange(256) / 255
        weights = self._histogram / np.maximum(self._histogram.sum(axis=1, keepdims=True), 1)
        mean = weights @ values
        variance = weights @ values**2 - mean**2
        std = np.where(variance > 1e-8, np.sqrt(np.maximum(variance, 1e-8)), 1.0)
        return mean.round(6).tolist(), std.round(6).tolist()
