"""A report: one self-contained HTML file with results, figures and pictures."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Literal

import numpy as np

from remp.evaluation.result import Result
from remp.evaluation.side_by_side import side_by_side
from remp.report.demo.showcase import Showcase
from remp.report.drawing import class_colour
from remp.report.page import render_page, visible
from remp.system.files import write_atomically
from remp.version import __version__


@dataclass(frozen=True)
class Figure:
    """A PNG with what it shows in words; `title` is printed above it."""

    png: bytes
    alt: str
    title: str = ""

    @property
    def source(self) -> str:
        return png_source(self.png)


@dataclass(frozen=True)
class Tile:
    """A small picture: its data address, what it shows, and what happened to it."""

    source: str
    alt: str
    mark: Literal["", "corrected", "spoiled", "wrong"] = ""


@dataclass(frozen=True)
class TileRow:
    """The pictures of a class: labelled ones, then queries; `colour` (#rrggbb) as in the figures."""

    name: str
    colour: str
    support: tuple[Tile, ...]
    query: tuple[Tile, ...]


@dataclass(frozen=True)
class Section:
    """A part of the page: a heading, a paragraph, then figures (side by side if `columns` is 2) or rows of tiles."""

    title: str
    text: str
    figures: tuple[Figure, ...] = ()
    tiles: tuple[TileRow, ...] = ()
    columns: Literal[1, 2] = 1


def write_report(path: Path, *, title: str, lead: str, results: Sequence[Result], sections: Sequence[Section]) -> Path:
    """Write the page. It names no address but its own parts, so it can be sent and kept as one file."""
    page = render_report(title=title, lead=lead, results=results, sections=sections)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page.encode("utf-8"))
    return path


def render_report(*, title: str, lead: str, results: Sequence[Result], sections: Sequence[Section]) -> str:
    """The page as HTML: the table of `results` with differences to the first, their protocol, then the sections."""
    return render_page(
        "report.html.j2",
        title=title,
        lead=lead,
        rows=[replace(row, name=visible(row.name)) for row in side_by_side(results)],
        facts=_protocol_facts(results[0]),
        sections=sections,
        version=__version__,
    )


def image_source(image: np.ndarray) -> str:
    """An image, uint8 (height, width, channels), as a data address."""
    from PIL import Image

    buffer = BytesIO()
    Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(buffer, format="PNG", optimize=True)
    return png_source(buffer.getvalue())


def png_source(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def _protocol_facts(result: Result) -> dict[str, str]:
    """The protocol card: name -> value, both as shown."""
    protocol = result.protocol
    return {
        "data": visible(f"{result.data}, {result.split} classes"),
        "way": f"{protocol.n_way} classes per episode",
        "shot": f"{protocol.n_shot} labelled per class",
        "queries": f"{protocol.n_query} per class, {protocol.distribution}",
        "episodes": f"{result.estimate.n}, the same for every row",
        "seed": "episodes from a file" if result.seed is None else str(result.seed),
        "episode hash": result.episode_hash[:12],
        "data fingerprint": result.fingerprint[:12],
    }


def episode_tiles(showcase: Showcase) -> tuple[TileRow, ...]:
    """One row per class: its labelled images, then its queries."""
    return tuple(_row(showcase, way) for way in range(len(showcase.class_names)))


def _row(showcase: Showcase, way: int) -> TileRow:
    name = visible(showcase.class_names[way])
    support = showcase.support_images[showcase.support_labels == way]
    return TileRow(
        name=name,
        colour=class_colour(way),
        support=tuple(Tile(image_source(image), f"{name}, labelled") for image in support),
        query=tuple(_query_tile(showcase, index) for index in np.flatnonzero(showcase.query_labels == way)),
    )


def _query_tile(showcase: Showcase, index: int) -> Tile:
    names = [visible(name) for name in showcase.class_names]
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
