"""Where data and caches live, and files that are either the old one or the whole new one."""

import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import platformdirs

_ABANDONED_AFTER = 3600  # seconds


def write_atomically(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Write beside `path`, flush to the disk, then rename over it. On any error the old file stays as it was.

    content: all of it, or pieces that are made while they are written.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as file:
            file.writelines([content] if isinstance(content, bytes) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def numbered(path: Path) -> Iterator[Path]:
    """path, path-2, path-3 …: for whoever looks for a name that is free."""
    yield path
    yield from (path.with_name(f"{path.name}-{number}") for number in count(2))


def remove_abandoned(parent: Path, prefix: str) -> None:
    """Delete what killed runs left: folders in `parent` that begin so, and in which nothing was written for an hour."""
    for folder in [entry for entry in parent.iterdir() if entry.name.startswith(prefix)]:
        inside = (Path(place, name) for place, folders, files in os.walk(folder) for name in folders + files)
        with suppress(FileNotFoundError):  # a run that is alive has just moved it
            if time.time() - max(path.lstat().st_mtime for path in (folder, *inside)) > _ABANDONED_AFTER:
                shutil.rmtree(folder, ignore_errors=True)


def home() -> Path:
    """The folder for data and caches: `$REMP_HOME`, or the platform's cache folder."""
    chosen = os.environ.get("REMP_HOME")
    return Path(chosen).expanduser() if chosen else Path(platformdirs.user_cache_dir("remp"))
