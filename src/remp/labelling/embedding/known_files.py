"""Which bytes a file holds, remembered for as long as nothing about the file has changed."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from remp.labelling.embedding.record_files import KEY, RecordFiles, digest

_RECORD = np.dtype([("key", KEY), ("content", KEY)])
_SETTLED = 2 * 10**9  # ns: a file changed later than that may change again without its time of change showing it


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
    """Content hashes of files that were read before."""

    def __init__(self, folder: Path) -> None:
        self._files = RecordFiles(folder / "files", files=_RECORD)

    def contents(self, identities: Sequence[Identity | None]) -> list[bytes | None]:
        """The content hash of each file, or None where it is to be read."""
        keys = [one.key if one else b"" for one in identities]
        places = self._files.find(set(keys) - {b""})
        records = {name: self._files.read(name, "files")["content"] for name, _ in places.values()}
        known = {key: records[name][number].tobytes() for key, (name, number) in places.items()}
        return [known.get(key) for key in keys]

    def add(self, one: Identity, content: bytes) -> None:
        if one.is_settled:
            self._files.append(np.array([(one.key, content)], _RECORD))

    def close(self) -> None:
        self._files.close()
