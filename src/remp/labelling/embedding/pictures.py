"""One picture from its file, or the reason why not; and small again, for a page."""

import os
import stat
import time
from collections.abc import Container, Iterable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from remp.datasets.decode import UnreadablePicture, centre_square
from remp.labelling.embedding.cache import Identity, digest, identity
from remp.system.memory import Room

MAX_BYTES = 2**29  # of a file; the largest photographs have a tenth of that
_FILES = Room(2**28)  # bytes of the files that threads have read at once


@dataclass
class Picture:
    """What was read from the file of a picture.

    content: hash of the bytes of the file. pixels: uint8 (side, side, 3), or None if the content was known or there is
    a reason. picture: its picture hash. reason: why it cannot be read, or empty.
    """

    identity: Identity | None = None
    content: bytes = b""
    pixels: np.ndarray | None = None
    picture: int = 0
    reason: str = ""
    hash_seconds: float = 0.0
    decode_seconds: float = 0.0

    def decode(self, content: bytes, side: int) -> None:
        """Take the centre square from the bytes of the file, upright and in colour. Raises UnreadablePicture."""
        started = time.perf_counter()
        self.pixels = centre_square(content, side)
        self.picture = picture_hash(self.pixels)
        self.decode_seconds = time.perf_counter() - started


def stacked(pictures: Iterable[Picture]) -> np.ndarray:
    """The pixels of pictures that are decoded: (n, side, side, 3)."""
    return np.stack([picture.pixels for picture in pictures if picture.pixels is not None])


def read_picture(path: Path, side: int, known: Container[bytes] = ()) -> Picture:
    """The centre square of a picture, upright and in colour; not decoded if its content hash is `known`."""
    made, started = Picture(identity(path)), time.perf_counter()
    try:
        with _FILES.take(_n_bytes(path)):
            content = read_file(path)
            made.content = digest(content)
            made.hash_seconds = time.perf_counter() - started
            if made.content not in known:
                made.decode(content, side)
    except UnreadablePicture as error:
        made.reason = str(error)
    return made


def _n_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except (OSError, ValueError):  # which reading it will tell
        return 0


def read_file(path: Path) -> bytes:
    """The bytes of a file. Raises UnreadablePicture for what is not there, not ours to read or no picture."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for, a device read without end
            raise UnreadablePicture("not a file")
        if status.st_size > MAX_BYTES:
            raise UnreadablePicture(f"too large a file ({status.st_size} bytes; at most {MAX_BYTES})")
        return path.read_bytes()
    except FileNotFoundError as error:
        raise UnreadablePicture("not there (any more)") from error
    except (OSError, ValueError) as error:
        raise UnreadablePicture(f"cannot be read ({getattr(error, 'strerror', None) or error})") from error


def picture_hash(pixels: np.ndarray) -> int:
    """64 bits of which few change if a picture is scaled, compressed again or made a little brighter.

    pixels: uint8 (height, width, 3). A bit says whether a spot is brighter than its right neighbour, for 8 rows of 9
    spots ("difference hash").
    """
    spots = np.asarray(Image.fromarray(pixels).convert("L").resize((9, 8), Image.Resampling.BOX))
    return int.from_bytes(np.packbits(spots[:, :-1] > spots[:, 1:]).tobytes(), "big")


def as_jpeg(pixels: np.ndarray, quality: int) -> bytes:
    """uint8 (height, width, 3) as JPEG"""
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, format="JPEG", quality=quality)
    return buffer.getvalue()
