"""Encoded pictures in, uint8 arrays of one size out."""

import io
import warnings
from collections.abc import Iterable

import numpy as np
from PIL import Image, ImageOps

from remp.datasets.archives import Members
from remp.errors import DataError

MAX_PIXELS = 80_000_000  # more than most cameras have; a small file can claim to hold far more


def decode_members(members: Members, names: Iterable[str], size: int, *, channels: int = 3) -> np.ndarray:
    """The pictures `names` of an archive or folder, uint8 (n, size, size, channels)."""
    return np.stack([decode(members.read(name), f"{members.path}/{name}", size, channels=channels) for name in names])


def decode(content: bytes, name: str, size: int, *, channels: int = 3) -> np.ndarray:
    """A picture turned upright, its centre square scaled: uint8 (size, size, channels), 3 for colour, 1 for grey.

    Raises DataError, naming `name`, for what is not a picture, is cut short or would decode to an absurd size.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            return _decode(content, size, channels)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning, _TooLargeError) as error:
        raise DataError(
            f"{name} would decode to an absurd size ({error}); at most {MAX_PIXELS} pixels: scale it down or remove it"
        ) from error
    except Exception as error:  # a damaged file makes the decoders raise anything
        raise DataError(f"{name} is not a picture or is damaged ({error}): replace or remove it") from error


class _TooLargeError(Exception):
    pass


def _decode(content: bytes, size: int, channels: int) -> np.ndarray:
    with Image.open(io.BytesIO(content)) as image:
        if image.width * image.height > MAX_PIXELS:
            raise _TooLargeError(f"{image.width} x {image.height}")
        image.draft(None, (4 * size, 4 * size))  # lets a large JPEG decode at a fraction of its size
        upright = ImageOps.exif_transpose(image).convert("RGB" if channels == 3 else "L")
        pixels = np.asarray(_scale_centre(upright, size))
        return pixels.reshape(size, size, channels)


def _scale_centre(image: Image.Image, size: int) -> Image.Image:
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    box = (left, top, left + side, top + side)
    return image.resize((size, size), Image.Resampling.BICUBIC, box=box)
