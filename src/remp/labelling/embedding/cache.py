"""What was made before, on the disk: embeddings by content and embedder, and which content an unchanged file has."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from remp.labelling.embedding.record_files import KEY, RecordFiles, digest

_KEYS = np.dtype([("key", KEY), ("picture", "<u8"), ("check", KEY)])
_RECORD = np.dtype([("key", KEY), ("content", KEY), ("check", KEY)])
_SETTLED = 2 * 10**9  # ns: a file changed later than that may change again without its time of change showing it


class EmbeddingCache:
    """The embedding and the picture hash of each content hash, for one embedder. Each has a check sum: what is damaged
    counts as not there, and is made again."""

    def __init__(self, folder: Path, embedder_hash: str, dim: int) -> None:
        self._files = RecordFiles(folder / embedder_hash[:32], rows=np.dtype(("<f4", (dim,))), keys=_KEYS)
        self._damaged: set[bytes] = set()

    @property
    def problem(self) -> str:
        """Why nothing is kept any more, or empty."""
        return self._files.problem

    def contents(self) -> set[bytes]:
        """The content hashes that are there, as far as one knows without reading the embeddings."""
        keys = (key for name in self._files.names() for key in self._files.keys(name).tolist())
        return set(keys) - self._damaged

    def take(self, wanted: set[bytes]) -> Iterator[tuple[bytes, np.ndarray, int]]:
        """(content hash, embedding (dim,), picture hash) of each of these that is there."""
        places = sorted((*place, content) for content, place in self._files.find(wanted - self._damaged).items())
        for name, part in groupby(places, key=lambda place: place[0]):
            rows, keys = self._files.read(name, "rows"), self._files.read(name, "keys")
            for _, number, content in part:
                row, picture = np.array(rows[number]), int(keys["picture"][number])
                if _check(content, row, picture) == keys["check"][number].tobytes():
                    yield content, row, picture
                else:
                    self._damaged.add(content)

    def add(self, contents: Sequence[bytes], values: np.ndarray, pictures: np.ndarray) -> None:
        """Keep embeddings (n, dim) and picture hashes (n,)."""
        keys = np.empty(len(contents), _KEYS)
        keys["key"] = np.array(contents, KEY)
        keys["picture"] = pictures
        keys["check"] = np.array([_check(*item) for item in zip(contents, values, pictures, strict=True)], KEY)
        self._files.append(values.astype("<f4", copy=False), keys)
        self._damaged -= set(contents)

    def close(self) -> None:
        self._files.close()


def _check(content: bytes, row: np.ndarray, picture: int) -> bytes:
    return digest(content, row.astype("<f4", copy=False).tobytes(), int(picture).to_bytes(8, "little"))


@dataclass(frozen=True)
class Identity:
    """key: of path, size, time of change, inode and disk. is_settled: a change from now on will change the key."""

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
    """Content hashes of files that were read before. Each has a check sum: what is damaged counts as not there."""

    def __init__(self, folder: Path) -> None:
        self._files = RecordFiles(folder / "files", files=_RECORD)

    def contents(self, identities: Sequence[Identity | None]) -> list[bytes | None]:
        """The content hash of each file, or None where it is to be read."""
        keys = [one.key if one else b"" for one in identities]
        places = self._files.find(set(keys) - {b""})
        files = {name: self._files.read(name, "files") for name, _ in places.values()}
        records = {key: files[name][number] for key, (name, number) in places.items()}
        known = {
            key: record["content"].tobytes()
            for key, record in records.items()
            if digest(key, record["content"].tobytes()) == record["check"].tobytes()
        }
        return [known.get(key) for key in keys]

    def add(self, one: Identity, content: bytes) -> None:
        if one.is_settled:
            self._files.append(np.array([(one.key, content, digest(one.key, content))], _RECORD))

    def close(self) -> None:
        self._files.close()
