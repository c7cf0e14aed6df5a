"""Small pictures for pages, made once and kept, and large ones to look at: no file goes to a page as it is."""

import sqlite3
import threading
from pathlib import Path

from remp.datasets.decode import centre_square, whole_picture
from remp.labelling.embedding.cache import KEY_BYTES, digest, identity
from remp.labelling.embedding.pictures import as_jpeg, read_file
from remp.system.files import home

LONGEST = 1600  # pixels of a large picture


class Thumbnails:
    """The centre squares of files as JPEG of one size and quality, for any number of threads.

    They are kept in a file, by default under REMP_HOME, by what identifies an unchanged picture, with check sums. Where
    that file cannot be used, they are made each time.
    """

    def __init__(self, side: int, quality: int, file: Path | None = None) -> None:
        self._side, self._quality = side, quality
        self._lock = threading.Lock()
        self._kept: sqlite3.Connection | None = None
        file = file or home() / "thumbnails.sqlite"
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._kept = sqlite3.connect(file, check_same_thread=False, timeout=1.0, isolation_level=None)
        except (OSError, sqlite3.Error):
            return
        self._ask("PRAGMA synchronous = OFF")
        self._ask("CREATE TABLE IF NOT EXISTS thumbnails (key BLOB PRIMARY KEY, jpeg BLOB) WITHOUT ROWID")

    def small(self, path: Path) -> tuple[bytes, str]:
        """The centre square, and a mark that changes with the file. Raises UnreadablePicture."""
        known = identity(path)
        kept = self.take(known.key) if known else None
        if known and kept:
            return kept, known.key.hex()
        made = as_jpeg(centre_square(read_file(path), self._side), self._quality)
        if known and known.is_settled:
            self.keep(known.key, made)
        return made, known.key.hex() if known else ""

    def take(self, key: bytes) -> bytes | None:
        """What was kept for the file of this key."""
        kept = self._ask("SELECT jpeg FROM thumbnails WHERE key = ?", self._named(key)) or b""
        check, jpeg = kept[:KEY_BYTES], kept[KEY_BYTES:]
        return jpeg if check == digest(self._named(key), jpeg) else None

    def keep(self, key: bytes, jpeg: bytes) -> None:
        name = self._named(key)
        self._ask("INSERT OR REPLACE INTO thumbnails VALUES (?, ?)", name, digest(name, jpeg) + jpeg)

    def close(self) -> None:
        with self._lock:
            if self._kept:
                self._kept.close()
            self._kept = None

    def _named(self, key: bytes) -> bytes:
        return key + b"%d-%d" % (self._side, self._quality)

    def _ask(self, command: str, *values: bytes) -> bytes | None:
        with self._lock:
            if not self._kept:
                return None
            try:
                found = self._kept.execute(command, values).fetchone()
            except sqlite3.Error:  # full, read-only, locked, damaged: it is not asked again, which costs time only
                self._kept.close()
                self._kept = None
                return None
        return found[0] if found and isinstance(found[0], bytes) else None


def large(path: Path) -> bytes:
    """The whole picture as JPEG. Raises UnreadablePicture."""
    return as_jpeg(whole_picture(read_file(path), LONGEST), 88)


def mark(path: Path) -> str:
    """What changes with the file; empty if it is not there."""
    known = identity(path)
    return known.key.hex() if known else ""
