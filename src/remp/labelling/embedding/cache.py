"""Embeddings that were made before, on the disk: by what is in a picture's file, and by which embedder."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from remp.labelling.embedding.record_files import KEY, RecordFiles, digest

_KEYS = np.dtype([("key", KEY), ("picture", "<u8"), ("check", KEY)])


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
