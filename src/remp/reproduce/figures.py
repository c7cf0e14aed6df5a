"""The figure of an item, as PNG and SVG: intervals, labelled axes, colours that everybody can tell apart."""

from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from remp.datasets import ImageSet, open_data
from remp.episodes import Protocol
from remp.errors import ConfigError
from remp.evaluation.evaluate import draw_episodes, embed
from remp.methods.remp import ReMP
from remp.models import load
from remp.report import COLOURS, DOTS_PER_INCH, INK, QUIET, class_colour, styled_figure
from remp.reproduce.manifest import Axis, Item
from remp.reproduce.scoring import Cell
from remp.reproduce.trainings import Run

Plan = dict[str, list[Run]]
# Seven marks and eight colours, and dashes from the ninth line on: no two lines are alike.
MARKS = ("o", "s", "D", "^", "v", "P", "X")


def draw(item: Item, cells: Sequence[Cell], plan: Plan, data: str | None) -> dict[str, bytes]:
    """{"png": …, "svg": …}; nothing where no cell was run."""
    done = [cell for cell in cells if cell.status == "done"]
    if not done:
        return {}
    if item.show == "table":
        names = {cell.name for cell in done}
        width = 2.4 * len(item.shots) + 0.075 * max(map(len, names))  # panels, and names of 10 points beside them
        return _saved(max(7.6, width), 1.6 + 0.3 * len(names), lambda figure: _dots(figure, item, done))
    if item.show == "curve":
        n_panels = len(item.axes) * len(item.shots)
        return _saved(5.6 * min(n_panels, 2), 4.2 * -(-n_panels // 2), lambda figure: _curves(figure, item, cells))
    if item.show == "boxplot":
        n_panels = len(item.shots)
        height = 1.4 + 0.34 * len({cell.name for cell in done})
        return _saved(5.4 * n_panels, height, lambda figure: _boxes(figure, item, done))
    images = open_data(data or item.data, "test")
    if item.show == "heatmap":
        return _saved(11, 2.9 * len(item.rows), lambda figure: _heatmaps(figure, item, plan, images))
    return _saved(10, 9, lambda figure: _embeddings(figure, item, plan, images))


def _saved(width: float, height: float, paint: Callable[[Figure], None]) -> dict[str, bytes]:
    with styled_figure(width, height) as (figure, _):
        paint(figure)
        found = {}
        for suffix in ("png", "svg"):
            buffer = BytesIO()
            # Without a date, and with identifiers from a fixed word, the same numbers make the same file.
            extra: dict[str, Any] = {"metadata": {"Date": None}} if suffix == "svg" else {}
            with rc_context({"svg.hashsalt": "remp"}):
                figure.savefig(buffer, format=suffix, dpi=DOTS_PER_INCH, facecolor="white", **extra)
            found[suffix] = buffer.getvalue()
        return found


def _dots(figure: Figure, item: Item, done: Sequence[Cell]) -> None:
    """One line per row: ours with its interval, and the paper's figure where there is one."""
    names = list(dict.fromkeys(cell.name for cell in done))
    for number, (axes, n_shot) in enumerate(zip(_panels(figure, len(item.shots)), item.shots, strict=True)):
        for cell in (cell for cell in done if cell.n_shot == n_shot):
            place = names.index(cell.name)
            axes.errorbar(
                cell.percent, place, xerr=cell.half_width, fmt="o", color=class_colour(0), capsize=3, markersize=5
            )
            if n_shot in cell.row.paper:
                axes.plot(
                    cell.row.paper[n_shot], place, "D", color="white", markeredgecolor=class_colour(4), markersize=6
                )
        axes.set(xlabel=f"{item.n_way}-way {n_shot}-shot, %", ylim=(len(names) - 0.5, -0.5))
        axes.set_yticks(range(len(names)), names if number == 0 else [])
    axes.plot([], [], "o", color=class_colour(0), label="our accuracy, 95 % interval")
    if any(n_shot in cell.row.paper for cell in done for n_shot in item.shots):
        axes.plot([], [], "D", color="white", markeredgecolor=class_colour(4), label="paper")
    figure.legend(loc="outside upper right", ncols=2, fontsize=9)


def _curves(figure: Figure, item: Item, cells: Sequence[Cell]) -> None:
    """One panel per x axis and number of shots, one line per row; runs that diverged are crosses at the bottom."""
    names = list(dict.fromkeys(cell.name for cell in cells))
    panels = [(axis, n_shot) for axis in item.axes for n_shot in item.shots]
    for axes, (axis, n_shot) in zip(_panels(figure, len(panels), columns=2), panels, strict=True):
        for number, name in enumerate(names):
            line = [c for c in cells if c.axis == axis and c.n_shot == n_shot and c.name == name]
            shown = [cell for cell in line if cell.status == "done"]
            places = [_place(axis, cell.x) for cell in shown]
            axes.errorbar(
                places,
                [cell.percent for cell in shown],
                yerr=[cell.half_width for cell in shown],
                color=class_colour(number),
                marker=MARKS[number % len(MARKS)],
                linestyle="-" if number < len(COLOURS) else "--",
                markersize=4.5,
                capsize=2.5,
                label=name,
            )
            lost = [_place(axis, cell.x) for cell in line if cell.status == "diverged"]
            if lost:  # an empty line that is not clipped would count as lying in the figure's corner
                axes.plot(lost, [axes.get_ylim()[0]] * len(lost), "x", color="#d55e00", clip_on=False)
        _label_x(axes, axis)
        axes.set(ylabel="accuracy, %", title=f"{n_shot}-shot")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=min(3, len(names)), fontsize=9)


def _place(axis: Axis, x: object) -> float:
    """Where a value lies: numbers as they are, on a logarithmic axis their order: 0 and infinity have a place."""
    return float(axis.values.index(x)) if axis.log or not isinstance(x, int | float) else float(x)


def _label_x(axes: Axes, axis: Axis) -> None:
    axes.set_xlabel(axis.label)
    if axis.log or not all(isinstance(x, int | float) for x in axis.values):
        axes.set_xticks(
            range(len(axis.values)),
            [f"{x:g}" if isinstance(x, float) else str(x).removeprefix("dirichlet:") for x in axis.values],
        )
    elif all(isinstance(x, int) for x in axis.values):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _boxes(figure: Figure, item: Item, done: Sequence[Cell]) -> None:
    """Accuracies of the episodes: box, median with its interval as a notch, whiskers of 1.5 ranges."""
    names = list(dict.fromkeys(cell.name for cell in done))
    for number, (axes, n_shot) in enumerate(zip(_panels(figure, len(item.shots)), item.shots, strict=True)):
        for cell in (cell for cell in done if cell.n_shot == n_shot):
            box = axes.boxplot(
                100 * cell.accuracies,
                positions=[names.index(cell.name)],
                orientation="horizontal",
                notch=True,
                widths=0.6,
                patch_artist=True,
                flierprops={"markersize": 2, "markeredgecolor": QUIET, "alpha": 0.4},
                medianprops={"color": INK},
            )
            box["boxes"][0].set(facecolor=class_colour(0), alpha=0.45)
        axes.set(xlabel=f"accuracy of an episode, %, {n_shot}-shot", ylim=(len(names) - 0.5, -0.5))
        axes.set_yticks(range(len(names)), names if number == 0 else [""] * len(names))


def _heatmaps(figure: Figure, item: Item, plan: Plan, images: ImageSet) -> None:
    """How much the queries of each class attend to each prototype, in the mean of many episodes, layer by layer."""
    first = _checkpoint(item, plan, 0)
    trained = load(first, **item.rows[0].settings)
    if not isinstance(trained.method, ReMP):
        raise ConfigError("a heat map of attention needs a training of remp")
    layers = trained.method.rectification.layers
    shown = sorted({0, 1, 2, 4, layers - 1} & set(range(layers)))
    rows = []
    for row in item.rows:
        method = load(first, **row.settings).method
        assert isinstance(method, ReMP)
        features = embed(method, images.images, trained.normalisation)
        episodes = draw_episodes(
            images, Protocol(item.n_way, item.shots[0], item.n_query), n_episodes=200, seed=item.seed
        )
        rectified = method.rectified(episodes.gather(features), keep_attention=True)
        one_hot = np.eye(item.n_way)[episodes.known_query_labels.numpy()]  # (E, Q, N)
        n_support = episodes.support.shape[1]
        means = []
        for attention in rectified.attention:
            part = attention[:, :, n_support:].detach().numpy()  # (E, N, Q)
            part = part / np.abs(part).sum(-1, keepdims=True)
            means.append(np.einsum("enq,eqm->nm", part, one_hot) / len(part))
        rows.append((row.name, means))
    largest = max(float(np.max(means[i])) for _, means in rows for i in shown)
    for (name, means), line in zip(rows, figure.subplots(len(rows), len(shown), squeeze=False), strict=True):
        for axes, layer in zip(line, shown, strict=True):
            axes.grid(False)
            picture = axes.imshow(means[layer], cmap="cividis", vmin=0, vmax=largest)
            axes.set(xticks=range(item.n_way), yticks=range(item.n_way), title=f"layer {layer + 1}")
            axes.set_xlabel("class of the queries")
            axes.set_ylabel(f"prototype\n{name}" if layer == shown[0] else "prototype")
    figure.colorbar(picture, ax=figure.axes, label="share of a prototype's attention", shrink=0.8)


def _embeddings(figure: Figure, item: Item, plan: Plan, images: ImageSet) -> None:
    """t-SNE of the first classes for each training, with the silhouette of the embedding itself as a number."""
    from sklearn.manifold import TSNE
    from sklearn.metrics import silhouette_score

    chosen = np.flatnonzero(images.labels < item.n_way)
    labels = images.labels[chosen]
    for number, (axes, row) in enumerate(zip(_panels(figure, len(item.rows), columns=2), item.rows, strict=True)):
        trained = load(_checkpoint(item, plan, number), **row.settings)
        features = embed(trained.method, images.images[chosen], trained.normalisation).flatten(1).numpy()
        features = features / np.linalg.norm(features, axis=1, keepdims=True)
        separability = silhouette_score(features, labels, metric="cosine")
        plane = TSNE(
            metric="cosine", init="random", random_state=0, perplexity=min(30, len(chosen) // 4)
        ).fit_transform(features)
        for way in range(item.n_way):
            own = plane[labels == way]
            points = axes.scatter(
                own[:, 0], own[:, 1], s=7, color=class_colour(way), label=images.class_names[way], linewidths=0
            )
            points.set_rasterized(True)  # thousands of them: a megabyte as vectors
        axes.set(xticks=[], yticks=[], title=f"{row.name}: silhouette {separability:.3f}")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=5, markerscale=2.5, fontsize=9)


def _checkpoint(item: Item, plan: Plan, number: int) -> str:
    name = item.rows[number].training_for(item.shots[0])
    found = plan[name][0].checkpoint
    if found is None:
        raise ConfigError(f"training {name!r} was not run yet")
    return str(found)


def _panels(figure: Figure, count: int, *, columns: int | None = None) -> list[Axes]:
    columns = min(columns or count, count)
    rows = -(-count // columns)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in panels[count:]:
        unused.set_visible(False)
    return panels[:count]
