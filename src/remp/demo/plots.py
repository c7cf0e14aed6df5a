"""Figures: training curves, and an episode before and after its prototypes are rectified."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, ListedColormap
from matplotlib.offsetbox import AnnotationBbox, OffsetImage
from matplotlib.patches import Rectangle

from remp.datasets.base import ImageSet
from remp.demo.showcase import Showcase, Stage, find_showcase
from remp.episodes import Protocol
from remp.report import INK, QUIET, class_colour, main_plane, short, styled_figure
from remp.system.files import write_atomically
from remp.trained import Trained

ATTRACTED = LinearSegmentedColormap.from_list("attracted", ["#f4f7fb", "#8fb8dc", "#1f5f9e", "#0b2545"])
REPELLED = ListedColormap(["#fae6e1"])
History = Sequence[Mapping[str, Any]]


def loss_curve(histories: Mapping[str, History]) -> bytes:
    """The terms of the loss over episodes, one line a term and run, as PNG. histories: name -> validation entries."""
    lines = {
        f"{name}: {term[5:]}": [(entry["episodes"], entry[term]) for entry in history if term in entry]
        for name, history in histories.items()
        for term in dict.fromkeys(key for entry in history for key in entry if key.startswith("loss_"))
    }
    return _line_chart(lines, "loss", from_zero=True)


def validation_curve(histories: Mapping[str, History]) -> bytes:
    """Accuracy on validation classes over episodes, one line per run, as PNG."""
    lines = {
        name: [(entry["episodes"], 100 * entry["validation_accuracy"]) for entry in history]
        for name, history in histories.items()
    }
    return _line_chart(lines, "accuracy on validation classes, %")


def attention_heatmap(showcase: Showcase, stage: Stage) -> bytes:
    """A layer's attention, prototypes x queries sorted by true class, with the labelled images as rows, as PNG."""
    with styled_figure(6.2, 2.5) as (figure, png):
        _draw_attention(figure.add_subplot(), showcase, stage)
        return png()


def episode_map(showcase: Showcase) -> bytes:
    """Queries and prototypes, before and after, on the two main axes of the queries, as PNG."""
    with styled_figure(6.2, 4.6) as (figure, png):
        _draw_map(figure.add_subplot(), showcase)
        return png()


def rectification_picture(
    trained: Trained, images: ImageSet, path: Path, *, protocol: Protocol | None = None, seed: int = 0
) -> Showcase:
    """Draw an episode of `images` before and after rectification into the PNG file `path`; return the episode.

    The episode is the first of the seed in which rectification gets at least five more queries right. The picture in
    the README was drawn so, of glyphs.
    """
    showcase = find_showcase(trained, images, protocol or Protocol(), seed=seed)
    with styled_figure(12.5, 4.6) as (figure, png):
        grid = figure.add_gridspec(1, 2, width_ratios=(1, 1.25))
        left, right = (figure.add_subfigure(grid[0, column]) for column in range(2))
        axes = left.subplots()
        axes.set_title("Prototypes move to where their queries are")
        _draw_map(axes, showcase)
        titles = {"Attention of the first layer": showcase.before, "… and of the last": showcase.after}
        for axes, (title, stage) in zip(right.subplots(2, 1), titles.items(), strict=True):
            is_right = showcase.right(stage)
            axes.set_title(f"{title}: {is_right.sum()} of {len(is_right)} queries right")
            _draw_attention(axes, showcase, stage)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, png())
    return showcase


def _line_chart(lines: Mapping[str, Iterable[tuple[float, float]]], label: str, *, from_zero: bool = False) -> bytes:
    with styled_figure(4.4, 3.2) as (figure, png):
        axes = figure.add_subplot(xlabel="training episodes", title=label)
        for number, (name, points) in enumerate(lines.items()):
            axes.plot(
                *zip(*points, strict=True), color=class_colour(number), marker="o", markersize=3.5, label=short(name)
            )
        axes.set_xlim(left=0)
        if from_zero:
            axes.set_ylim(bottom=0)
        axes.legend(fontsize=9)
        return png()


def _draw_attention(axes: Axes, showcase: Showcase, stage: Stage) -> None:
    weights = stage.attention
    n_way, n_query = weights.shape
    largest = max(float(weights.max()), 1e-12)
    axes.grid(False)
    axes.imshow(np.maximum(weights, 0), cmap=ATTRACTED, vmin=0, vmax=largest, aspect="auto", interpolation="nearest")
    repelled = np.ma.masked_where(weights >= 0, weights)
    axes.imshow(repelled, cmap=REPELLED, aspect="auto", interpolation="nearest")
    for way in range(n_way):
        own = np.flatnonzero(showcase.query_labels == way)
        if len(own):
            corner, width = (own[0] - 0.5, way - 0.5), len(own)
            axes.add_patch(Rectangle(corner, width, 1, fill=False, edgecolor=class_colour(way), lw=2.2, clip_on=False))
            _place_image(axes, _first_image(showcase, way), (own.mean() / n_query + 0.5 / n_query, 0), (0, -14))
        _place_image(axes, _first_image(showcase, way), (0, 1 - (way + 0.5) / n_way), (-16, 0))
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    axes.set_xlabel("queries, by their true class", labelpad=28)
    axes.set_ylabel("prototypes", labelpad=30)


def _draw_map(axes: Axes, showcase: Showcase) -> None:
    project, _ = main_plane(showcase.query)
    queries, before, after = map(project, (showcase.query, showcase.before.prototypes, showcase.after.prototypes))
    true_colours = [class_colour(way) for way in showcase.query_labels]
    colours = [class_colour(way) for way in range(len(before))]
    white = {"edgecolors": "white", "linewidths": 1.2}
    hollow = {"facecolors": "white", "linewidths": 1.8}
    _scatter(axes, queries, c=true_colours, s=22, alpha=0.55, linewidths=0)
    ring = {"s": 70, "facecolors": "none", "edgecolors": INK, "linewidths": 1.1}
    _scatter(axes, queries[showcase.corrected], label="query that is corrected", **ring)
    for colour, start, end in zip(colours, before, after, strict=True):
        axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1.8})
    _scatter(axes, before, marker="D", s=60, edgecolors=colours, zorder=3, **hollow)
    _scatter(axes, after, marker="*", s=300, c=colours, zorder=4, **white)
    axes.plot([], [], "D", color="white", markeredgecolor=QUIET, markeredgewidth=1.5, label="prototype before")
    axes.plot([], [], "*", color=QUIET, markersize=12, label="prototype after")
    axes.set(xticks=[], yticks=[])
    axes.legend(fontsize=9, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=3, handletextpad=0.3)


def _scatter(axes: Axes, points: np.ndarray, **look: Any) -> None:
    axes.scatter(points[:, 0], points[:, 1], **look)


def _first_image(showcase: Showcase, way: int) -> np.ndarray:
    return showcase.support_images[np.flatnonzero(showcase.support_labels == way)[0]]


def _place_image(axes: Axes, image: np.ndarray, at: tuple[float, float], offset: tuple[float, float]) -> None:
    """Put an image beside a place of the axes (as shares of their width and height), `offset` points away."""
    picture = image[..., 0] if image.shape[-1] == 1 else image
    box = OffsetImage(picture, zoom=22 / max(picture.shape[:2]), cmap="gray", interpolation="antialiased")
    axes.add_artist(
        AnnotationBbox(box, at, offset, "axes fraction", "offset points", frameon=False, pad=0, annotation_clip=False)
    )
