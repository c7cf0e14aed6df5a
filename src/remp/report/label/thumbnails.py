"""Small pictures of files, as data addresses; those that were made before are kept."""

import base64
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import numpy as np

from remp.datasets.decode import UnreadablePicture, centre_square
from remp.labelling.embedding.cache import identity
from remp.labelling.embedding.pictures import read_file
from remp.labelling.embedding.record_files import KEY, RecordFiles, digest
from remp.system.files import home

SIDE, QUALITY = 128, 80
MOST_BYTES = 12 * 1024  # of a JPEG; the few larger ones are made again
_RECORD = np.dtype([("jpeg", f"V{MOST_BYTES}"), ("length", "<u4"), ("check", KEY), ("key", KEY)])


def thumbnail_sources(paths: Sequence[Path]) -> list[str | None]:
    """The centre square of each picture as a data address, or None for a file that is gone or is no picture.

    A file that has not changed since its thumbnail was made is not read again.
    """
    files = [identity(path) for path in paths]
    cache = ThumbnailCache(home() / "thumbnails")
    kept = cache.take({file.key for file in files if file})
    missing = [path for path, file in zip(paths, files, strict=True) if not file or file.key not in kept]
    with ThreadPoolExecutor() as pool:
        made = dict(zip(missing, pool.map(_thumbnail, missing), strict=True))
    jpegs = [
        made[path] if path in made else kept[file.key] if file else None
        for path, file in zip(paths, files, strict=True)
    ]
    new = zip(paths, files, jpegs, strict=True)
    cache.add({file.key: jpeg for path, file, jpeg in new if file and file.is_settled and jpeg and path in made})
    start = "data:image/jpeg;base64,"
    return [start + base64.b64encode(jpeg).decode("ascii") if jpeg else None for jpeg in jpegs]


def _thumbnail(path: Path) -> bytes | None:
    """JPEG"""
    from PIL import Image

    try:
        pixels = centre_square(read_file(path), SIDE)
    except UnreadablePicture:
        return None
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, format="JPEG", quality=QUALITY)
    return buffer.getvalue()


class ThumbnailCache:
    """One JPEG per key, each with a check sum: what is damaged counts as not there."""

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
