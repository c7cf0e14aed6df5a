"""Encoded pictures in, uint8 arrays of one size out."""

import io
from collections.abc import Iterable

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from remp.datasets.archives import Members
from remp.errors import DataError

MAX_PIXELS = 80_000_000  # more than most cameras have; a small file can claim to hold far more
# No other decoder of Pillow is tried: some, as that of PostScript, start programs.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
_HEIF_BRANDS = (b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1", b"avif")


class UnreadablePicture(Exception):
    """Why some bytes gave no picture, as the end of a sentence that starts with "it is"."""


def decode_members(members: Members, names: Iterable[str], size: int, *, channels: int = 3) -> np.ndarray:
    """The pictures `names` of an archive or folder, uint8 (n, size, size, channels)."""
    return np.stack([decode(members.read(name), f"{members.path}/{name}", size, channels=channels) for name in names])


def decode(content: bytes, name: str, size: int, *, channels: int = 3) -> np.ndarray:
    """`centre_square` that raises DataError, naming `name`, for what cannot be read."""
    try:
        return centre_square(content, size, channels=channels)
    except UnreadablePicture as error:
        raise DataError(f"{name} is {error}: replace or remove it") from error


def centre_square(content: bytes, size: int, *, channels: int = 3) -> np.ndarray:
    """A picture turned upright, its centre square scaled: uint8 (size, size, channels), 3 for colour, 1 for grey.

    What is transparent becomes white, 16-bit grey is scaled to 8 bits, of an animation the first frame is taken.
    Raises UnreadablePicture for what is not a picture, is cut short or would decode to an absurd size. May run in many
    threads at once.
    """
    if not content:
        raise UnreadablePicture("an empty file")
    try:
        return _decode(content, size, channels)
    except UnreadablePicture:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UnreadablePicture(f"too large to be decoded (more than {MAX_PIXELS} pixels)") from error
    except UnidentifiedImageError as error:
        if content[4:8] == b"ftyp" and content[8:12] in _HEIF_BRANDS:
            raise UnreadablePicture("a HEIC or AVIF picture, which is not read (convert it to JPEG or PNG)") from error
        raise UnreadablePicture(f"not a picture in a format that is read ({', '.join(FORMATS)})") from error
    except Exception as error:  # a damaged file makes the decoders raise anything
        raise UnreadablePicture(f"a damaged picture ({error})") from error


def scale(image: Image.Image, size: int) -> Image.Image:
    """The centre square of an image, size x size."""
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    box = (left, top, left + side, top + side)
    return image.resize((size, size), Image.Resampling.BICUBIC, box=box)


def _decode(content: bytes, size: int, channels: int) -> np.ndarray:
    with Image.open(io.BytesIO(content), formats=FORMATS) as image:
        if image.width * image.height > MAX_PIXELS:
            raise UnreadablePicture(f"too large to be decoded ({image.width} x {image.height}; at most {MAX_PIXELS})")
        image.draft(None, (4 * size, 4 * size))  # lets a large JPEG decode at a fraction of its size
        upright = _opaque(_upright(image)).convert("RGB" if channels == 3 else "L")
        return np.asarray(scale(upright, size)).reshape(size, size, channels)


def _upright(image: Image.Image) -> Image.Image:
    image.load()  # first, so that what is wrong with the pixels is not taken for a fault of the EXIF data
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # damaged EXIF data: the pixels are good nevertheless
        return image


def _opaque(image: Image.Image) -> Image.Image:
    """The image in a mode that Pillow turns into RGB and grey as one expects: 8 bits, and white where transparent."""
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return Image.fromarray(_eight_bits(np.asarray(image)))
    if "A" in image.getbands() or "transparency" in image.info:
        colours = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", colours.size, "white"), colours)
    return image


def _eight_bits(values: np.ndarray) -> np.ndarray:
    """Grey of other depths as uint8. Whole numbers in 0 … 65535 are 16 bits; the white of all else is unknown: it is
    stretched from its darkest to its brightest."""
    is_whole = values.dtype.kind in "iu"
    values = np.nan_to_num(values.astype(np.float64), posinf=0, neginf=0)
    low, high = values.min(), values.max()
    if not is_whole or low < 0 or high > 65535:
        values = (values - low) / (high - low or 1) * 65535
    return np.round(values / 257).astype(np.uint8)
