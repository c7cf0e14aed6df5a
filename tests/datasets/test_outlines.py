"""Outlines from the fonts, against FreeType and against parabolas computed by hand."""

from pathlib import Path

import matplotlib
import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from remp.datasets.outlines import FACES, STEPS, flatten, read_outlines
from remp.datasets.rasterise import CELL, fill
from remp.errors import DataError

SIZE = 200


def fonts() -> Path:
    return Path(matplotlib.get_data_path()) / "fonts" / "ttf"


def drawn_by_freetype(character: str, face: str) -> np.ndarray:
    """The character's own box, scaled to a square: bool (SIZE, SIZE)."""
    canvas = Image.new("L", (900, 900))
    font = ImageFont.truetype(fonts() / f"{face}.ttf", 400)
    ImageDraw.Draw(canvas).text((200, 200), character, font=font, fill=255)
    return np.asarray(canvas.crop(canvas.getbbox()).resize((SIZE, SIZE))) > 127


def drawn_by_us(outline: np.ndarray) -> np.ndarray:
    low, high = outline.min(axis=(0, 1)), outline.max(axis=(0, 1))
    edges = (outline - low) * SIZE * CELL // (high - low)
    return fill(edges, np.zeros(len(edges), dtype=np.int64), n_images=1, size=SIZE)[0][::-1]


@pytest.mark.parametrize("character", ["g", "&", "Ф", "ⵣ", "რ", "ຫ"])
def test_an_outline_filled_is_what_freetype_draws(character: str) -> None:
    outline = read_outlines([character])[character][0]
    assert (drawn_by_us(outline) == drawn_by_freetype(character, FACES[0])).mean() > 0.98


def test_every_face_that_has_the_character_gives_an_outline() -> None:
    outlines = read_outlines("Aⵣ\u4e00")
    assert len(outlines["A"]) == len(FACES)
    assert len(outlines["ⵣ"]) == 2  # only the upright sans has Tifinagh, regular and bold
    assert outlines["\u4e00"] == []  # and none has Chinese


def test_corners_stay_corners() -> None:
    square = np.array([(0, 0), (4, 0), (4, 4), (0, 4)])
    edges = flatten(square, np.ones(4, dtype=bool))
    np.testing.assert_array_equal(edges[:, 0], square * 2 * STEPS**2)
    np.testing.assert_array_equal(edges[:, 1], np.roll(edges[:, 0], -1, axis=0))


def test_a_point_off_the_curve_bends_a_parabola() -> None:
    edges = flatten(np.array([(0, 0), (5, 10), (10, 0)]), np.array([True, False, True]))
    visited = edges[:, 0] / (2 * STEPS**2)
    on_parabola = [(10 * t, 20 * t * (1 - t)) for t in (0, 0.25, 0.5, 0.75, 1)]
    np.testing.assert_array_equal(visited, on_parabola)


def test_a_contour_wholly_off_the_curve_passes_halfway_between_its_points() -> None:
    edges = flatten(np.array([(0, 0), (8, 0), (8, 8), (0, 8)]), np.zeros(4, dtype=bool))
    visited = {tuple(point) for point in (edges[:, 0] / (2 * STEPS**2)).tolist()}
    assert {(4, 0), (8, 4), (4, 8), (0, 4)} <= visited


def test_a_missing_font_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(matplotlib, "get_data_path", lambda: str(tmp_path))
    with pytest.raises(DataError, match=r"DejaVuSans\.ttf is missing.*install matplotlib"):
        read_outlines("A")
