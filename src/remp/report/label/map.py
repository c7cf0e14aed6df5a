"""The map of a labelling: items and prototypes on the plane in which the items vary most."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from remp.labelling.outcome import STATUSES, Labelling
from remp.report import class_colour, main_plane, short

WIDTH, HEIGHT, MARGIN = 720, 520, 28
MOST_POINTS = 4000
LONGEST_NAME = 20
GAP = 15  # between a point and its name
# Text shrinks with the drawing, so that it is set larger on a phone, by the stylesheet too. Names that have room in the
# larger size are shown everywhere, the others on wide screens only.
PHONE_SIZE, WIDE_SIZE = 24, 13
LETTER_WIDTH = 0.62  # of a letter on average, in sizes of the font; wide scripts count double


@dataclass(frozen=True)
class PointGroup:
    """Points that look the same: `path` is the data of an SVG path with a stroke of no length at each."""

    status: str
    colour: str
    path: str


@dataclass(frozen=True)
class Way:
    """A prototype before and after rectification, in the units of the drawing."""

    name: str
    colour: str
    start: tuple[float, float]
    end: tuple[float, float]


@dataclass(frozen=True)
class PlacedName:
    """A name with the point its text is anchored at; `wide_only`: there is no room for it on a phone."""

    text: str
    x: float
    y: float
    anchor: Literal["start", "middle", "end"]
    wide_only: bool


@dataclass(frozen=True)
class EmbeddingMap:
    """What the template draws. share: of the variance of the items, that of the plane."""

    width: int
    height: int
    groups: tuple[PointGroup, ...]
    ways: tuple[Way, ...]
    names: tuple[PlacedName, ...]
    n_points: int
    share: float


def embedding_map(labelling: Labelling) -> EmbeddingMap | None:
    """The map, or None without items or prototypes to place."""
    if not len(labelling.sample) or not len(labelling.prototypes):
        return None
    n = len(labelling.sample)
    chosen = np.unique(np.linspace(0, n - 1, min(n, MOST_POINTS)).round().astype(int))  # evenly
    project, share = main_plane(labelling.sample_features)
    points, before, after = _fitted(
        project(labelling.sample_features[chosen]), project(labelling.prototypes_before), project(labelling.prototypes)
    )
    ways = tuple(
        Way(name, class_colour(number), (float(start[0]), float(start[1])), (float(end[0]), float(end[1])))
        for number, (name, start, end) in enumerate(zip(labelling.task.class_names, before, after, strict=True))
    )
    groups = tuple(_groups(labelling, labelling.sample[chosen], points))
    names = place_names([way.name for way in ways], after, WIDTH, HEIGHT)
    return EmbeddingMap(WIDTH, HEIGHT, groups, ways, names, len(points), share)


def _fitted(*clouds: np.ndarray) -> list[np.ndarray]:
    """The clouds (…, 2), moved and scaled alike to the size of the drawing, with y downwards."""
    everything = np.concatenate(clouds)
    low, high = everything.min(0), everything.max(0)
    room = np.array([WIDTH, HEIGHT]) - 2 * MARGIN
    spans = np.maximum(high - low, 1e-12)
    scale = float((room / spans).min()) if (high > low).any() else 0.0
    centre = (low + high) / 2
    return [(cloud - centre) * (scale, -scale) + np.array([WIDTH, HEIGHT]) / 2 for cloud in clouds]


def _groups(labelling: Labelling, items: np.ndarray, points: np.ndarray) -> Iterator[PointGroup]:
    """Unknown points first, given ones last, so that the given lie on top."""
    for status in reversed(STATUSES):
        of_status = labelling.status[items] == STATUSES.index(status)
        classes = labelling.task.labels[items] if status == "given" else labelling.best[items]
        for number in np.unique(classes[of_status]):
            path = "".join(f"M{x:.1f} {y:.1f}h.01" for x, y in points[of_status & (classes == number)])
            yield PointGroup(status, class_colour(int(number)), path)


def place_names(names: Sequence[str], points: np.ndarray, width: float, height: float) -> tuple[PlacedName, ...]:
    """Names beside, above or below their points (n, 2); one that has no room on any side is left out."""
    taken = np.concatenate([points - GAP / 2, points + GAP / 2], axis=1)  # boxes of the points, then of the names
    placed: dict[int, PlacedName] = {}
    for size in (PHONE_SIZE, WIDE_SIZE):
        for number in (number for number in range(len(names)) if number not in placed):
            for candidate in _candidates(short(names[number], LONGEST_NAME), points[number], size):
                left, top, right, bottom = box = _box(candidate, size)
                is_inside = left >= 0 and top >= 0 and right <= width and bottom <= height
                covers = (left < taken[:, 2]) & (taken[:, 0] < right) & (top < taken[:, 3]) & (taken[:, 1] < bottom)
                if is_inside and not covers.any():
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


def _box(name: PlacedName, size: float) -> tuple[float, float, float, float]:
    """Left, top, right, bottom."""
    length = size * LETTER_WIDTH * sum(2 if ord(letter) > 0x2E7F else 1 for letter in name.text)
    left = name.x - {"start": 0.0, "middle": 0.5, "end": 1.0}[name.anchor] * length
    return left, name.y - 0.6 * size, left + length, name.y + 0.6 * size
