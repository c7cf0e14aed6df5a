"""Pictures decode to squares of one size; what is no picture, or an absurd one, is an error with its name."""

import io
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from bounds import Outcome, bounded
from raw_data import png, random_pixels
from remp.datasets import decode as decode_module
from remp.datasets.decode import UnreadablePicture, decode, whole_picture
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
    with pytest.raises(DataError, match=r"cat/1\.png is (an empty|not a|a damaged)"):
        decode(content, "cat/1.png", 8)


@pytest.mark.parametrize("side", [9_200, 10_000, 60_000])
def test_a_small_file_that_would_decode_to_an_absurd_size_is_refused(side: int) -> None:
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    bomb = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    with pytest.raises(DataError, match=r"bomb\.png is too large to be decoded"):
        decode(bomb + struct.pack(">I", 8) + b"IDAT" + bytes(12), "bomb.png", 8)


def encoded(image: Image.Image, kind: str = "PNG", **settings: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **settings)
    return buffer.getvalue()


def ramp(low: float, high: float, dtype: type) -> np.ndarray:
    """(16, 16) that gets brighter from left to right."""
    return np.tile(np.linspace(low, high, 16).astype(dtype), (16, 1))


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bit_grey_is_scaled_and_not_clipped_to_white(kind: str) -> None:
    wide = ramp(0, 65535, np.uint16)
    np.testing.assert_allclose(decode(encoded(Image.fromarray(wide), kind), "x", 16)[..., 0], wide / 257, atol=0.51)


@pytest.mark.parametrize(("high", "factor"), [(255, 1), (65535, 257)])
def test_whole_numbers_of_32_bits_are_8_or_16_bits_if_they_fit(high: int, factor: int) -> None:
    values = ramp(0, high, np.int32)
    pixels = decode(encoded(Image.fromarray(values), "TIFF"), "x", 16)
    np.testing.assert_allclose(pixels[..., 0], values / factor, atol=0.51)


def test_a_dark_sixteen_bit_picture_stays_dark() -> None:
    assert decode(encoded(Image.fromarray(ramp(0, 600, np.uint16))), "x", 16).max() == 2


@pytest.mark.parametrize("values", [ramp(-3, 5, np.float32), ramp(0, 1, np.float32), ramp(0, 2**30, np.int32)])
def test_grey_whose_white_is_unknown_is_stretched_from_darkest_to_brightest(values: np.ndarray) -> None:
    pixels = decode(encoded(Image.fromarray(values), "TIFF"), "x", 16)[0, :, 1]
    np.testing.assert_allclose(pixels, np.linspace(0, 255, 16), atol=0.51)


def test_numbers_that_are_not_finite_do_not_spoil_a_picture() -> None:
    values = ramp(0, 1, np.float32)
    values[3, 3], values[4, 4] = np.nan, np.inf
    assert decode(encoded(Image.fromarray(values), "TIFF"), "x", 16)[0, -1, 0] == 255


def test_what_is_transparent_becomes_white() -> None:
    half = Image.new("RGBA", (8, 8), (200, 0, 0, 255))
    half.paste((0, 0, 0, 0), (0, 0, 8, 4))
    pixels = decode(encoded(half), "x", 8)
    assert (pixels[:3] == 255).all()
    assert (pixels[5:] == [200, 0, 0]).all()
    assert decode(encoded(Image.new("LA", (8, 8), (0, 51))), "x", 8).max() == 204  # 1/5 black on white


def test_a_palette_gives_its_colours_and_its_transparent_one_white() -> None:
    image = Image.new("P", (8, 8), 1)
    image.putpalette([0, 0, 255, 10, 200, 30])
    assert (decode(encoded(image), "x", 8) == [10, 200, 30]).all()
    assert (decode(encoded(image, transparency=1), "x", 8) == 255).all()


def test_a_cmyk_photograph_comes_out_in_its_colours() -> None:
    pixels = decode(encoded(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), "JPEG", quality=95), "x", 16)
    assert np.abs(pixels.astype(int) - [255, 0, 0]).max() < 6


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_of_an_animation_the_first_frame_is_taken(kind: str) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "lime", "blue")]
    content = encoded(
        frames[0], kind, save_all=True, append_images=frames[1:], **{"lossless": True} if kind == "WEBP" else {}
    )
    assert (decode(content, "x", 8) == [255, 0, 0]).all()


def test_damaged_exif_data_do_not_spoil_good_pixels() -> None:
    content = encoded(Image.new("RGB", (8, 8), "red"), exif=b"Exif\0\0MM\0*\xff\xff\xff\xff" + bytes(9))
    assert (decode(content, "x", 8) == [255, 0, 0]).all()


def test_a_heic_picture_without_its_decoder_is_called_by_its_name(monkeypatch) -> None:
    monkeypatch.setattr("remp.datasets.decode.reads_heic", lambda: False)
    with pytest.raises(DataError, match=r"IMG\.jpg is a HEIC picture \(HEIC is read where .*pip install pillow-heif"):
        decode(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(99), "IMG.jpg", 8)


