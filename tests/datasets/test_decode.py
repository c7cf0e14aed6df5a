"""Pictures decode to squares of one size; what is no picture, or an absurd one, is an error with its name."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image
from raw_data import png, random_pixels

from remp.datasets.decode import decode
from remp.errors import DataError


def test_a_picture_of_the_right_size_keeps_its_pixels() -> None:
    pixels = random_pixels(0, 20)
    np.testing.assert_array_equal(decode(png(pixels), "x.png", 20), pixels)


def test_the_centre_of_a_wide_picture_is_taken() -> None:
    pixels = np.zeros((10, 30, 3), np.uint8)
    pixels[:, 10:20] = 200
    np.testing.assert_array_equal(decode(png(pixels), "x.png", 10), 200)


def test_grey_has_one_channel_and_colour_three_whatever_the_file_has() -> None:
    assert decode(png(random_pixels(0, 9)), "x", 9, channels=1).shape == (9, 9, 1)
    assert decode(png(np.zeros((9, 9), np.uint8)), "x", 9).shape == (9, 9, 3)


def test_a_photograph_is_turned_upright() -> None:
    pixels = np.zeros((16, 16, 3), np.uint8)
    pixels[:8] = 255  # upper half
    exif = Image.Exif()
    exif[0x0112] = 3  # stored upside down
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", exif=exif)
    np.testing.assert_array_equal(decode(buffer.getvalue(), "x", 16), pixels[::-1])


@pytest.mark.parametrize("content", [b"", b"not a picture", png(random_pixels(0, 50))[:2000]])
def test_what_is_no_picture_or_is_cut_short_is_an_error_with_its_name(content: bytes) -> None:
    with pytest.raises(DataError, match=r"cat/1\.png is not a picture or is damaged"):
        decode(content, "cat/1.png", 8)


@pytest.mark.parametrize("side", [9_200, 10_000, 60_000])
def test_a_small_file_that_would_decode_to_an_absurd_size_is_refused(side: int) -> None:
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    bomb = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    with pytest.raises(DataError, match=r"bomb\.png would decode to an absurd size"):
        decode(bomb + struct.pack(">I", 8) + b"IDAT" + bytes(12), "bomb.png", 8)
