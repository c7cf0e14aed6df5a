"""The page that the demo writes: results, how they were learned, and one episode looked at closely."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import numpy as np

from remp.datasets.base import ImageSet
from remp.demo import plots
from remp.demo.showcase import Showcase, Stage, find_showcase
from remp.evaluation.result import Result
from remp.evaluation.side_by_side import side_by_side
from remp.report import class_colour, render_page
from remp.system.files import write_atomically
from remp.trained import Trained
from remp.untrusted import visible
from remp.version import __version__

Mark = Literal["", "corrected", "spoiled", "wrong"]


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
    mark: Mark = ""


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


LEAST_GAIN = 5


def write_demo_report(
    path: Path,
    trained: Trained,
    images: ImageSet,
    results: Sequence[Result],
    histories: Mapping[str, Sequence[Mapping[str, Any]]],
) -> Path:
    """Write the page. results: ReMP (`trained`), ReMP without layers, ProtoNet. histories: name -> validation entries
    of its run."""
    ours, plain, _ = results
    assert ours.seed is not None, "the demo draws its episodes"
    showcase = find_showcase(
        trained,
        images,
        ours.protocol,
        n_episodes=ours.estimate.n,
        seed=ours.seed,
        least_gain=LEAST_GAIN,
    )
    sections = [
        _curves(histories),
        _pictures(showcase, ours, plain),
        _map(showcase),
        _attention(showcase, ours.settings["layers"]),
    ]
    return write_report(
        path, title="Learning to read from one example", lead=_lead(results), results=results, sections=sections
    )


def _lead(results: Sequence[Result]) -> str:
    ours, plain, rival = results
    protocol = ours.protocol
    examples = "one labelled example" if protocol.n_shot == 1 else f"{protocol.n_shot} labelled examples"
    return (
        f"Each test shows {protocol.n_way} characters of scripts that were never trained on, with {examples} each, "
        f"and asks for {protocol.n_way * protocol.n_query} more. ReMP gets {_percent(ours)} of them right; the same "
        f"network without rectification {_percent(plain)}; Prototypical Networks, trained on the same number of "
        f"episodes, {_percent(rival)}. Guessing would get {100 / protocol.n_way:.0f} %."
    )


def _percent(result: Result) -> str:
    return f"{100 * result.estimate.mean:.1f} %"


def _curves(histories: Mapping[str, Sequence[Mapping[str, Any]]]) -> Section:
    last = {name: 100 * history[-1]["validation_accuracy"] for name, history in histories.items()}
    ends = ", ".join(f"{name} at {value:.1f} %" for name, value in last.items())
    return Section(
        "How it was learned",
        "Loss and validation accuracy while training. ReMP’s loss has a global term (all training classes) and a local "
        "one (the classes of the episode); Prototypical Networks have the local one only. The weights that do best on "
        "validation classes are the ones tested above. So short a training shows how fast a method learns, not how "
        "far it gets in the end.",
        (
            Figure(plots.loss_curve(histories), "Line chart: each term of the training loss over episodes."),
            Figure(
                plots.validation_curve(histories), f"Line chart: validation accuracy over episodes, ending with {ends}."
            ),
        ),
        columns=2,
    )


def _pictures(showcase: Showcase, ours: Result, plain: Result) -> Section:
    return Section(
        "One episode",
        f"{_choice(showcase)} {_fairness(ours, plain)} Framed in the colour of its class: the labelled image. Then its "
        f"queries, of which {showcase.right(showcase.before).sum()} of {len(showcase.query_labels)} are answered right "
        f"before rectification and {showcase.right(showcase.after).sum()} after.",
        tiles=episode_tiles(showcase),
    )


def _choice(showcase: Showcase) -> str:
    """How the episode was chosen, so that nobody takes it for a typical one."""
    chosen = f"Episode {showcase.number} of the {showcase.n_drawn}"
    if showcase.gain >= LEAST_GAIN:
        return f"{chosen}: the first in which rectification gets at least {LEAST_GAIN} more queries right."
    return f"{chosen}: the one in which rectification gains most."


def _fairness(ours: Result, plain: Result) -> str:
    better, worse = ((sign * (ours.accuracies - plain.accuracies) > 0).mean() for sign in (1, -1))
    return (
        f"It was picked for that; over all episodes rectification raised the accuracy in "
        f"{100 * better:.0f} %, lowered it in {100 * worse:.0f} % and left it in {100 * (1 - better - worse):.0f} %."
    )


def _map(showcase: Showcase) -> Section:
    return Section(
        "Where the prototypes go",
        "The same episode as points: the features of its queries, in the colours of their true classes, on the two "
        "directions in which they vary most. Each prototype starts at the labelled image and moves to the middle of "
        "the queries it attends to. Other directions are not shown, so points that are close here may be far apart.",
        (
            Figure(
                plots.episode_map(showcase), "Scatter plot: queries by class, an arrow for the way of each prototype."
            ),
        ),
    )


def _attention(showcase: Showcase, layers: int) -> Section:
    return Section(
        "What the prototypes attend to",
        "A row is a prototype, a column is a query, sorted by true class; a perfect row is dark inside its frame and "
        "nowhere else. Dark blue: the query weighs much in the new prototype. Rose: attention below the threshold, so "
        "the prototype is pushed away from the query.",
        (
            _heatmap(showcase, showcase.before, "Before: attention of the first layer"),
            _heatmap(showcase, showcase.after, f"After: attention of the last layer ({layers})"),
        ),
    )


def _heatmap(showcase: Showcase, stage: Stage, title: str) -> Figure:
    weights = stage.attention.clip(min=0)
    own = weights[showcase.query_labels, range(len(showcase.query_labels))].sum() / max(weights.sum(), 1e-12)
    alt = f"Heat map, prototypes by queries: {100 * own:.0f} % of the attention goes to queries of the own class."
    return Figure(plots.attention_heatmap(showcase, stage), alt, title)
