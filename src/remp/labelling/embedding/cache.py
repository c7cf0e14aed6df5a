"""What was made before, on the disk: embeddings by content and embedder, and which content an unchanged file has."""

import errno
import hashlib
import os
import secrets
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

KEY_BYTES = 16
KEY = np.dtype(f"V{KEY_BYTES}")
_KEYS = np.dtype([("key", KEY), ("picture", "<u8"), ("check", KEY)])
_RECORD = np.dtype([("key", KEY), ("content", KEY), ("check", KEY)])
_SETTLED = 2 * 10**9  # ns: a file changed later than that may change again without its time of change showing it


class EmbeddingCache:
    """The embedding and the picture hash of each content hash, for one embedder."""

    def __init__(self, folder: Path, embedder_hash: str, dim: int) -> None:
        self._files = RecordFiles(folder / embedder_hash[:32], rows=np.dtype(("<f4", (dim,))), keys=_KEYS)

    @property
    def problem(self) -> str:
        """Why nothing is kept any more, or empty."""
        return self._files.problem

    def contents(self) -> set[bytes]:
        """The content hashes that are there, as far as one knows without reading the embeddings."""
        keys = (key for name in self._files.names() for key in self._files.keys(name).tolist())
        return set(keys) - self._files.damaged

    def take(self, wanted: set[bytes]) -> Iterator[tuple[bytes, np.ndarray, int]]:
        """(content hash, embedding (dim,), picture hash) of each of these that is there."""
        for content, (row, record) in self._files.take(wanted):
            yield content, row, int(record["picture"])

    def add(self, contents: Sequence[bytes], values: np.ndarray, pictures: np.ndarray) -> None:
        """Keep embeddings (n, dim) and picture hashes (n,)."""
        keys = np.zeros(len(contents), _KEYS)
        keys["key"], keys["picture"] = np.array(contents, KEY), pictures
        self._files.append(values.astype("<f4", copy=False), keys)

    def close(self) -> None:
        self._files.close()


@dataclass(frozen=True)
class Identity:
    """What an unchanged file is recognised by, without reading it.

    key: hash of path, size, time of change, inode and disk. is_settled: a change from now on will change the key.
    """

    key: bytes
    is_settled: bool


def identity(path: Path) -> Identity | None:
    """None for a file that is not there or not to be seen."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # ValueError: a name with a zero byte
        return None
    facts = (status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev)
    key = digest(os.fsencode(os.path.abspath(path)), repr(facts).encode())
    return Identity(key, is_settled=time.time_ns() - status.st_mtime_ns > _SETTLED)


class KnownFiles:
    """Content hashes of files that were read before."""

    def __init__(self, folder: Path) -> None:
        self._files = RecordFiles(folder / "files", files=_RECORD)

    def contents(self, identities: Sequence[Identity | None]) -> list[bytes | None]:
        """The content hash of each file, or None where it is to be read."""
        found = self._files.take({one.key for one in identities if one})
        known = {key: record["content"].tobytes() for key, (record,) in found}
        return [known.get(one.key) if one else None for one in identities]

    def add(self, one: Identity, content: bytes) -> None:
        if one.is_settled:
            self._files.append(np.array([(one.key, content, b"")], _RECORD))

    def close(self) -> None:
        self._files.close()


class RecordFiles:
    """Files of records of one size, in a folder that many processes append to at once and that survives any of them.

    Each process appends to files of its own, so that none waits for another, on shared disks neither. A record that is
    cut off, since the process was killed or the disk is full, ends its file and is not read. Each has a check sum: what
    is damaged counts as not there, and is made again. Not SQLite: its locks fail on the network disks that several
    machines share, and a row is read here by its place alone.
    """

    def __init__(self, folder: Path, **kinds: np.dtype) -> None:
        """kinds: of records, each in a file of its own: record i of one kind belongs to record i of the others. The
        last kind begins with a field "key" and ends with a field "check"; it is written last, and says that the others
        are there."""
        self.folder, self._kinds = folder, kinds
        self._own = f"{time.time_ns():020d}-{secrets.token_hex(4)}"  # in the order of time
        self._open: list[int] = []
        self.problem = ""
        """Why nothing is kept any more: no right, no room, no such disk."""
        self.damaged: set[bytes] = set()
        """Keys whose record did not fit its check sum."""

    def take(self, wanted: Collection[bytes]) -> Iterator[tuple[bytes, list[np.ndarray]]]:
        """Each of these keys that is there, and its newest record of each kind."""
        places = sorted((*place, key) for key, place in self.find(set(wanted) - self.damaged).items())
        for name, part in groupby(places, key=lambda place: place[0]):
            kinds = [self.read(name, kind) for kind in self._kinds]
            for _, number, key in part:
                records = [np.array(kind[number]) for kind in kinds]
                if records[-1]["check"].tobytes() == _check_sum(records):
                    yield key, records
                else:
                    self.damaged.add(key)

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
        parts = [self.read(name, kind) for kind in self._kinds]
        return np.array(parts[-1]["key"][: min(map(len, parts))])

    def read(self, name: str, kind: str) -> np.ndarray:
        """The whole records of a file, as an array that reads them from the disk when they are looked at."""
        dtype, path = self._kinds[kind], self._path(name, kind)
        try:
            n = path.stat().st_size // dtype.itemsize
            return np.memmap(path, dtype, "r", shape=(n,)).view(np.ndarray) if n else np.empty(0, dtype)
        except OSError:
            return np.empty(0, dtype)

    def append(self, *records: np.ndarray) -> None:
        """Keep records, the same number of each kind; their check sums are filled in. Where that fails, `problem` says
        why and no more are kept."""
        if self.problem:
            return
        records[-1]["check"] = np.array([_check_sum(record) for record in zip(*records, strict=True)], KEY)
        self.damaged -= set(records[-1]["key"].tolist())
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


def _check_sum(records: Sequence[np.ndarray]) -> bytes:
    """Of a record of each kind: all of it but the check sum itself, the key first."""
    *others, last = (record.tobytes() for record in records)
    return digest(last[:KEY_BYTES], *others, last[KEY_BYTES:-KEY_BYTES])


def digest(*parts: bytes) -> bytes:
    """A key that stands for these bytes."""
    return hashlib.blake2b(b"".join(parts), digest_size=KEY_BYTES).digest()


def _write(file: int, content: bytes) -> None:
    if os.write(file, content) != len(content):  # on a full disk, what fits is written without an error
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _starts(keys: np.ndarray) -> np.ndarray:
    """The first eight bytes of each key as numbers, which compare faster: (n,) -> (n,) uint64."""
    return np.ascontiguousarray(keys).view("<u8")[::2]
