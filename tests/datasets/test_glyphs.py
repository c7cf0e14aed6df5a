"""The data set `glyphs`: what is in it, that it never changes, and that it can be read."""

import itertools
import unicodedata
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont, ImageOps

from remp.datasets.base import open_prepared
from remp.datasets.glyph_shapes import read_outlines
from remp.datasets.glyphs import IMAGE_SIZE, PIXEL, SCRIPTS, Draws, _place, draw, prepare_glyphs
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
