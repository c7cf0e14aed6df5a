"""Outlines of characters from the fonts inside matplotlib, and polygons to pixels.

In integer arithmetic and not by Pillow, so that every machine draws the same picture, whatever FreeType it has.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from remp.errors import DataError

# The files of these faces are the same in matplotlib 3.7.0 and 3.11.2.
FACES = (
    *(f"DejaVuSans{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSansMono{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSerif{style}" for style in ("", "-Bold", "-Italic", "-BoldItalic")),
    *(f"STIXGeneral{style}" for style in ("", "Bol", "Italic", "BolIta")),
)
STEPS = 4  # straight pieces a curve is cut into
CELL = 256  # Coordinates are integers; this many of them make the side of one cell of the raster.


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
    first, last = _rows_crossed(edges, size)
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


def _rows_crossed(edges: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The first row whose centre line an edge crosses, and the one after the last; equal for a level edge."""
    y = edges[:, :, 1]
    return (
        np.clip(_first_centre_from(y.min(axis=1)), 0, size),
        np.clip(_first_centre_from(y.max(axis=1)), 0, size),
    )


def _first_centre_from(coordinate: np.ndarray) -> np.ndarray:
    """Index of the first row or column whose centre is at the coordinate or beyond it."""
    return (coordinate + CELL // 2 - 1) // CELL
