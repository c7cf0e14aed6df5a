"""A folder of pictures as a task: its sub-folders are classes, or a file gives labels; the rest is to be labelled."""

import os
import unicodedata
from collections import deque
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from remp.datasets.decode import HEIC
from remp.datasets.raw import TO_LABEL, is_picture
from remp.errors import DataError
from remp.labelling.tasks import Items, make_task
from remp.labelling.tasks.label_table import (
    FILE_COLUMNS,
    LabelRow,
    check_encoding,
    keep_label,
    read_label_studio,
    read_label_table,
)
from remp.untrusted import shortened

_SYSTEM = {"__macosx", "@eadir", "$recycle.bin", "system volume information", "desktop.ini", "thumbs.db"}
_NO_PICTURE = "not a picture"
# What a user takes for a picture and the decoder does not.
_UNREAD = (
    ".arw",
    ".avif",
    ".cr2",
    ".cr3",
    ".dng",
    ".eps",
    ".jp2",
    ".jxl",
    ".nef",
    ".orf",
    ".psd",
    ".raf",
    ".rw2",
    ".svg",
    ".xcf",
)


@dataclass
class PictureTree:
    """names: paths below the folder with "/", sorted. folders: the visible folders directly in it. skipped: (name,
    reason) of all else that is not hidden."""

    names: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)


def folder_task(folder: Path) -> Items:
    """Pictures in `cat/` and below it are examples of cat; loose ones and those in `unlabelled/` are to be labelled."""
    tree = find_pictures(folder)
    classes = [class_of(name) for name in tree.names]
    skipped = (*tree.skipped, *_empty_classes(tree))
    return make_task(tree.names, classes, folder=folder, skipped=skipped)


def listed_task(folder: Path, labels: Path) -> Items:
    """All pictures below the folder; those with a label in the file are examples, whatever folder they lie in. Paths in
    the file are relative to the folder or to the file."""
    is_json = labels.suffix.casefold() == ".json"
    tree, rows = find_pictures(folder), read_label_studio(labels) if is_json else read_label_table(labels, FILE_COLUMNS)
    finder = _Finder(folder, labels, tree.names)
    given: dict[int, LabelRow] = {}
    own = os.path.realpath(labels)
    skipped = [(name, reason) for name, reason in tree.skipped if os.path.realpath(folder / name) != own]
    n_skipped = len(skipped)
    for row in rows:
        number = finder.find(row.key)
        if number is None:
            check_encoding(row.key, labels, row.line)  # names of files may have any bytes, but this is none
            skipped.append((row.key, f"listed in {labels.name}, but no picture in the folder"))
        elif row.label is not None:
            keep_label(given, number, row, labels)
    if rows and len(skipped) - n_skipped == len(rows):
        raise DataError(
            f"none of the {len(rows)} files in {labels} is a picture in {folder}; the first is {rows[0].key!r}. "
            "Paths are relative to the folder or to that file"
        )
    classes = [given[number].label if number in given else None for number in range(len(tree.names))]
    return make_task(tree.names, classes, folder=folder, skipped=skipped)


def class_of(name: str) -> str | None:
    outermost, _, rest = name.partition("/")
    return outermost if rest and outermost.casefold() not in TO_LABEL else None


def _empty_classes(tree: PictureTree) -> list[tuple[str, str]]:
    """Folders that look like classes and hold no picture; one with a picture that cannot be read is named already."""
    unreadable = (name for name, reason in tree.skipped if not reason.endswith(_NO_PICTURE))
    filled = {name.partition("/")[0] for name in [*tree.names, *unreadable]}
    named = [folder for folder in tree.folders if folder not in filled and folder.casefold() not in TO_LABEL]
    return [(folder, "a folder without pictures is not a class") for folder in named]