def test_a_heic_picture_is_read_and_a_damaged_one_refused() -> None:
    pytest.importorskip("pillow_heif", reason="remp[heic] is not installed")
    from remp.datasets.decode import reads_heic

    assert reads_heic()
    picture = Image.new("RGB", (64, 64), "red")
    picture.paste("blue", (0, 0, 32, 64))
    content = encoded(picture, "HEIF", quality=100)
    pixels = decode(content, "IMG.heic", 16).astype(int)
    np.testing.assert_allclose(pixels[8, 2], [0, 0, 255], atol=12)
    np.testing.assert_allclose(pixels[8, 13], [255, 0, 0], atol=12)
    with pytest.raises(DataError, match=r"IMG\.heic is a (damaged|HEIC) picture"):
        decode(content[: len(content) // 2], "IMG.heic", 16)


def test_postscript_is_not_handed_to_an_interpreter() -> None:
    content = encoded(Image.new("RGB", (8, 8)), "EPS")
    with pytest.raises(DataError, match="not a picture in a format that is read"):
        decode(content, "x.jpg", 8)


SIDE = 5_000
LARGE = {
    "PNG of 16 bits": ("I;16", "PNG", {"compress_level": 1}),
    "PNG with transparency": ("RGBA", "PNG", {"compress_level": 1}),
    "PNG with a transparent colour": ("P", "PNG", {"transparency": 0}),
    "TIFF of floats": ("F", "TIFF", {"compression": "tiff_deflate"}),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_large_picture_takes_little_more_memory_than_its_pixels(name: str) -> None:
    mode, kind, settings = LARGE[name]
    content = encoded(Image.new(mode, (SIDE, SIDE)), kind, **settings)
    outcome = bounded(lambda: decode(content, "x", 84), mebibytes=160)  # 25 million pixels of at most 4 bytes
    assert outcome.kind == "result", outcome


def test_a_webp_whose_decoder_would_take_a_gigabyte_is_refused() -> None:
    content = encoded(Image.new("RGB", (SIDE, SIDE)), "WEBP", lossless=True, method=0)
    outcome = bounded(lambda: decode(content, "x.webp", 84), mebibytes=16)
    assert outcome.kind == "DataError"
    assert "x.webp is too large to be decoded (5000 x 5000; at most 24000000 pixels)" in outcome.text


def decode_at_once(content: bytes, n: int) -> Outcome:
    """The same picture in so many threads."""

    def decode_all() -> list[np.ndarray]:
        with ThreadPoolExecutor(n) as pool:
            return list(pool.map(lambda _: decode(content, "x", 84), range(n)))

    return bounded(decode_all, seconds=60)


JUST_BELOW = (8900, 8980)  # 79.9 of 80 million pixels


def test_threads_share_the_memory_for_decoding() -> None:
    """As one picture after the other: what a thread has freed is there for the next one."""
    content = encoded(Image.new("RGBA", (SIDE, SIDE)), compress_level=1)
    assert decode_at_once(content, 4).kind == "result"
    assert decode_at_once(encoded(Image.new("P", JUST_BELOW), "GIF"), 4).kind == "result"


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("name", LARGE)
def test_threads_share_the_memory_just_below_the_limit(name: str, n: int) -> None:
    mode, kind, settings = LARGE[name]
    outcome = decode_at_once(encoded(Image.new(mode, JUST_BELOW), kind, **settings), n)
    assert outcome.kind == "result", outcome


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 4])
def test_threads_share_the_memory_for_heic(n: int) -> None:
    pytest.importorskip("pillow_heif", reason="remp[heic] is not installed")
    assert decode_module.reads_heic()
    outcome = decode_at_once(encoded(Image.new("RGB", (6996, 7000)), "HEIF", quality=10), n)  # of 49 million pixels
    assert outcome.kind == "result", outcome


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "LA", "P", "CMYK", "I;16", "F", "1"])
@pytest.mark.parametrize("shape", [(120, 90), (90, 121)])
def test_a_picture_that_is_shrunk_first_looks_as_if_it_were_not(
    monkeypatch: pytest.MonkeyPatch, mode: str, shape: tuple[int, int]
) -> None:
    smooth = np.add.outer(np.linspace(0, 120, shape[0]), np.linspace(0, 120, shape[1]))
    grey = Image.fromarray(smooth.astype(np.uint8))
    image = Image.fromarray((smooth * 257).astype(np.uint16)) if mode == "I;16" else grey.convert(mode)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    content = encoded(image, "TIFF" if mode in ("CMYK", "F") else "PNG", exif=exif)
    whole = decode(content, "x", 10, channels=1).astype(int)
    monkeypatch.setattr(decode_module, "_LARGE", 100)
    monkeypatch.setattr(decode_module, "_STRIP", 500)
    shrunk = decode(content, "x", 10, channels=1).astype(int)
    assert np.abs(whole - shrunk).max() <= (40 if mode == "1" else 5)
    assert np.ptp(whole) > 50


def test_a_whole_picture_keeps_its_shape_and_its_pixels_if_it_is_small() -> None:
    pixels = random_pixels(0, 20)[:, :14]
    np.testing.assert_array_equal(whole_picture(png(pixels), 20), pixels)
    assert whole_picture(png(np.zeros((40, 120, 3), np.uint8)), 60).shape == (20, 60, 3)


def test_what_is_no_picture_is_no_whole_one_either() -> None:
    with pytest.raises(UnreadablePicture, match="not a picture"):
        whole_picture(b"<svg onload=alert(1)>", 20)


def test_a_large_picture_is_whole_too() -> None:
    pixels = np.zeros((1600, 3200, 3), np.uint8)
    pixels[:, 1600:] = 200
    small = whole_picture(png(pixels), 400)
    assert small.shape == (200, 400, 3)
    assert small[:, :190].max() <= 5
    assert small[:, 210:].min() >= 195
