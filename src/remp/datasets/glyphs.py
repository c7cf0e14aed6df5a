"""The data set `glyphs`: characters of nine scripts, drawn from the fonts that ship inside matplotlib.

No script is in two splits, and letters that look like one of another split, or of their own, are left out. All is
integer arithmetic on the fonts' own integer outlines, with numbers from a raw Philox stream: the images, and so the
fingerprint, depend on the seed and on the font files alone. Those are byte for byte the same in matplotlib 3.7 and
3.11; the versions of numpy, Pillow and FreeType, the processor and the system play no part.
"""

import unicodedata
from functools import partial
from typing import Any

import numpy as np

from remp.datasets.base import check_not_prepared, write_prepared
from remp.datasets.glyph_shapes import CELL, coverage, fill, read_outlines, thicken
from remp.system.progress import progress

SEED = 0
IMAGE_SIZE = 32
IMAGES_PER_CLASS = 64
CELLS_PER_PIXEL = 4  # in each direction
PIXEL = CELLS_PER_PIXEL * CELL  # the side of a pixel in the coordinates of the rasteriser
ONE = 1024  # 1.0 as a fixed-point number

SCRIPTS = {
    "train": {
        "latin": "ABCDEFGHJKLMNOPQRSTUVWXYZabefghmrt47&@?€£%§",
        "greek": "ΓΔΘΛΞΠΣΦΨΩαγδζλμξπω",
        "cyrillic": "БДЖЦЧШЫЮЭ",
        "arabic": "جسصطعقكمي",
        "tifinagh": "ⴳⴼⵃⵄⵇⵋⵌⵒⵖⵘⵙⵚⵛⵜⵣ",
    },
    "val": {"armenian": "ԲԳԴԵԸԹԺԽԾՃՇՋՔՖ", "hebrew": "אבגהטלמעפצקש"},
    "test": {"georgian": "აბდევზთლნჟრსტფქშჭჯჰ", "lao": "ກຂຄງຈທນຜມລຫອ"},
}


def prepare_glyphs(name: str = "glyphs", *, overwrite: bool = False) -> dict[str, Any]:
    """Draw the data set, write it as the prepared set `name` and return its index; takes a few seconds.

    Raises DataError if `name` is prepared already and `overwrite` is not set, or if a font is missing.
    """
    check_not_prepared(name, overwrite=overwrite)
    characters = {split: "".join(scripts.values()) for split, scripts in SCRIPTS.items()}
    outlines = read_outlines("".join(characters.values()))
    splits = {
        split: {
            unicodedata.name(character).lower(): partial(draw, outlines[character], seed=SEED, stream=ord(character))
            for character in members
        }
        for split, members in characters.items()
    }
    with progress("Drawing glyphs", len(outlines), unit="classes") as bar:
        return write_prepared(
            name,
            splits,
            image_size=(IMAGE_SIZE, IMAGE_SIZE, 1),
            counts={split: [IMAGES_PER_CLASS] * len(classes) for split, classes in splits.items()},
            source=f"fonts of matplotlib, seed {SEED}",
            overwrite=overwrite,
            on_class=lambda split, class_name: bar.advance(note=class_name),
        )