def find_pictures(folder: Path) -> PictureTree:
    """Look through a folder and all below it, links too. Each folder is entered once, by its own name rather than by a
    link to it, so that links in a circle end. Hidden files and what systems leave behind do not count."""
    if not folder.is_dir():
        raise DataError(f"{str(folder)!r} is not a folder: give one with pictures, or --embeddings for a file")
    tree, own, links = PictureTree(), deque([""]), deque[str]()
    entered: set[tuple[int, int]] = set()
    while own or links:
        below = own.popleft() if own else links.popleft()
        if not _is_new(folder / below, entered):
            tree.skipped.append((below, "a link to a folder that is read already"))
            continue
        for entry in _entries(folder, below, tree):
            name, suffix = (f"{below}/{entry.name}" if below else entry.name), os.path.splitext(entry.name)[1]
            if _is_folder(entry):
                (links if entry.is_symlink() else own).append(name)
                if not below:
                    tree.folders.append(name)
            elif reason := _why_unusable(entry) if _is_read(suffix) else _why_no_picture(suffix.casefold()):
                tree.skipped.append((name, reason))
            else:
                tree.names.append(name)
    tree.names.sort()
    tree.skipped.sort()
    return tree


def _is_new(folder: Path, entered: set[tuple[int, int]]) -> bool:
    """Whether the folder was not entered before; notes that it is now."""
    try:
        status = folder.stat()
    except OSError:
        return True  # reading it will say why
    identity = (status.st_dev, status.st_ino)
    if identity in entered:
        return False
    if status.st_ino:  # some network disks number nothing
        entered.add(identity)
    return True


def _entries(folder: Path, below: str, tree: PictureTree) -> list[os.DirEntry[str]]:
    """What is visible in a folder; a folder that may not be read is skipped."""
    try:
        with os.scandir(folder / below) as entries:
            return sorted((entry for entry in entries if not is_hidden(entry.name)), key=lambda entry: entry.name)
    except OSError as error:
        if not below:
            raise
        tree.skipped.append((below, f"the folder cannot be read: {error.strerror}"))
        return []


def is_hidden(name: str) -> bool:
    return name.startswith(".") or name.casefold() in _SYSTEM


@cache
def _why_no_picture(suffix: str) -> str:
    kind = suffix.removeprefix(".").upper()
    if suffix in (".heic", ".heif"):
        return HEIC
    if suffix in _UNREAD:
        return f"{kind} is not read: convert it to JPEG or PNG"
    if kind:
        return f"{shortened(kind, 20)} is {_NO_PICTURE}"
    return f"a name without an ending such as .jpg: {_NO_PICTURE}"


@cache
def _is_read(suffix: str) -> bool:
    """Asked once a suffix: there may be a hundred thousand files."""
    return is_picture(f"picture{suffix}")


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def _why_unusable(entry: os.DirEntry[str]) -> str:
    """Empty for a file or a link to one: a pipe would be waited for, a device read without end."""
    try:
        if entry.is_file():
            return ""
    except OSError:
        return "a link that leads nowhere"
    return "a link that leads nowhere" if entry.is_symlink() else "not a file"


class _Finder:
    """Which picture a path in the file means."""

    def __init__(self, folder: Path, labels: Path, names: list[str]) -> None:
        self._folder, self._beside = os.path.abspath(folder), os.path.abspath(labels.parent)
        self._numbers = {name: number for number, name in enumerate(names)}
        self._composed = {_compose(name): number for number, name in enumerate(names)}

    def find(self, path: str) -> int | None:
        """The number of the picture, or None. As it stands goes first, then with "/" for "\\", then without spaces
        around it."""
        for way in (path, path.replace("\\", "/"), path.replace("\\", "/").strip()):
            for base in (self._folder, self._beside):
                try:
                    name = os.path.relpath(os.path.join(base, way), self._folder).replace(os.sep, "/")
                except ValueError:  # on another drive of Windows
                    continue
                number = self._numbers.get(name, self._composed.get(_compose(name)))
                if number is not None:
                    return number
        return None


def _compose(name: str) -> str:
    """One spelling of accents: some systems store them apart from their letters."""
    return unicodedata.normalize("NFC", name)
