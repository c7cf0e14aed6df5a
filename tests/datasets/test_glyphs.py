"""The data set `glyphs`: what is in it, that it never changes, that it can be read; its outlines, against FreeType."""

import itertools
import math
import unicodedata
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont, ImageOps
from scipy import ndimage

from remp.datasets.base import open_prepared
from remp.datasets.glyphs import (
    CELL,
    FACES,
    IMAGE_SIZE,
    PIXEL,
    SCRIPTS,
    STEPS,
    Draws,
    _place,
    coverage,
    draw,
    fill,
    flatten,
    prepare_glyphs,
    read_outlines,
    thicken,
)
from remp.errors import DataError

FINGERPRINTS = {
    "train": "036391f744c68b2d22cc504d4209b5ea90dfc509ef869361df275f9ff8fad692",
    "val": "8a7c04f5986428a3515d72c5ba7c4d96d531d5e0ee9f80043fac1251a4786000",
    "test": "3c7912215c0678f636bd3b63aab0fa32fb25e21186403fae18b014685db91b79",
}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The set, drawn once into a home of its own: that home, and the index."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REMP_HOME", str(home))
        return home, prepare_glyphs()


@pytest.fixture
def index(drawn: tuple[Path, dict[str, Any]], own_home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The index of the set, with its home in use."""
    home, index = drawn
    monkeypatch.setenv("REMP_HOME", str(home))
    return index


def characters(split: str) -> str:
    return "".join(SCRIPTS[split].values())


def upright(character: str) -> np.ndarray:
    """The character as Pillow draws it, fitted into a square: bool (32, 32)."""
    canvas = Image.new("L", (200, 200))
    font = ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans-Bold.ttf"), 90)
    ImageDraw.Draw(canvas).text((40, 40), character, font=font, fill=255)
    return np.asarray(ImageOps.pad(canvas.crop(canvas.getbbox()), (32, 32))) > 127


def test_the_images_are_the_same_on_every_machine(index: dict[str, Any]) -> None:
    assert {split: entry["fingerprint"] for split, entry in index["splits"].items()} == FINGERPRINTS


@pytest.mark.parametrize(("split", "n_classes"), [("train", 64), ("val", 16), ("test", 20)])
def test_a_split_has_enough_classes_of_64_images(index: dict[str, Any], split: str, n_classes: int) -> None:
    images = open_prepared("glyphs", split)
    assert images.n_classes >= n_classes
    assert images.image_size == (32, 32, 1)
    assert (np.bincount(images.labels) == 64).all()


def test_classes_bear_the_names_unicode_gives_them(index: dict[str, Any]) -> None:
    assert open_prepared("glyphs", "train").class_names[0] == "latin capital letter a"
    assert open_prepared("glyphs", "test").class_names[0] == "georgian letter an"


def test_no_two_images_are_equal(index: dict[str, Any]) -> None:
    images = np.concatenate([open_prepared("glyphs", split).images for split in SCRIPTS])
    assert len({image.tobytes() for image in images}) == len(images)


def test_no_script_is_in_two_splits() -> None:
    scripts = [script for split in SCRIPTS.values() for script in split]
    assert len(scripts) == len(set(scripts))
    for script, members in itertools.chain.from_iterable(split.items() for split in SCRIPTS.values()):
        letters = [character for character in members if unicodedata.category(character).startswith("L")]
        assert all(unicodedata.name(letter).startswith(script.upper()) for letter in letters)


def test_no_character_looks_like_another() -> None:
    everything = "".join(characters(split) for split in SCRIPTS)
    split_of = np.repeat(np.arange(3), [len(characters(split)) for split in SCRIPTS])
    ink = np.stack([upright(character).ravel() for character in everything]).astype(np.int64)
    shared = ink @ ink.T
    overlap = shared / (ink.sum(1)[:, None] + ink.sum(1) - shared) - np.eye(len(ink))
    assert overlap[split_of[:, None] != split_of].max() < 0.85
    assert overlap.max() < 0.95


def test_one_seed_gives_one_picture_and_another_seed_another() -> None:
    outlines = read_outlines("რ")["რ"]
    once, again, other = (draw(outlines, seed=seed, stream=1, n_images=4) for seed in (7, 7, 8))
    np.testing.assert_array_equal(once, again)
    assert (once != other).any(axis=(1, 2, 3)).all()


@pytest.mark.parametrize("character", ["@", "ξ", "ຫ", "ל"])
def test_a_character_lies_whole_inside_the_picture(character: str) -> None:
    edges, image = _place(read_outlines(character)[character], Draws(0, 0), 50)
    thickest = 3 * PIXEL // 4
    assert edges.min() >= thickest
    assert edges.max() <= IMAGE_SIZE * PIXEL - thickest
    assert set(image) == set(range(50))


def test_a_character_stands_out_from_its_ground() -> None:
    block = np.array([[(0, 0), (9, 0)], [(9, 0), (9, 9)], [(9, 9), (0, 9)], [(0, 9), (0, 0)]])
    images = draw([block], seed=0, stream=0, n_images=40)[..., 0].astype(float)
    assert (images[:, 12:20, 12:20].mean((1, 2)) > images[:, [0, -1]].mean((1, 2)) + 20).mean() > 0.9


def philox_block(counter: int, key: tuple[int, int]) -> list[int]:
    """Philox4x64-10 as its paper writes it (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011)."""
    words, (first_key, second_key) = [counter, 0, 0, 0], key
    for _ in range(10):
        first, second = words[0] * 0xD2E7470EE14C6C93, words[2] * 0xCA5A826395121157
        words = [
            (second >> 64) ^ words[1] ^ first_key,
            second % 2**64,
            (first >> 64) ^ words[3] ^ second_key,
            first % 2**64,
        ]
        first_key = (first_key + 0x9E3779B97F4A7C15) % 2**64
        second_key = (second_key + 0xBB67AE8584CAA73B) % 2**64
    return words


def test_random_numbers_are_those_of_the_published_philox() -> None:
    expected = [word % 100 - 50 for counter in (1, 2) for word in philox_block(counter, (3, 0x10D0))]
    assert Draws(3, 0x10D0).whole(-50, 49, 2, 4).ravel().tolist() == expected
    octets = [byte for word in philox_block(1, (3, 0x10D0)) for byte in word.to_bytes(8, "little")]
    assert Draws(3, 0x10D0).octets(32).tolist() == octets


def test_drawing_over_a_prepared_set_is_refused(index: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="prepared already"):
        prepare_glyphs()


SIZE = 200


def fonts() -> Path:
    return Path(matplotlib.get_data_path()) / "fonts" / "ttf"


def drawn_by_freetype(character: str, face: str) -> np.ndarray:
    """The character's own box, scaled to a square: bool (SIZE, SIZE)."""
    canvas = Image.new("L", (900, 900))
    font = ImageFont.truetype(str(fonts() / f"{face}.ttf"), 400)
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


def closed(*points: tuple[int, int]) -> np.ndarray:
    """The edges of a polygon whose corners are given in 1 / CELL of a cell."""
    corners = np.array(points, dtype=np.int64)
    return np.stack([corners, np.roll(corners, -1, axis=0)], axis=1)


def rectangle(left: int, top: int, right: int, bottom: int) -> np.ndarray:
    """The edges of a rectangle given in cells."""
    return closed(*((x * CELL, y * CELL) for x, y in ((left, top), (right, top), (right, bottom), (left, bottom))))


def fill_one(edges: np.ndarray, size: int) -> np.ndarray:
    return fill(edges, np.zeros(len(edges), dtype=np.int64), n_images=1, size=size)[0]


def turns_around(x: int, y: int, edges: np.ndarray) -> int:
    """How often the polygon winds round a point: the angles its edges span there, added up."""
    angle = 0.0
    for (from_x, from_y), (to_x, to_y) in (edges - (x, y)).tolist():
        angle += math.atan2(from_x * to_y - from_y * to_x, from_x * to_x + from_y * to_y)
    return round(angle / (2 * math.pi))


@pytest.mark.parametrize("seed", range(4))
def test_a_cell_is_inked_where_the_polygon_winds_round_its_centre(seed: int) -> None:
    # Odd corners keep the edges off the (even) centres, where the angle would not be defined.
    corners = np.random.default_rng(seed).integers(0, 12 * CELL // 2, (7, 2)) * 2 + 1
    edges = closed(*corners.tolist())
    centre = [cell * CELL + CELL // 2 for cell in range(12)]
    expected = [[turns_around(x, y, edges) != 0 for x in centre] for y in centre]
    np.testing.assert_array_equal(fill_one(edges, 12), expected)


def test_a_contour_of_the_other_direction_cuts_a_hole() -> None:
    ring = np.concatenate([rectangle(1, 1, 7, 7), rectangle(3, 3, 5, 5)[:, ::-1]])
    expected = np.zeros((8, 8), dtype=bool)
    expected[1:7, 1:7] = True
    expected[3:5, 3:5] = False
    np.testing.assert_array_equal(fill_one(ring, 8), expected)


def test_overlapping_contours_of_one_direction_are_both_inked() -> None:
    assert fill_one(np.concatenate([rectangle(0, 0, 4, 4), rectangle(2, 2, 6, 6)]), 6)[2:4, 2:4].all()


def test_what_lies_outside_the_raster_is_cut_off() -> None:
    assert fill_one(rectangle(-3, -5, 9, 20), 4).all()
    assert not fill_one(rectangle(5, 0, 9, 4), 4).any()
    assert not fill_one(rectangle(-9, 0, -5, 4), 4).any()


def test_images_do_not_touch_one_another() -> None:
    edges = np.concatenate([rectangle(-2, 0, 9, 2), rectangle(1, 1, 3, 3)])
    both = fill(edges, np.repeat([0, 2], 4), n_images=3, size=4)
    np.testing.assert_array_equal(both[0], fill_one(edges[:4], 4))
    assert not both[1].any()
    np.testing.assert_array_equal(both[2], fill_one(edges[4:], 4))


def test_ink_grows_as_by_binary_dilation_with_a_cross() -> None:
    ink = np.random.default_rng(0).random((4, 16, 16)) > 0.95
    before = ink.copy()
    grown = thicken(ink, np.arange(4))
    for cells in range(4):
        expected = ndimage.binary_dilation(ink[cells], iterations=cells) if cells else ink[cells]
        np.testing.assert_array_equal(grown[cells], expected)
    np.testing.assert_array_equal(ink, before)


def test_coverage_counts_the_inked_cells_of_a_pixel() -> None:
    ink = np.random.default_rng(0).random((2, 8, 12)) > 0.5
    counted = coverage(ink, 4)
    assert counted.shape == (2, 2, 3)
    assert counted.dtype == np.uint8
    assert counted[1, 1, 2] == ink[1, 4:8, 8:12].sum()
    assert counted.sum() == ink.sum()
