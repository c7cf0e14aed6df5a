"""The data set `glyphs`: characters of nine scripts, drawn from the fonts that ship inside matplotlib.

No script is in two splits, and letters that look like one of another split, or of their own, are left out. All is
integer arithmetic on the fonts' own integer outlines, with numbers from a raw Philox stream: the images, and so the
fingerprint, depend on the seed and on the font files alone. Those are byte for byte the same in matplotlib 3.7 and
3.11; the versions of numpy, Pillow and FreeType, the processor and the system play no part. Polygons become pixels here
and not by Pillow, so that every machine draws the same picture, whatever FreeType it has.
"""

import unicodedata
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from remp.datasets.base import check_not_prepared, write_prepared
from remp.datasets.raw import RawClass, RawSet
from remp.errors import DataError
from remp.system.progress import progress

SEED = 0
IMAGE_SIZE = 32
IMAGES_PER_CLASS = 64
# The files of these faces are the same in matplotlib 3.7.0 and 3.11.2.
FACES = (
    *(f"DejaVuSans{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSansMono{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSerif{style}" for style in ("", "-Bold", "-Italic", "-BoldItalic")),
    *(f"STIXGeneral{style}" for style in ("", "Bol", "Italic", "BolIta")),
)
STEPS = 4  # straight pieces a curve is cut into
CELL = 256  # Coordinates are integers; this many of them make the side of one cell of the raster.
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
            unicodedata.name(character).lower(): RawClass(
                IMAGES_PER_CLASS, partial(draw, outlines[character], seed=SEED, stream=ord(character))
            )
            for character in members
        }
        for split, members in characters.items()
    }
    raw = RawSet(splits, (IMAGE_SIZE, IMAGE_SIZE, 1), f"fonts of matplotlib, seed {SEED}")
    with progress("Drawing glyphs", len(outlines), unit="classes") as bar:
        return write_prepared(
            name, raw, overwrite=overwrite, on_class=lambda split, class_name: bar.advance(note=class_name)
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


def read_outlines(characters: Iterable[str]) -> dict[str, list[np.ndarray]]:
    """Read each character's outline from every face that has it.

    An outline is int64 (n_edges, 2, 2): edges from point to point of closed contours, y upwards, as from `flatten`.
    """
    outlines: dict[str, list[np.ndarray]] = {character: [] for character in characters}
    for face in FACES:
        with _open_font(face) as font:
            glyph_names, glyphs = font.getBestCmap(), font["glyf"]
            for character, found in outlines.items():
                if ord(character) in glyph_names:
                    found.append(_edges(glyphs, glyph_names[ord(character)]))
    return outlines


def _open_font(face: str) -> Any:
    import matplotlib
    from fontTools.ttLib import TTFont

    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{face}.ttf"
    if not path.is_file():
        raise DataError(f"the font {path} is missing; it comes with matplotlib: install matplotlib again with pip")
    return TTFont(path, lazy=True)


def _edges(glyphs: Any, glyph_name: str) -> np.ndarray:
    coordinates, ends, flags = glyphs[glyph_name].getCoordinates(glyphs)
    points = np.rint(np.array(coordinates)).astype(np.int64)
    on_curve = np.array(flags) & 1 == 1
    starts = np.array(ends[:-1]) + 1
    contours = zip(np.split(points, starts), np.split(on_curve, starts), strict=True)
    return np.concatenate([flatten(contour, on_curve) for contour, on_curve in contours])


def flatten(points: np.ndarray, on_curve: np.ndarray) -> np.ndarray:
    """Cut a closed TrueType contour into straight edges, exactly.

    A point off the curve bends a parabola between its neighbours, or between the points halfway to those that are off
    the curve too. points: int64 (n, 2). on_curve: bool (n,). Returns int64 (n_edges, 2, 2) in 1 / (2 STEPS²) of a unit,
    in which every point so made is whole.
    """
    points = points * 2
    start, end = (
        np.where(np.roll(on_curve, shift)[:, None], neighbour, (points + neighbour) // 2)
        for shift in (1, -1)
        for neighbour in [np.roll(points, shift, axis=0)]
    )
    step = np.arange(STEPS + 1)[:, None]
    start, middle, end = start[:, None], points[:, None], end[:, None]
    curve = (STEPS - step) ** 2 * start + 2 * step * (STEPS - step) * middle + step**2 * end  # (n, STEPS + 1, 2)
    path = np.where(on_curve[:, None, None], middle * STEPS**2, curve).reshape(-1, 2)
    edges = np.stack([path, np.roll(path, -1, axis=0)], axis=1)
    return edges[(edges[:, 0] != edges[:, 1]).any(axis=1)]


def fill(edges: np.ndarray, image_of_edge: np.ndarray, *, n_images: int, size: int) -> np.ndarray:
    """Fill closed polygons by the non-zero winding rule, many images at once.

    edges: int64 (n, 2, 2), from point to point, each (x, y) with y downwards, in 1 / CELL of a cell; the edges of an
    image form closed contours. image_of_edge: (n,), 0 … n_images - 1. A cell is inked if its centre lies inside; what
    lies outside the raster is cut off. Returns bool (n_images, size, size).
    """
    ends = edges[:, :, 1].min(axis=1), edges[:, :, 1].max(axis=1)
    # The first row whose centre line an edge crosses, and the one after the last; equal for a level edge.
    first, last = (np.clip(_first_centre_from(y), 0, size) for y in ends)
    count = last - first
    edge = np.repeat(np.arange(len(edges)), count)  # one entry a crossing of an edge with a row's centre line
    row = np.arange(len(edge)) - np.repeat(np.cumsum(count) - count - first, count)
    (x, y), (end_x, end_y) = edges[edge].transpose(1, 2, 0)
    crossing = x + (row * CELL + CELL // 2 - y) * (end_x - x) // (end_y - y)
    column = np.clip(_first_centre_from(crossing), 0, size)
    # Sums of ±1 are exact in float64, so the weights of bincount round nothing.
    turns = np.bincount(
        (image_of_edge[edge] * size + row) * (size + 1) + column,
        weights=np.sign(end_y - y),
        minlength=n_images * size * (size + 1),
    )
    winding = turns.astype(np.int16).reshape(n_images, size, size + 1).cumsum(axis=2, dtype=np.int16)
    return winding[:, :, :size] != 0


def thicken(ink: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Grow the ink of each image by so many cells to each of the four sides.

    ink: bool (n, height, width). cells: integers (n,). Returns bool (n, height, width).
    """
    ink = ink.copy()
    for step in range(int(cells.max(initial=0))):
        growing = cells > step
        before = ink[growing]
        after = before.copy()
        after[:, 1:] |= before[:, :-1]
        after[:, :-1] |= before[:, 1:]
        after[:, :, 1:] |= before[:, :, :-1]
        after[:, :, :-1] |= before[:, :, 1:]
        ink[growing] = after
    return ink


def coverage(ink: np.ndarray, block: int) -> np.ndarray:
    """Count the inked cells of each pixel of block × block cells.

    ink: bool (n, height, width), both multiples of `block`. Returns uint8 (n, height / block, width / block).
    """
    rows = np.stack([ink[:, start::block] for start in range(block)]).sum(axis=0, dtype=np.uint8)
    return np.stack([rows[:, :, start::block] for start in range(block)]).sum(axis=0, dtype=np.uint8)


def _first_centre_from(coordinate: np.ndarray) -> np.ndarray:
    """Index of the first row or column whose centre is at the coordinate or beyond it."""
    return (coordinate + CELL // 2 - 1) // CELL
