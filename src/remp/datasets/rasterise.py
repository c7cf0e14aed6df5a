"""Polygons to pixels in integer arithmetic, so that every machine draws the same picture."""

import numpy as np

CELL = 256  # Coordinates are integers; this many of them make the side of one cell of the raster.


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
