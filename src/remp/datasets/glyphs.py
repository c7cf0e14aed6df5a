"""The data set `glyphs`: characters of eight scripts, drawn from the fonts that ship inside matplotlib.

The splits share no script and no look-alike letters. Everything is integer arithmetic on the fonts' own integer
outlines, with raw Philox numbers: the images, and so the fingerprint, are the same on every machine and with every
version of numpy, Pillow and FreeType. They depend only on the seed and on DejaVu 2.37 and STIX 1.0, which are
byte for byte the same in matplotlib 3.7 and 3.11.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from remp.datasets.base import write_prepared
from remp.datasets.outlines import Outlines
from remp.datasets.rasterise import CELL, coverage, fill, thicken
from remp.progress import progress

IMAGE_SIZE = 32
IMAGES_A_CLASS = 64
ONE = 1024  # 1.0 in the fixed-point numbers below
CELLS_A_PIXEL = 4

SCRIPTS: Mapping[str, Mapping[str, str]] = {
    "train": {
        "latin": "ABCDEFGHJKLMNOPQRSTUVWXYZabefghmrt47&@?€£%§",
        "greek": "ΓΔΘΛΞΠΣΦΨΩαγδζλμξπω",
        "cyrillic": "БДЖЦЧШЫЮЭ",
        "arabic": "جسصطعقكمي",
        "tifinagh": "ⴳⴼⵃⵄⵇⵋⵌⵒⵖⵘⵙⵚⵛⵜⵞⵣ",
    },
    "val": {"armenian": "ԲԳԴԵԸԹԺԽԾՃՇՋՔՖ", "hebrew": "אבגהטלמעפצקש"},
    "test": {"georgian": "აბდევზთლნჟრსტფქშწჭჯჰ", "lao": "ກຂຄງຈທນຜມລຫອ"},
}


class Draws:
    """Whole numbers from a raw Philox stream, which numpy keeps the same from version to version."""

    def __init__(self, seed: int, stream: int) -> None:
        self._bits = np.random.Philox(key=np.array([seed, stream], dtype=np.uint64))

    def whole(self, low: int, high: int, n: int) -> np.ndarray:
        """n whole numbers from low to high, both included: int64 (n,)."""
        return low + (self._bits.random_raw(n) % np.uint64(high - low + 1)).astype(np.int64)

    def octets(self, n: int) -> np.ndarray:
        """n random bytes (n a multiple of 8), as int16 (n,)."""
        return self._bits.random_raw(n // 8).astype("<u8").view(np.uint8).astype(np.int16)


def draw_class(outlines: list[np.ndarray], draws: Draws, n_images: int = IMAGES_A_CLASS) -> np.ndarray:
    """Draw one character many times: uint8 (n_images, 32, 32, 1), light ink on dark ground.

    outlines: the character's edges in each face, int64 (n_edges, 2, 2), y upwards.
    """
    edges, image = _place(outlines, draws, n_images)
    ink = fill(edges, image, n_images=n_images, size=IMAGE_SIZE * CELLS_A_PIXEL)
    ink = thicken(ink, draws.whole(0, 3, n_images))
    return _develop(coverage(ink, CELLS_A_PIXEL), draws)[..., None]


def _place(outlines: list[np.ndarray], draws: Draws, n_images: int) -> tuple[np.ndarray, np.ndarray]:
    """Distort a random face for each image and put it whole into the picture: edges and the image of each."""
    chosen = [outlines[face] for face in draws.whole(0, len(outlines) - 1, n_images)]
    starts = np.cumsum([0] + [len(outline) for outline in chosen[:-1]])
    image = np.repeat(np.arange(n_images), [len(outline) for outline in chosen])
    points = np.einsum("npi,nij->npj", np.concatenate(chosen), _distortions(draws, n_images)[image])
    low = np.minimum.reduceat(points.min(axis=1), starts)
    high = np.maximum.reduceat(points.max(axis=1), starts)
    side = draws.whole(18 * ONE, 27 * ONE, n_images) * (CELLS_A_PIXEL * CELL) // ONE
    extent = (high - low).max(axis=1)
    room = IMAGE_SIZE * CELLS_A_PIXEL * CELL - side
    offset = np.stack([draws.whole(ONE // 4, ONE * 3 // 4, n_images) * room // ONE for _ in range(2)], axis=1)
    offset += (extent[:, None] - (high - low)) * (side // 2)[:, None] // extent[:, None]
    placed = (points - low[image][:, None]) * side[image, None, None] // extent[image, None, None]
    return placed + offset[image][:, None], image


def _distortions(draws: Draws, n: int) -> np.ndarray:
    """Random stretch, slant and turn, y turned downwards: int64 (n, 2, 2), to the right of a row of coordinates."""
    stretch = draws.whole(ONE * 6 // 10, ONE, n), draws.whole(ONE * 6 // 10, ONE, n)
    slant = draws.whole(-ONE * 3 // 10, ONE * 3 // 10, n)
    half = draws.whole(-ONE * 22 // 100, ONE * 22 // 100, n)  # tangent of half the angle: rational sine and cosine
    cosine = (ONE**2 - half**2) * ONE // (ONE**2 + half**2)
    sine = 2 * half * ONE * ONE // (ONE**2 + half**2)
    x_image = stretch[0] * cosine, stretch[0] * sine
    slanted = slant * cosine // ONE + sine, slant * sine // ONE - cosine
    y_image = stretch[1] * slanted[0], stretch[1] * slanted[1]
    return np.stack([np.stack(x_image, axis=1), np.stack(y_image, axis=1)], axis=1)


def _develop(covered: np.ndarray, draws: Draws) -> np.ndarray:
    """Coverage (n, 32, 32) to grey values (n, 32, 32): a blot that hides a part, contrast and grain."""
    n = len(covered)
    ground, contrast, grain = draws.whole(20, 80, n), draws.whole(80, 170, n), draws.whole(10, 60, n)
    covered = covered * ~_blots(draws, n)
    noise = (draws.octets(covered.size) + draws.octets(covered.size) - 255).reshape(covered.shape)
    grey = covered * contrast[:, None, None] // CELLS_A_PIXEL**2 + noise * grain[:, None, None] // 256
    return np.clip(ground[:, None, None] + grey, 0, 255).astype(np.uint8)


def _blots(draws: Draws, n: int) -> np.ndarray:
    """One rectangle an image: bool (n, 32, 32)."""
    pixel = np.arange(IMAGE_SIZE)
    inside = []
    for _ in range(2):
        length = draws.whole(3, 10, n)[:, None]
        start = draws.whole(0, IMAGE_SIZE, n)[:, None] - length // 2
        inside.append((pixel >= start) & (pixel < start + length))
    return inside[0][:, :, None] & inside[1][:, None, :]
