"""Encoded pictures in, uint8 arrays of one size out."""

import contextlib
import io
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from remp.datasets.archives import Members
from remp.errors import DataError
from remp.system.memory import Room, hand_back_freed_memory
from remp.untrusted import reason

MAX_PIXELS = 80_000_000  # more than most cameras have; a small file can claim to hold far more
# Fewer where the decoder takes more memory: bytes per pixel, measured.
_MOST_PIXELS = {"WEBP": 24_000_000, "HEIF": 49_000_000}
_BYTES_PER_PIXEL = {"WEBP": 14, "HEIF": 8}
_LARGE = 4_000_000  # pixels; from here on a picture is shrunk before it is converted
_STRIP = 1_000_000  # pixels that are converted at once
_DECODING = Room(400 * 2**20)  # bytes of the pictures that threads decode at once
_TINY = 2**20  # bytes that no thread has to wait for
_MUCH = 2**26  # bytes that no thread may keep for its next picture
# No other decoder of Pillow is tried: some, as that of PostScript, start programs.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
_HEIF_BRANDS = (b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1")
HEIC = "HEIC is read where the package pillow-heif is installed (pip install pillow-heif)"


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
    threads at once: together they take less than 512 MiB, besides the files themselves.
    """
    return _decoded(content, 4 * size, lambda image: square(image, size, channels=channels))


def whole_picture(content: bytes, longest: int) -> np.ndarray:
    """All of a picture as `centre_square` reads it: uint8 (height, width, 3), no side longer than `longest`; a smaller
    one keeps its size."""
    return _decoded(content, 2 * longest, lambda image: _whole(image, longest))


def _decoded(content: bytes, enough: int, make: Callable[[Image.Image], np.ndarray]) -> np.ndarray:
    """What `make` makes of the picture; enough: pixels of a side above which a JPEG may be decoded at a fraction."""
    if not content:
        raise UnreadablePicture("an empty file")
    try:
        return _decode(content, enough, make)
    except UnreadablePicture:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UnreadablePicture(f"too large to be decoded (more than {MAX_PIXELS} pixels)") from error
    except UnidentifiedImageError as error:
        if content[4:8] == b"ftyp" and content[8:12] in _HEIF_BRANDS:
            raise UnreadablePicture(f"a HEIC picture ({HEIC if not reads_heic() else 'damaged'})") from error
        formats = ", ".join((*FORMATS, "HEIC") if reads_heic() else FORMATS)
        raise UnreadablePicture(f"not a picture in a format that is read ({formats})") from error
    except Exception as error:  # a damaged file makes the decoders raise anything
        raise UnreadablePicture(f"a damaged picture ({reason(error)})") from error


@cache
def reads_heic() -> bool:
    """Whether the package that decodes HEIC is installed; it is made known to Pillow."""
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        return False
    register_heif_opener(thumbnails=False)
    return True


def scale(image: Image.Image, size: int) -> Image.Image:
    """The centre square of an image, size x size."""
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    box = (left, top, left + side, top + side)
    return image.resize((size, size), Image.Resampling.BICUBIC, box=box)


def _decode(content: bytes, enough: int, make: Callable[[Image.Image], np.ndarray]) -> np.ndarray:
    formats = (*FORMATS, "HEIF") if reads_heic() else FORMATS
    with Image.open(io.BytesIO(content), formats=formats) as image:
        most = _MOST_PIXELS.get(image.format or "", MAX_PIXELS)
        if image.width * image.height > most:
            raise UnreadablePicture(f"too large to be decoded ({image.width} x {image.height}; at most {most} pixels)")
        image.draft(None, (enough, enough))  # lets a large JPEG decode at a fraction of its size
        n_pixels = image.width * image.height
        n_bytes = n_pixels * _bytes_per_pixel(image, n_pixels)
        with _DECODING.take(n_bytes) if n_bytes > _TINY else contextlib.nullcontext():
            image.load()  # first, so that what is wrong with the pixels is not taken for a fault of the EXIF data
            made = make(image)
            image.close()  # here, so that its memory is free when the next thread gets in
            if n_bytes > _MUCH:
                hand_back_freed_memory()
    return made


def square(image: Image.Image, size: int, *, channels: int = 3) -> np.ndarray:
    """`centre_square` of a picture that is open."""
    mode = "RGB" if channels == 3 else "L"
    if image.width * image.height > _LARGE:
        side = min(image.size)
        upright = _upright(_shrunk(image, (side, side), max(1, side // (2 * size)), mode))
    else:
        upright = _opaque(_upright(image), _range_of(image))
        upright = upright if upright.mode == mode else upright.convert(mode)
    return np.asarray(scale(upright, size)).reshape(size, size, channels)


def _whole(image: Image.Image, longest: int) -> np.ndarray:
    if image.width * image.height > _LARGE:
        upright = _upright(_shrunk(image, image.size, max(1, max(image.size) // (2 * longest)), "RGB"))
    else:
        upright = _opaque(_upright(image), _range_of(image)).convert("RGB")
    upright.thumbnail((longest, longest), Image.Resampling.BICUBIC)
    return np.asarray(upright)


def _bytes_per_pixel(image: Image.Image, n_pixels: int) -> int:
    """What decoding takes, by measurement: of a large picture little more than the picture itself."""
    if image.format in _BYTES_PER_PIXEL:
        return _BYTES_PER_PIXEL[image.format]
    if n_pixels > _LARGE:
        return 5
    if _is_deep(image):
        return 40
    return 24 if _has_transparency(image) else 12


def _shrunk(image: Image.Image, sides: tuple[int, int], factor: int, mode: str) -> Image.Image:
    """The middle of a large picture, `sides` (width, height) of it, in so many times fewer pixels per side, made strip
    by strip: as a whole in another mode it would take a gigabyte. It keeps the EXIF orientation."""
    greys = _range_of(image)
    width, height = (max(side // factor, 1) * factor for side in sides)
    left, top = (image.width - width) // 2, (image.height - height) // 2
    shrunk = Image.new(mode, (width // factor, height // factor))
    step = max(1, _STRIP // (width * factor)) * factor  # rows, a multiple of the factor
    for row in range(0, height, step):
        strip = image.crop((left, top + row, left + width, top + min(row + step, height)))
        shrunk.paste(_opaque(strip, greys).convert(mode).reduce(factor), (0, row // factor))
    with contextlib.suppress(Exception):  # damaged EXIF data: the pixels are good nevertheless
        shrunk.getexif()[ExifTags.Base.Orientation] = image.getexif().get(ExifTags.Base.Orientation, 1)
    return shrunk


def _upright(image: Image.Image) -> Image.Image:
    try:
        is_turned = image.getexif().get(ExifTags.Base.Orientation, 1) != 1
        return ImageOps.exif_transpose(image) if is_turned else image  # which copies in either case
    except Exception:  # damaged EXIF data: the pixels are good nevertheless
        return image


def _is_deep(image: Image.Image) -> bool:
    return image.mode in ("I", "F") or image.mode.startswith("I;16")


def _has_transparency(image: Image.Image) -> bool:
    return "A" in image.getbands() or "transparency" in image.info


def _opaque(image: Image.Image, greys: tuple[float, float]) -> Image.Image:
    """The image in a mode that Pillow turns into RGB and grey as one expects: 8 bits, and white where transparent.

    greys: the numbers of black and white, for greys of more than 8 bits.
    """
    if _is_deep(image):
        return Image.fromarray(_eight_bits(np.asarray(image), *greys))
    if _has_transparency(image):
        colours = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", colours.size, "white"), colours)
    return image


def _range_of(image: Image.Image) -> tuple[float, float]:
    """The numbers that are black and white. Whole numbers in 0 … 65535 are 16 bits, or 8 if none is above 255 though
    there is room for 32; the white of all else is unknown: it is stretched from its darkest to its brightest."""
    if not _is_deep(image):
        return 0, 255
    step = max(1, _STRIP // image.width)
    strips = (image.crop((0, row, image.width, min(row + step, image.height))) for row in range(0, image.height, step))
    ranges = [(values.min(), values.max()) for values in map(_finite, strips)]
    low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
    is_whole = image.mode != "F"
    if not is_whole or low < 0 or high > 65535:
        return low, high
    return (0, 255) if image.mode == "I" and high <= 255 and _bits(image) == 32 else (0, 65535)


def _bits(image: Image.Image) -> int:
    """Of a number of a TIFF, 0 for others."""
    found = dict(getattr(image, "tag_v2", {})).get(ExifTags.Base.BitsPerSample)
    return found[0] if isinstance(found, tuple) and found else 0


def _eight_bits(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Grey of other depths as uint8."""
    values = _finite(values)
    if (low, high) != (0, 65535):
        values = (values - low) / (high - low or 1) * 65535
    return np.round(values / 257).astype(np.uint8)


def _finite(values: Any) -> np.ndarray:
    return np.nan_to_num(np.asarray(values).astype(np.float64), posinf=0, neginf=0)
