"""What a reader of raw data hands over, and what readers share: split lists, names of pictures, checks of counts."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import PurePosixPath

import numpy as np

from remp.datasets.archives import Members
from remp.datasets.decode import decode_members, reads_heic
from remp.errors import DataError

LARGEST_SIDE = 1024  # pixels of a prepared image
# Folders of pictures that have no label yet: they are no class.
TO_LABEL = ("unlabelled", "unlabeled", "unsorted")
_HEIC_SUFFIXES = {".heic", ".heif"}
_SUFFIXES = {".bmp", ".gif", ".jfif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}


@dataclass(frozen=True)
class RawClass:
    """One class: how many images it has, and a function that makes them, uint8 (count, height, width, channels)."""

    count: int
    images: Callable[[], np.ndarray]


@dataclass(frozen=True)
class RawSet:
    """Everything a source holds; nothing but counts is in memory until a class's images are asked for.

    splits: split -> class name -> RawClass. image_size: (height, width, channels). source: what it was read from.
    notes: what the user should know, as whole sentences.
    """

    splits: Mapping[str, Mapping[str, RawClass]]
    image_size: tuple[int, int, int]
    source: str
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for split, classes in self.splits.items():
            if not classes:
                raise DataError(f"{self.source} has no classes for {split}: it is another data set or damaged")


@dataclass(frozen=True)
class ReadOptions:
    """How `prepare` reads raw data. A reader refuses what it has no use for.

    Parameters
    ----------
    size : int, optional
        Pixels per side, 8 … 1024; by default the data set's own.
    rotations : bool
        Add every class turned by 90, 180 and 270 degrees as a class of its own (omniglot).
    seed : int
        Of the split of the classes, where the source has none (folder).

    Examples
    --------
    >>> from remp import ReadOptions
    >>> ReadOptions(size=48)
    ReadOptions(size=48, rotations=False, seed=0)
    """

    size: int | None = None
    rotations: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.size is not None and not 8 <= self.size <= LARGEST_SIDE:
            raise DataError(f"size is {self.size}; needed 8 to {LARGEST_SIDE} pixels")


def check_counts(counts: Mapping[str, int], expected: int, where: str) -> None:
    """Raise DataError naming the first class that has not `expected` images."""
    wrong = {name: count for name, count in counts.items() if count != expected}
    if wrong:
        name, count = next(iter(wrong.items()))
        others = f" ({len(wrong) - 1} more classes are wrong too)" if len(wrong) > 1 else ""
        raise DataError(
            f"class {name!r} of {where} has {count} images, needed {expected}{others}: "
            "the download is incomplete or another data set; get it again"
        )


def decoded_classes(members: Members, files: Mapping[str, list[str]], size: int) -> dict[str, RawClass]:
    """Classes of pictures in an archive or folder, in colour. files: class -> names of its pictures."""
    return {
        name: RawClass(len(pictures), partial(decode_members, members, pictures, size))
        for name, pictures in files.items()
    }


def check_size(options: ReadOptions, allowed: tuple[int, ...], name: str) -> None:
    """Raise DataError if another size than one of `allowed` was asked for."""
    if options.size not in (None, *allowed):
        choices = " or ".join(str(choice) for choice in allowed)
        raise DataError(f"{name} is prepared at {choices} pixels, got --size {options.size}")


def read_split_list(name: str) -> dict[str, list[str]]:
    """The classes of each split of data set `name`, in the published order: split -> class names."""
    path = resources.files("remp.datasets") / "splits" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))


def group_by_folder(names: Iterable[str]) -> dict[str, list[str]]:
    """Folder -> its pictures, both sorted; hidden files and what systems leave in archives do not count."""
    folders: dict[str, list[str]] = {}
    for name in sorted(names):
        if is_picture(name):
            folders.setdefault(str(PurePosixPath(name).parent), []).append(name)
    return folders


def is_picture(name: str) -> bool:
    """Whether `name` ends like a picture and no part of its path is hidden."""
    path = PurePosixPath(name)
    hidden = any(part.startswith(".") or part == "__MACOSX" for part in path.parts)
    suffix = path.suffix.lower()
    return not hidden and (suffix in _SUFFIXES or (suffix in _HEIC_SUFFIXES and reads_heic()))


def last_parts(folder: str, n: int) -> str:
    """The last `n` parts of a path: `Alphabet/character01` of `images_background/Alphabet/character01` for 2."""
    return "/".join(PurePosixPath(folder).parts[-n:])
