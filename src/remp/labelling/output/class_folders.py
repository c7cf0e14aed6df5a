"""A folder for each class, with copies of the pictures or links to them."""

import os
import re
import shutil
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from remp.labelling.outcome import STATUSES, Labelling

Way = Literal["copy", "link"]

_LONGEST = 240  # bytes of a name; most disks take 255, and a number may follow
_RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10))}
_UNSAFE = re.compile(r'[/\\:*?"<>|\x00-\x1f\x7f]')


def write_class_folders(labelling: Labelling, folder: Path, way: Way) -> None:
    """Fill `classes/CLASS/`, and `uncertain/` and `unknown/` where there are such pictures."""
    places = [f"classes/{name}" for name in class_folder_names(labelling.task.class_names).values()]
    pictures = zip(labelling.task.paths, labelling.labels, labelling.status, strict=True)
    put_all(
        ((path, places[label] if label >= 0 else STATUSES[status]) for path, label, status in pictures), folder, way
    )


def class_folder_names(class_names: Iterable[str]) -> dict[str, str]:
    """Class -> the name of its folder, which every system can have; no two are the same."""
    taken = FreeNames()
    return {name: taken.new(safe_name(name)) for name in class_names}


def put_all(pictures: Iterable[tuple[Path, str]], folder: Path, way: Way) -> None:
    """Put each picture into its place, a folder below `folder`; files of the same name get a number."""
    taken: dict[str, FreeNames] = {}
    for path, place in pictures:
        if place not in taken:
            (folder / place).mkdir(parents=True, exist_ok=True)
            taken[place] = FreeNames()
        put(path, folder / place / taken[place].new(path.name), way)


def safe_name(name: str) -> str:
    """A name that is one folder on every system and never a way out of it: `a/b` becomes `a_b`."""
    safe = _UNSAFE.sub("_", name).strip().rstrip(". ")
    if not safe.strip("._"):
        safe = safe.replace(".", "_") or "_"
    if safe.partition(".")[0].casefold() in _RESERVED or safe.startswith("."):
        safe = f"_{safe}"
    return _shortened(safe)


class FreeNames:
    """Names in one folder, told apart by a number. Case, and how accents are stored, make no difference to some
    disks."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def new(self, name: str) -> str:
        """The name, or the first of `x-2.jpg`, `x-3.jpg` … that is free."""
        chosen, key = name, _folded(name)
        while _folded(chosen) in self._taken:
            self._next[key] = self._next.get(key, 1) + 1
            stem, suffix = os.path.splitext(name)
            chosen = f"{_shortened(stem, len(os.fsencode(suffix)))}-{self._next[key]}{suffix}"
        self._taken.add(_folded(chosen))
        return chosen


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _shortened(name: str, room: int = 0) -> str:
    """At most so many bytes, and no half characters; bytes that are no UTF-8 stay as they are."""
    name = name[:_LONGEST]
    while len(os.fsencode(name)) > _LONGEST - room:
        name = name[:-1]
    return name


def put(path: Path, target: Path, way: Way) -> None:
    """A copy of a picture, or a relative link to it: folder and result can move together. Where links cannot be made,
    the same file twice."""
    if way == "copy":
        shutil.copy2(path, target)
        return
    try:
        target.symlink_to(os.path.relpath(os.path.realpath(path), os.path.realpath(target.parent)))
    except (NotImplementedError, OSError, ValueError):  # ValueError: on another drive of Windows
        os.link(path, target)
