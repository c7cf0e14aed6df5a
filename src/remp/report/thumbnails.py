"""Small pictures of files, as data addresses."""

import base64
from io import BytesIO
from pathlib import Path

from remp.datasets.decode import UnreadablePicture, centre_square
from remp.labelling.pictures import read_file

SIDE, QUALITY = 128, 80


def thumbnail_source(path: Path) -> str | None:
    """The centre square of a picture as a data address, or None for a file that is gone or is no picture."""
    from PIL import Image

    try:
        pixels = centre_square(read_file(path), SIDE)
    except UnreadablePicture:
        return None
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, format="JPEG", quality=QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
