"""Thumbnails that were made before, on the disk: by what identifies an unchanged file."""

from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from remp.labelling.embedding.record_files import KEY, RecordFiles, digest

MOST_BYTES = 12 * 1024  # of a JPEG; the few larger ones are made again
_RECORD = np.dtype([("jpeg", f"V{MOST_BYTES}"), ("length", "<u4"), ("check", KEY), ("key", KEY)])


class ThumbnailCache:
    """A JPEG a key, each with a check sum: what is damaged counts as not there."""

    def __init__(self, folder: Path) -> None:
        self._files = RecordFiles(folder, thumbnails=_RECORD)

    def take(self, keys: Collection[bytes]) -> dict[bytes, bytes]:
        """Key -> JPEG, of those keys that are there."""
        found = {}
        for key, (name, number) in self._files.find(keys).items():
            record = self._files.read(name, "thumbnails")[number]
            jpeg = record["jpeg"].tobytes()[: int(record["length"])]
            if digest(key, jpeg) == record["check"].tobytes():
                found[key] = jpeg
        return found

    def add(self, jpegs: Mapping[bytes, bytes]) -> None:
        """Keep JPEGs by their key. A disk that is full or read-only keeps none, which costs time and nothing else."""
        small = {key: jpeg for key, jpeg in jpegs.items() if len(jpeg) <= MOST_BYTES}
        if small:
            records = [(jpeg, len(jpeg), digest(key, jpeg), key) for key, jpeg in small.items()]
            self._files.append(np.array(records, _RECORD))
            self._files.close()
