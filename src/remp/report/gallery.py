"""The pictures of an episode as rows of tiles, each query marked with what rectification did to it."""

from typing import Literal

import numpy as np

from remp.report import Tile, TileRow, image_source
from remp.report.palette import class_colour
from remp.report.showcase import Showcase


def episode_tiles(showcase: Showcase) -> tuple[TileRow, ...]:
    """One row a class: its labelled images, then its queries."""
    return tuple(_row(showcase, way) for way in range(len(showcase.class_names)))


def _row(showcase: Showcase, way: int) -> TileRow:
    name = showcase.class_names[way]
    support = showcase.support_images[showcase.support_labels == way]
    return TileRow(
        name=name,
        colour=class_colour(way),
        support=tuple(Tile(image_source(image), f"{name}, labelled") for image in support),
        query=tuple(_query_tile(showcase, index) for index in np.flatnonzero(showcase.query_labels == way)),
    )


def _query_tile(showcase: Showcase, index: int) -> Tile:
    names = showcase.class_names
    before, after = (names[stage.predictions[index]] for stage in (showcase.before, showcase.after))
    taken = before if before == after else f"{before} before, {after} after rectification"
    alt = f"{names[showcase.query_labels[index]]}, taken for {taken}"
    return Tile(image_source(showcase.query_images[index]), alt, _mark(showcase, index))


def _mark(showcase: Showcase, index: int) -> Literal["", "corrected", "spoiled", "wrong"]:
    if showcase.corrected[index]:
        return "corrected"
    if showcase.spoiled[index]:
        return "spoiled"
    return "" if showcase.right(showcase.after)[index] else "wrong"
