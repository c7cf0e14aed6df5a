"""Names beside the points of a map, placed so that none covers another."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from remp.report.names import short

LONGEST_NAME = 20
GAP = 15  # between a point and its name
# Text shrinks with the drawing, so that it is set larger on a phone, by the stylesheet too. Names that have room in the
# larger size are shown everywhere, the others on wide screens only.
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
    taken = np.concatenate([points - GAP / 2, points + GAP / 2], axis=1)  # boxes of the points, then of the names
    placed: dict[int, PlacedName] = {}
    for size in (PHONE_SIZE, WIDE_SIZE):
        for number in (number for number in range(len(names)) if number not in placed):
            for candidate in _candidates(short(names[number], LONGEST_NAME), points[number], size):
                box = _box(candidate, size)
                if _inside(box, width, height) and not _overlap(box, taken).any():
                    placed[number] = candidate
                    taken = np.append(taken, [box], axis=0)
                    break
    return tuple(placed[number] for number in sorted(placed))


def _candidates(text: str, point: np.ndarray, size: float) -> Iterator[PlacedName]:
    """The best place first."""
    (x, y), wide_only = point.tolist(), size == WIDE_SIZE
    yield PlacedName(text, x + GAP, y, "start", wide_only)
    yield PlacedName(text, x - GAP, y, "end", wide_only)
    yield PlacedName(text, x, y - GAP - 0.6 * size, "middle", wide_only)
    yield PlacedName(text, x, y + GAP + 0.6 * size, "middle", wide_only)


def _box(name: PlacedName, size: float) -> Box:
    length = size * LETTER_WIDTH * sum(2 if ord(letter) > 0x2E7F else 1 for letter in name.text)
    left = name.x - {"start": 0.0, "middle": 0.5, "end": 1.0}[name.anchor] * length
    return left, name.y - 0.6 * size, left + length, name.y + 0.6 * size


def _inside(box: Box, width: float, height: float) -> bool:
    return box[0] >= 0 and box[1] >= 0 and box[2] <= width and box[3] <= height


def _overlap(box: Box, others: np.ndarray) -> np.ndarray:
    """Whether each of the others (k, 4) shares some space with the box: (k,) bool"""
    left, top, right, bottom = box
    return (left < others[:, 2]) & (others[:, 0] < right) & (top < others[:, 3]) & (others[:, 1] < bottom)
