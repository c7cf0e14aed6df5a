"""Small pictures for the grid and large ones to look at, both made anew: no file goes to the page as it is."""

import sqlite3
import threading
from pathlib import Path

from remp.datasets.decode import centre_square, whole_picture
from remp.labelling.embedding.cache import identity
from remp.labelling.embedding.pictures import as_jpeg, read_file

SIDE, LONGEST = 176, 1600  # pixels
_QUALITY = 82
_FORM = b"%d-%d" % (SIDE, _QUALITY)  # a part of the key: thumbnails of another size or quality are others


class Thumbnails:
    """JPEGs of the files of a collection. Small ones are kept in a file by what identifies an unchanged picture; where
    that file cannot be written or is damaged, they are made each time."""

    def __init__(self, file: Path) -> None:
        self._lock = threading.Lock()
        self._kept: sqlite3.Connection | None = None
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._kept = sqlite3.connect(file, check_same_thread=False, timeout=1.0, isolation_level=None)
            self._kept.execute("PRAGMA journal_mode = WAL")
            self._kept.execute("PRAGMA synchronous = OFF")
            self._kept.execute("CREATE TABLE IF NOT EXISTS thumbnails (key BLOB PRIMARY KEY, jpeg BLOB) WITHOUT ROWID")
        except (OSError, sqlite3.Error):
            self._kept = None

    def small(self, path: Path) -> tuple[bytes, str]:
        """The centre square as JPEG, and a mark that changes with the file. Raises UnreadablePicture."""
        known = identity(path)
        if known:
            kept = self._ask("SELECT jpeg FROM thumbnails WHERE key = ?", known.key + _FORM)
            if kept:
                return kept, known.key.hex()
        made = as_jpeg(centre_square(read_file(path), SIDE), _QUALITY)
        if known and known.is_settled:
            self._ask("INSERT OR REPLACE INTO thumbnails VALUES (?, ?)", known.key + _FORM, made)
        return made, known.key.hex() if known else ""

    def close(self) -> None:
        with self._lock:
            if self._kept:
                self._kept.close()
            self._kept = None

    def _ask(self, command: str, *values: bytes) -> bytes | None:
        with self._lock:
            if not self._kept:
                return None
            try:
                found = self._kept.execute(command, values).fetchone()
            except sqlite3.Error:  # full, read-only, damaged: it costs time and nothing else
                return None
        return found[0] if found else None


def large(path: Path) -> bytes:
    """The whole picture as JPEG. Raises UnreadablePicture."""
    return as_jpeg(whole_picture(read_file(path), LONGEST), 88)


def mark(path: Path) -> str:
    """What changes with the file; empty if it is not there."""
    known = identity(path)
    return known.key.hex() if known else ""
