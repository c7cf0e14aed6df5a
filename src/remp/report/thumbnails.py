"""Small pictures of files, as data addresses."""

import base64
from io import BytesIO
from pathlib import Path

from remp.datasets.decode import decode
from remp.errors import DataError

SIDE, QUALITY = 128, 80


def thumbnail_source(path: Path) -> str | None:
    """The centre square of a picture as a data address, or None for a file that is gone or is no picture."""
    jpeg = read_thumbnail(path, SIDE)
    return None if jpeg is None else "data:image/jpeg;base64," + base64.b64encode(jpeg).decode("ascii")


def read_thumbnail(path: Path, side: int) -> bytes | None:
    """The centre square of a picture, side x side, as JPEG."""
    from PIL import Image

    try:
        pixels = decode(path.read_bytes(), path.name, side)
    except (OSError, DataError):
        return None
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, format="JPEG", quality=QUALITY)
    return buffer.getvalue()
