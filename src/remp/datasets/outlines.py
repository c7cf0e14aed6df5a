"""Outlines of characters, as straight edges with whole coordinates, from the fonts inside matplotlib."""

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
