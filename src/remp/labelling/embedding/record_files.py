"""Files of records of one size, in a folder that many processes append to at once and that survives any of them.

Not SQLite: its locks fail on the network disks that several machines share, and a row is read here by its place alone.
"""

import errno
import hashlib
import os
import secrets
import time
from collections.abc import Collection
from pathlib import Path

import numpy as np

KEY_BYTES = 16
KEY = np.dtype(f"V{KEY_BYTES}")


class RecordFiles:
    """Each process appends to files of its own, so that none waits for another, on shared disks neither. A record that
    is cut off, since the process was killed or the disk is full, ends its file and is not read."""

    def __init__(self, folder: Path, **kinds: np.dtype) -> None:
        """kinds: of records, each in a file of its own: record i of one kind belongs to record i of the others. The
        last kind has a field "key"; it is written last, and says that the others are there."""
        self.folder, self._kinds = folder, kinds
        self._own = f"{time.time_ns():020d}-{secrets.token_hex(4)}"  # in the order of time
        self._open: list[int] = []
        self.problem = ""
        """Why nothing is kept any more: no right, no room, no such disk."""

    def find(self, wanted: Collection[bytes]) -> dict[bytes, tuple[str, int]]:
        """Keys that are there -> file and number of their newest record."""
        starts = _starts(np.array(list(wanted), dtype=KEY))
        found: dict[bytes, tuple[str, int]] = {}
        for name in self.names():
            keys = self.keys(name)
            likely = np.flatnonzero(np.isin(_starts(keys), starts))
            records = zip(keys[likely].tolist(), likely.tolist(), strict=True)
            found.update({key: (name, number) for key, number in records if key in wanted})
        return found

    def names(self) -> list[str]:
        """The files that are there, oldest first; a name stands for one file of each kind."""
        suffix = f".{list(self._kinds)[-1]}"
        try:
            return sorted(entry.stem for entry in self.folder.iterdir() if entry.suffix == suffix)
        except OSError:  # not there yet, or not ours to read
            return []

    def keys(self, name: str) -> np.ndarray:
        """(n,) the keys of a file, of those records that are there in every kind."""
        lengths = [len(self.read(name, kind)) for kind in self._kinds]
        return np.array(self.read(name, list(self._kinds)[-1])["key"][: min(lengths)])

    def read(self, name: str, kind: str) -> np.ndarray:
        """The whole records of a file, as an array that reads them from the disk when they are looked at."""
        dtype, path = self._kinds[kind], self._path(name, kind)
        try:
            n = path.stat().st_size // dtype.itemsize
            return np.memmap(path, dtype, "r", shape=(n,)).view(np.ndarray) if n else np.empty(0, dtype)
        except OSError:
            return np.empty(0, dtype)

    def append(self, *records: np.ndarray) -> None:
        """Keep records, the same number of each kind. Where that fails, `problem` says why and no more are kept."""
        if self.problem:
            return
        try:
            self._open = self._open or self._create()
            for file, part in zip(self._open, records, strict=True):
                _write(file, part.tobytes())
        except OSError as error:
            self.problem = f"{self.folder}: {error.strerror or error}"

    def close(self) -> None:
        while self._open:
            os.close(self._open.pop())

    def _create(self) -> list[int]:
        self.folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)
        return [os.open(self._path(self._own, kind), flags, 0o666) for kind in self._kinds]

    def _path(self, name: str, kind: str) -> Path:
        return self.folder / f"{name}.{kind}"


def digest(*parts: bytes) -> bytes:
    """A key that stands for these bytes."""
    return hashlib.blake2b(b"".join(parts), digest_size=KEY_BYTES).digest()


def _write(file: int, content: bytes) -> None:
    if os.write(file, content) != len(content):  # on a full disk, what fits is written without an error
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _starts(keys: np.ndarray) -> np.ndarray:
    """The first eight bytes of each key as numbers, which compare faster: (n,) -> (n,) uint64."""
    return np.ascontiguousarray(keys).view("<u8")[::2]
