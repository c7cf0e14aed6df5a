"""The map of a labelling: items and prototypes on the plane in which the items vary most."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from remp.labelling.outcome import STATUSES, Labelling
from remp.report.map_names import PlacedName, place_names
from remp.report.palette import class_colour
from remp.report.plane import main_plane

WIDTH, HEIGHT, MARGIN = 720, 520, 28
MOST_POINTS = 4000


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
    chosen = _thinned(len(labelling.sample))
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


def _thinned(n: int) -> np.ndarray:
    """Evenly chosen numbers of at most MOST_POINTS of n points."""
    return np.unique(np.linspace(0, n - 1, min(n, MOST_POINTS)).round().astype(int))


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
