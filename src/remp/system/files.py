"""Where data and caches live, and files that are either the old one or the whole new one."""

import os
from collections.abc import Iterable
from pathlib import Path

import platformdirs


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


def home() -> Path:
    """The folder for data and caches: `$REMP_HOME`, or the platform's cache folder."""
    chosen = os.environ.get("REMP_HOME")
    return Path(chosen).expanduser() if chosen else Path(platformdirs.user_cache_dir("remp"))