class Draws:
    """Whole numbers from a raw Philox stream: unlike numpy's distributions, it never changes between versions."""

    def __init__(self, seed: int, stream: int) -> None:
        self._bits = np.random.Philox(key=np.array([seed % 2**64, stream], dtype=np.uint64))

    def whole(self, low: int, high: int, *shape: int) -> np.ndarray:
        """Whole numbers from low to high, both included: int64 of that shape."""
        return low + (self._bits.random_raw(shape) % np.uint64(high - low + 1)).astype(np.int64)

    def octets(self, n: int) -> np.ndarray:
        """Random bytes, n of them (a multiple of 8), as int16 (n,)."""
        return self._bits.random_raw(n // 8).astype("<u8").view(np.uint8).astype(np.int16)


def draw(outlines: list[np.ndarray], *, seed: int, stream: int, n_images: int = IMAGES_PER_CLASS) -> np.ndarray:
    """Draw one character many times, light on dark: uint8 (n_images, 32, 32, 1).

    outlines: the character in each face, int64 (n_edges, 2, 2), y upwards, in any unit. Seed and stream (the code
    point, so that characters do not depend on one another) fix every pixel.
    """
    draws = Draws(seed, stream)
    edges, image_of_edge = _place(outlines, draws, n_images)
    ink = fill(edges, image_of_edge, n_images=n_images, size=IMAGE_SIZE * CELLS_PER_PIXEL)
    ink = thicken(ink, draws.whole(0, 3, n_images))
    return _develop(coverage(ink, CELLS_PER_PIXEL), draws)[..., None]


def _place(outlines: list[np.ndarray], draws: Draws, n_images: int) -> tuple[np.ndarray, np.ndarray]:
    """Distort a random face for each image and put it whole into the picture: the edges, and the image of each."""
    chosen = [outlines[face] for face in draws.whole(0, len(outlines) - 1, n_images)]
    lengths = np.array([len(outline) for outline in chosen])
    image = np.repeat(np.arange(n_images), lengths)
    points = np.einsum("npi,nij->npj", np.concatenate(chosen), _distortions(draws, n_images)[image])
    starts = np.cumsum(lengths) - lengths
    low = np.minimum.reduceat(points.min(axis=1), starts)  # (n_images, 2)
    span = np.maximum.reduceat(points.max(axis=1), starts) - low
    side = draws.whole(18 * PIXEL, 27 * PIXEL, n_images)  # what the longer side of the character becomes
    room = (IMAGE_SIZE * PIXEL - side)[:, None]
    centre = IMAGE_SIZE * PIXEL // 2 + draws.whole(-ONE, ONE, n_images, 2) * room // (4 * ONE)
    from_middle = 2 * (points - low[image][:, None]) - span[image][:, None]
    scaled = from_middle * side[image, None, None] // (2 * span.max(axis=1))[image, None, None]
    return centre[image][:, None] + scaled, image


def _distortions(draws: Draws, n: int) -> np.ndarray:
    """Random stretch, slant and turn up to 25°: int64 (n, 2, 2), where the steps along x and y (upwards) go."""
    width, height = draws.whole(ONE * 6 // 10, ONE, 2, n)
    slant = draws.whole(-ONE * 3 // 10, ONE * 3 // 10, n)
    half = draws.whole(-ONE * 22 // 100, ONE * 22 // 100, n)  # tangent of half the angle: no sine is rounded by libm
    cosine = (ONE**2 - half**2) * ONE // (ONE**2 + half**2)
    sine = 2 * half * ONE**2 // (ONE**2 + half**2)
    x_step = width * cosine, width * sine
    y_step = height * (slant * cosine // ONE + sine), height * (slant * sine // ONE - cosine)
    return np.array([x_step, y_step]).transpose(2, 0, 1)


def _develop(covered: np.ndarray, draws: Draws) -> np.ndarray:
    """Turn coverage (n, 32, 32) into grey values (n, 32, 32) with a hidden part, random contrast and grain."""
    ground, contrast, grain = (
        draws.whole(low, high, len(covered), 1, 1) for low, high in ((20, 80), (80, 170), (10, 60))
    )
    noise = (draws.octets(covered.size) + draws.octets(covered.size) - 255).reshape(covered.shape)
    ink = covered * ~_patches(draws, len(covered)) * contrast // CELLS_PER_PIXEL**2
    return np.clip(ground + ink + noise * grain // 256, 0, 255).astype(np.uint8)


def _patches(draws: Draws, n: int) -> np.ndarray:
    """One rectangle of 3 to 10 pixels per side in each image, where nothing is to be seen: bool (n, 32, 32)."""
    length = draws.whole(3, 10, 2, n, 1)
    start = draws.whole(0, IMAGE_SIZE, 2, n, 1) - length // 2
    pixel = np.arange(IMAGE_SIZE)
    rows, columns = (pixel >= start) & (pixel < start + length)  # each (n, 32)
    return rows[:, :, None] & columns[:, None, :]
