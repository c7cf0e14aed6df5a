"""Outlines of characters, as straight edges with whole coordinates, from the fonts inside matplotlib."""

from pathlib import Path

import numpy as np

from remp.errors import DataError

FACES = (
    "DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique",
    "DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSansMono-Oblique", "DejaVuSansMono-BoldOblique",
    "DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic", "DejaVuSerif-BoldItalic",
    "STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic", "STIXGeneralBolIta",
)  # fmt: skip


class Outlines:
    """The faces, opened once."""

    def __init__(self) -> None:
        import matplotlib
        from fontTools.ttLib import TTFont
        folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
        self._fonts = [TTFont(folder / f"{face}.ttf", lazy=True) for face in FACES]
        self._tables = [(font.getBestCmap(), font["glyf"]) for font in self._fonts]

    def of(self, character: str) -> list[np.ndarray]:
        """The character's edges in each face that has it: int64 (n_edges, 2, 2)."""
        return [_edges(table, names[ord(character)]) for names, table in self._tables if ord(character) in names]


def _edges(table, name):
    coordinates, ends, on = table[name].getCoordinates(table)[:3]
    contours = np.split(np.array(coordinates), np.array(ends[:-1])+1)
    flags = np.split(np.array(on), np.array(ends[:-1])+1)
    return np.concatenate([_flatten(c.astype(np.int64), f.astype(bool)) for c, f in zip(contours, flags)])

STEPS = 4
def _flatten(points, on):
    # between two off-curve points lies an on-curve point halfway
    points = points * 2
    after, after_on = np.roll(points, -1, axis=0), np.roll(on, -1)
    prev, prev_on = np.roll(points, 1, axis=0), np.roll(on, 1)
    # Each off-curve point is the control point of a parabola between its neighbours, or halfway to them
    start = np.where(prev_on[:, None], prev, (prev+points)//2)
    end = np.where(after_on[:, None], after, (after+points)//2)
    # corner: points on
    k = np.arange(STEPS+1)[:, None]
    curve = ((STEPS-k)**2 * start[:, None] + 2*k*(STEPS-k)*points[:, None] + k*k*end[:, None])
    corner = np.broadcast_to(points[:, None]*STEPS**2, curve.shape)
    path = np.where(on[:, None, None], corner, curve).reshape(-1, 2)
    edges = np.stack([path, np.roll(path, -1, axis=0)], axis=1)
    return edges[(edges[:, 0] != edges[:, 1]).any(axis=1)]
