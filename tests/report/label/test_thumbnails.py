"""Thumbnails: made once, made anew for a changed file, and never taken from a damaged cache."""

import base64
import os
import time
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from remp.report import thumbnails
from remp.report.label.tiles import SIDE, thumbnail_sources
from remp.report.thumbnails import Thumbnails
from remp.system.files import home


def write_picture(path: Path, colour: tuple[int, int, int], *, age: float = 60) -> Path:
    Image.new("RGB", (300, 200), colour).save(path)
    os.utime(path, (time.time() - age,) * 2)
    return path


def pixels(source: str | None) -> np.ndarray:
    assert source is not None
    return np.asarray(Image.open(BytesIO(base64.b64decode(source.partition(",")[2]))))


@pytest.fixture
def unreadable(monkeypatch):
    """From when it is called on, no file can be read any more."""

    def refuse(path: Path) -> bytes:
        raise AssertionError(f"{path} was read")

    return lambda: monkeypatch.setattr(thumbnails, "read_file", refuse)


def test_a_thumbnail_is_the_picture_small(tmp_path):
    (source,) = thumbnail_sources([write_picture(tmp_path / "a.png", (200, 100, 50))])
    assert pixels(source).shape == (SIDE, SIDE, 3)
    assert np.abs(pixels(source).astype(int) - (200, 100, 50)).max() < 4


def test_a_file_that_has_not_changed_is_not_read_again(tmp_path, unreadable):
    paths = [write_picture(tmp_path / f"{number}.png", (9 * number, 0, 0)) for number in range(20)]
    first = thumbnail_sources(paths)
    unreadable()
    assert thumbnail_sources(paths[::-1]) == first[::-1]


def test_a_changed_file_has_a_new_thumbnail(tmp_path):
    thumbnail_sources([write_picture(tmp_path / "a.png", (250, 0, 0))])
    (source,) = thumbnail_sources([write_picture(tmp_path / "a.png", (0, 0, 250), age=30)])
    assert pixels(source)[5, 5, 2] > 200


def test_what_is_no_picture_or_gone_has_none(tmp_path):
    (tmp_path / "text.jpg").write_text("no picture")
    good = write_picture(tmp_path / "a.png", (1, 2, 3))
    assert [source is None for source in thumbnail_sources([tmp_path / "text.jpg", tmp_path / "gone.jpg", good])] == [
        True,
        True,
        False,
    ]


def test_damage_in_the_cache_is_noticed(tmp_path):
    (source,) = thumbnail_sources([path := write_picture(tmp_path / "a.png", (200, 100, 50))])
    file = home() / "thumbnails.sqlite"
    content = bytearray(file.read_bytes())
    content[content.index(b"\xff\xd8") + 100] ^= 255
    file.write_bytes(content)
    assert thumbnail_sources([path]) == [source]
    file.write_bytes(b"no database" * 1000)
    assert thumbnail_sources([path]) == [source]


def test_a_cache_that_cannot_be_written_to_costs_time_only(tmp_path):
    (home() / "thumbnails.sqlite").mkdir(parents=True)
    assert thumbnail_sources([write_picture(tmp_path / "a.png", (1, 2, 3))])[0]


def test_a_thumbnail_of_another_size_is_another(tmp_path, unreadable):
    path = write_picture(tmp_path / "a.png", (200, 100, 50))
    made = {side: Thumbnails(side, 80).small(path)[0] for side in (176, 48)}
    unreadable()
    for side, jpeg in made.items():
        assert Thumbnails(side, 80).small(path)[0] == jpeg
        assert Image.open(BytesIO(jpeg)).size == (side, side)
