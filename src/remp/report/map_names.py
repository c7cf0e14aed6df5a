"""Names beside the points of a map, placed so that none covers another."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from remp.report.names import short

LONGEST_NAME = 20
GAP = 15  # between a point and its name
# Text scales with the drawing, so that it is set larger on a phone: (size of the font, whether only wide screens show
# what is placed with it). Names that fit in the size of a phone are on both.
PHONE_SIZE, WIDE_SIZE = 24, 13
LETTER_WIDTH = 0.62  # of a letter on average, in sizes of the font; wide scripts count double

Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True)
class PlacedName:
    """A name with the point its text is anchored at; `wide_only`: there is no room for it on a phone."""

    text: str
    x: float
    y: float
    anchor: Literal["start", "middle", "end"]
    wide_only: bool


def place_names(names: Sequence[str], points: np.ndarray, width: float, height: float) -> tuple[PlacedName, ...]:
    """Names beside, above or below their points (n, 2); one that has no room on any side is left out."""
    taken: list[Box] = [(x - GAP / 2, y - GAP / 2, x + GAP / 2, y + GAP / 2) for x, y in points]
    placed: dict[int, PlacedName] = {}
    for size in (PHONE_SIZE, WIDE_SIZE):
        for number, (name, (x, y)) in enumerate(zip(names, points, strict=True)):
            for candidate in _candidates(short(name, LONGEST_NAME), float(x), float(y), size):
                box = _box(candidate, size)
                if number in placed or not _inside(box, width, height) or any(_overlap(box, other) for other in taken):
                    continue
                placed[number] = candidate
                taken.append(box)
    return tuple(placed[number] for number in sorted(placed))


def _candidates(text: str, x: float, y: float, size: float) -> Iterator[PlacedName]:
    """The best place first."""
    wide_only = size == WIDE_SIZE
    yield PlacedName(text, x + GAP, y, "start", wide_only)
    yield PlacedName(text, x - GAP, y, "end", wide_only)
    yield PlacedName(text, x, y - GAP - size / 2, "middle", wide_only)
    yield PlacedName(text, x, y + GAP + size / 2, "middle", wide_only)


def _box(name: PlacedName, size: float) -> Box:
    length = size * LETTER_WIDTH * sum(2 if ord(letter) > 0x2E7F else 1 for letter in name.text)
    left = name.x - {"start": 0.0, "middle": 0.5, "end": 1.0}[name.anchor] * length
    return left, name.y - 0.6 * size, left + length, name.y + 0.6 * size


def _inside(box: Box, width: float, height: float) -> bool:
    return box[0] >= 0 and box[1] >= 0 and box[2] <= width and box[3] <= height


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
