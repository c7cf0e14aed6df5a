"""Polygons to pixels, against a naive loop, scipy and plain sums."""

import math

import numpy as np
import pytest
from scipy import ndimage

from remp.datasets.rasterise import CELL, coverage, fill, thicken


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
