"""Small pictures of files, as data addresses; those that were made before are kept."""

import base64
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

from remp.datasets.decode import UnreadablePicture, centre_square
from remp.home import home
from remp.labelling.embedding.known_files import identity
from remp.labelling.embedding.pictures import read_file
from remp.report.thumbnail_cache import ThumbnailCache

SIDE, QUALITY = 128, 80


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
    return [_data_address(jpeg) if jpeg else None for jpeg in jpegs]


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


def _data_address(jpeg: bytes) -> str:
    return "data:image/jpeg;base64," + base64.b64encode(jpeg).decode("ascii")
