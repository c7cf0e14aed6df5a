"""Names beside the points of a map, placed so that none covers another."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from remp.report.names import short

LONGEST_NAME = 20
GAP = 12  # between a point and its name
# Text scales with the drawing, so that it is set larger on a phone: (size of the font, whether only wide screens show
# what is placed with it). Names that fit in the size of a phone are on both.
PHONE_SIZE, WIDE_SIZE = 24, 13
LETTER_WIDTH = 0.62  # of a letter on average, in sizes of the font; wide scripts count double

Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True)
class PlacedName:
    text: str
    x: float
    y: float
    anchor: Literal["start", "end"]
    wide_only: bool


def place_names(names: Sequence[str], points: np.ndarray, width: float, height: float) -> tuple[PlacedName, ...]:
    """Names to the right or left of their points (n, 2); one that has no room on either side is left out."""
    texts = [short(name, LONGEST_NAME) for name in names]
    taken: list[Box] = [(x - GAP / 2, y - GAP / 2, x + GAP / 2, y + GAP / 2) for x, y in points]
    placed: dict[int, PlacedName] = {}
    for size in (PHONE_SIZE, WIDE_SIZE):
        for number, (text, (x, y)) in enumerate(zip(texts, points, strict=True)):
            if number in placed:
                continue
            for anchor in ("start", "end"):
                box = _box(text, float(x), float(y), anchor, size)
                if _inside(box, width, height) and not any(_overlap(box, other) for other in taken):
                    placed[number] = PlacedName(
                        text, box[0] if anchor == "start" else box[2], float(y), anchor, size == WIDE_SIZE
                    )
                    taken.append(box)
                    break
    return tuple(placed[number] for number in sorted(placed))


def _box(text: str, x: float, y: float, anchor: str, size: float) -> Box:
    length = size * LETTER_WIDTH * sum(2 if ord(letter) > 0x2E7F else 1 for letter in text)
    left = x + GAP if anchor == "start" else x - GAP - length
    return left, y - 0.6 * size, left + length, y + 0.6 * size


def _inside(box: Box, width: float, height: float) -> bool:
    return box[0] >= 0 and box[1] >= 0 and box[2] <= width and box[3] <= height


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
