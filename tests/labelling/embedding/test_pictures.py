"""A picture is read whatever its file looks like, or there is a reason why not."""

import io
import os
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from remp.labelling.embedding.pictures import MAX_BYTES, picture_hash, read_picture


def landscape(side: int = 256) -> np.ndarray:
    """Smooth light and shade, uint8 (side, side, 3)."""
    x, y = np.meshgrid(np.linspace(0, 1, side), np.linspace(0, 1, side))
    waves = [np.sin(9 * x + 5 * y), np.cos(7 * x * y + 2 * x), np.sin(3 * x - 8 * y)]
    return (127 + 100 * np.stack(waves, axis=2)).astype(np.uint8)


def encoded(pixels: np.ndarray, kind: str = "PNG", **settings: object) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind, **settings)
    return buffer.getvalue()


def file(folder: Path, content: bytes, name: str = "photo.jpg") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_a_picture_comes_as_a_square_with_its_hashes(tmp_path):
    picture = read_picture(file(tmp_path, encoded(landscape())), 32)
    assert not picture.reason
    assert picture.pixels.shape == (32, 32, 3)
    assert len(picture.content) == 16
    assert picture.hash_seconds > 0 < picture.decode_seconds


@pytest.mark.parametrize(
    "name", ["写真 1.jpg", "фото.png", "صورة.jpg", "a\nb.jpg", "'$(x)`.jpg", os.fsdecode(b"\xff\xfe.jpg")]
)
def test_a_file_may_have_any_name(tmp_path, name):
    assert read_picture(file(tmp_path, encoded(landscape()), name), 16).pixels is not None


def test_what_the_name_says_about_the_format_does_not_matter(tmp_path):
    assert read_picture(file(tmp_path, encoded(landscape(), "PNG"), "x.jpg"), 16).pixels is not None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "an empty file"),
        (b"Dear diary, this is no picture", "not a picture in a format that is read"),
        (encoded(landscape(), "JPEG")[:3000], "a damaged picture"),
        (encoded(landscape())[:3000], "a damaged picture"),
        (b"\xff\xd8\xff\xe0" + bytes(500), "not a picture in a format that is read"),
        (b"\0\0\0\x18ftypheic" + bytes(99), "a HEIC picture|a damaged picture"),
        (encoded(np.zeros((1, 1), np.uint8), "GIF")[:20], "a damaged picture|not a picture"),
    ],
)
def test_what_cannot_be_decoded_has_a_reason(tmp_path, content, reason):
    picture = read_picture(file(tmp_path, content), 16)
    assert picture.pixels is None
    assert re.match(reason, picture.reason), picture.reason
    assert "0x" not in picture.reason  # an address in memory: another one every time


@pytest.mark.filterwarnings("ignore:Image size")
def test_a_decompression_bomb_is_refused_before_it_goes_off(tmp_path):
    bomb = Image.new("1", (9_500, 9_500))
    path = tmp_path / "bomb.png"
    bomb.save(path)
    assert path.stat().st_size < 200_000
    assert read_picture(path, 16).reason.startswith("too large to be decoded")


def test_a_file_that_is_gone_has_a_reason(tmp_path):
    assert read_picture(tmp_path / "gone.jpg", 16).reason == "not there (any more)"


def test_a_folder_and_a_pipe_are_no_pictures(tmp_path):
    (tmp_path / "a.jpg").mkdir()
    assert read_picture(tmp_path / "a.jpg", 16).reason == "not a file"
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "b.jpg")
        assert read_picture(tmp_path / "b.jpg", 16).reason == "not a file"


def test_an_enormous_file_is_not_read(tmp_path):
    path = tmp_path / "a.tif"
    with path.open("wb") as empty:
        empty.truncate(MAX_BYTES + 1)  # takes no room
    assert read_picture(path, 16).reason.startswith("too large a file")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may read every file")
def test_a_file_that_may_not_be_read_has_a_reason(tmp_path):
    path = file(tmp_path, encoded(landscape()))
    path.chmod(0)
    assert read_picture(path, 16).reason == "cannot be read (Permission denied)"


def test_an_error_of_the_disk_has_a_reason(tmp_path, monkeypatch):
    path = file(tmp_path, encoded(landscape()))

    def broken(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", broken)
    assert read_picture(path, 16).reason == "cannot be read (Permission denied)"


def test_a_picture_that_is_known_is_not_decoded(tmp_path):
    path = file(tmp_path, encoded(landscape()))
    first = read_picture(path, 16)
    again = read_picture(path, 16, known={first.content})
    assert again.content == first.content
    assert again.pixels is None
    assert not again.reason


def bits_apart(one: int, other: int) -> int:
    return bin(one ^ other).count("1")


def test_the_picture_hash_is_that_of_a_hand_worked_case():
    steps = np.zeros((8, 9, 3), np.uint8)
    steps[0] = np.arange(9)[::-1, None] * 20  # darker to the right: eight ones
    steps[7, 8] = 255  # brighter to the right: no one
    assert picture_hash(steps) == 0xFF00000000000000


@pytest.mark.parametrize("kind", ["JPEG", "WEBP"])
def test_the_picture_hash_stays_when_a_picture_is_scaled_and_compressed(tmp_path, kind):
    original = read_picture(file(tmp_path, encoded(landscape())), 128).picture
    smaller = np.asarray(Image.fromarray(landscape()).resize((150, 150)))
    copy = read_picture(file(tmp_path, encoded(smaller, kind, quality=60), "copy"), 128).picture
    assert bits_apart(original, copy) <= 3


def test_the_picture_hash_tells_different_pictures_apart():
    noise = np.random.default_rng(0).integers(0, 256, (20, 64, 64, 3), dtype=np.uint8)
    hashes = [picture_hash(pixels) for pixels in [*noise, landscape()]]
    assert min(bits_apart(a, b) for i, a in enumerate(hashes) for b in hashes[:i]) > 8
