"""Names on a map stay inside it and do not cover each other."""

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from remp.report.label.map import PHONE_SIZE, WIDE_SIZE, place_names

WIDTH, HEIGHT = 720, 520
POINTS = st.lists(st.tuples(st.floats(0, WIDTH), st.floats(0, HEIGHT)), min_size=1, max_size=30)


def box(name, size):
    """left, top, right, bottom of the text if a letter is 0.62 of the size wide and a line 1.2 of it high."""
    length = 0.62 * size * len(name.text)
    left = {"start": name.x, "middle": name.x - length / 2, "end": name.x - length}[name.anchor]
    return left, name.y - 0.6 * size, left + length, name.y + 0.6 * size


def apart(one, other):
    return one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


@given(POINTS)
def test_no_name_covers_another_in_the_sizes_of_a_phone_and_of_a_desk(points):
    placed = place_names([f"class {i}" for i in range(len(points))], np.array(points), WIDTH, HEIGHT)
    for shown, size in (([name for name in placed if not name.wide_only], PHONE_SIZE), (placed, WIDE_SIZE)):
        boxes = [box(name, size) for name in shown]
        assert all(apart(one, other) for one, other in combinations(boxes, 2))
        assert all(left >= 0 and top >= 0 and right <= WIDTH and low <= HEIGHT for left, top, right, low in boxes)


def test_a_name_stands_to_the_right_of_its_point_or_to_the_left_at_the_right_border():
    right, left = place_names(["one", "two"], np.array([[100.0, 100.0], [715.0, 300.0]]), WIDTH, HEIGHT)
    assert (right.anchor, right.y) == ("start", 100)
    assert right.x > 100
    assert (left.anchor, left.y) == ("end", 300)
    assert left.x < 715


def test_of_twenty_names_at_one_point_those_that_fit_around_it_are_placed():
    placed = place_names([f"class {i}" for i in range(20)], np.full((20, 2), 250.0), WIDTH, HEIGHT)
    assert [name.text for name in placed] == ["class 0", "class 1", "class 2", "class 3"]
