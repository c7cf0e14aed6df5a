"""The page that the demo writes, whose words are in demo.html.j2: results, and one episode looked at closely."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import numpy as np

from remp.datasets.base import ImageSet
from remp.demo import plots
from remp.demo.showcase import LEAST_GAIN, Showcase, find_showcase
from remp.evaluation.result import Result
from remp.evaluation.side_by_side import side_by_side
from remp.report import class_colour, render_page
from remp.system.files import write_atomically
from remp.trained import Trained
from remp.untrusted import visible

Mark = Literal["", "corrected", "spoiled", "wrong"]


@dataclass(frozen=True)
class Tile:
    """A small picture: its data address, what it shows, and what happened to it."""

    source: str
    alt: str
    mark: Mark = ""


@dataclass(frozen=True)
class TileRow:
    """The pictures of a class: labelled ones, then queries; `colour` (#rrggbb) as in the figures."""

    name: str
    colour: str
    support: tuple[Tile, ...]
    query: tuple[Tile, ...]


def write_demo_report(
    path: Path,
    trained: Trained,
    images: ImageSet,
    results: Sequence[Result],
    histories: Mapping[str, Sequence[Mapping[str, Any]]],
) -> Path:
    """Write the page. It names no address but its own parts, so it can be sent and kept as one file.

    results: ReMP (`trained`), ReMP without layers, ProtoNet. histories: name -> validation entries of its run.
    """
    ours = results[0]
    assert ours.seed is not None, "the demo draws its episodes"
    showcase = find_showcase(trained, images, ours.protocol, n_episodes=ours.estimate.n, seed=ours.seed)
    page = render_demo_report(results, showcase, histories)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page.encode("utf-8"))
    return path


def render_demo_report(
    results: Sequence[Result], showcase: Showcase, histories: Mapping[str, Sequence[Mapping[str, Any]]]
) -> str:
    """The page as HTML: the table of results with differences to the first, how they were learned, and the episode."""
    ours, plain, rival = results
    better, worse = ((sign * (ours.accuracies - plain.accuracies) > 0).mean() for sign in (1, -1))
    last = {name: 100 * history[-1]["validation_accuracy"] for name, history in histories.items()}
    stages = {
        "Before: attention of the first layer": showcase.before,
        f"After: attention of the last layer ({ours.settings['layers']})": showcase.after,
    }
    return render_page(
        "demo.html.j2",
        rows=[replace(row, name=visible(row.name)) for row in side_by_side(results)],
        protocol=ours.protocol,
        ours=ours,
        plain=plain,
        rival=rival,
        loss_curve=png_source(plots.loss_curve(histories)),
        validation_curve=png_source(plots.validation_curve(histories)),
        ends=", ".join(f"{name} at {value:.1f} %" for name, value in last.items()),
        showcase=showcase,
        least_gain=LEAST_GAIN,
        better=better,
        worse=worse,
        tiles=episode_tiles(showcase),
        map=png_source(plots.episode_map(showcase)),
        heatmaps=[
            (title, png_source(plots.attention_heatmap(showcase, stage)), showcase.own_attention(stage))
            for title, stage in stages.items()
        ],
    )


def image_source(image: np.ndarray) -> str:
    """An image, uint8 (height, width, channels), as a data address."""
    from PIL import Image

    buffer = BytesIO()
    Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(buffer, format="PNG", optimize=True)
    return png_source(buffer.getvalue())


def png_source(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def episode_tiles(showcase: Showcase) -> tuple[TileRow, ...]:
    """One row per class: its labelled images, then its queries."""
    names = [visible(name) for name in showcase.class_names]
    rows = []
    for way, name in enumerate(names):
        support = showcase.support_images[showcase.support_labels == way]
        labelled = tuple(Tile(image_source(image), f"{name}, labelled") for image in support)
        queries = np.flatnonzero(showcase.query_labels == way).tolist()
        asked = tuple(_query_tile(showcase, names, index) for index in queries)
        rows.append(TileRow(name, class_colour(way), labelled, asked))
    return tuple(rows)


def _query_tile(showcase: Showcase, names: Sequence[str], index: int) -> Tile:
    before, after = (names[stage.predictions[index]] for stage in (showcase.before, showcase.after))
    taken = before if before == after else f"{before} before, {after} after rectification"
    mark: Mark = "" if showcase.right(showcase.after)[index] else "wrong"
    if showcase.corrected[index] or showcase.spoiled[index]:
        mark = "corrected" if showcase.corrected[index] else "spoiled"
    alt = f"{names[showcase.query_labels[index]]}, taken for {taken}"
    return Tile(image_source(showcase.query_images[index]), alt, mark)
