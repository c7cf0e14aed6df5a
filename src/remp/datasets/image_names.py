"""Which of many file names are pictures, and to which folder each belongs."""

from collections.abc import Iterable
from pathlib import PurePosixPath

_SUFFIXES = {".bmp", ".gif", ".jfif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}


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
    return path.suffix.lower() in _SUFFIXES and not hidden


def last_parts(folder: str, n: int) -> str:
    """The last `n` parts of a path: `Alphabet/character01` of `images_background/Alphabet/character01` for 2."""
    return "/".join(PurePosixPath(folder).parts[-n:])
