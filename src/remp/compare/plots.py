"""The picture of a comparison: a dot and its interval a classifier."""

from matplotlib.axes import Axes

from remp.compare import Comparison, Table
from remp.report.figure_style import styled_figure
from remp.report.palette import COLOURS, QUIET

ASSUMPTIONS = ("inductive", "transductive", "transductive, balanced", "inductive, balanced")


def comparison_plot(comparison: Comparison) -> bytes:
    """One panel a protocol: accuracies with 95 % intervals, the best on top, coloured by what is assumed, as PNG."""
    tables = comparison.tables
    height = 1.3 + 0.28 * max(len(table.entries) for table in tables)
    with styled_figure(1.0 + 4.8 * len(tables), height) as (figure, png):
        for axes, table in zip(figure.subplots(1, len(tables), squeeze=False)[0], tables, strict=True):
            _draw(axes, table)
        handles, labels = _legend(figure.axes)
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=9)
        return png()


def _draw(axes: Axes, table: Table) -> None:
    protocol = table.protocol
    places = range(len(table.entries), 0, -1)
    for place, entry in zip(places, table.entries, strict=True):
        estimate, colour = entry.result.estimate, COLOURS[ASSUMPTIONS.index(entry.assumptions)]
        width = 100 * estimate.half_width if estimate.n > 1 else None
        axes.errorbar(100 * estimate.mean, place, xerr=width, fmt="o", color=colour, capsize=3, label=entry.assumptions)
        if entry.name == table.reference:
            axes.axvline(100 * estimate.mean, color=QUIET, linestyle=":", linewidth=1, label=f"reference: {entry.name}")
    axes.set_yticks(list(places), [entry.name for entry in table.entries])
    axes.set_xlabel("accuracy, % (mean and 95 % interval)")
    axes.set_title(f"{protocol.n_way}-way {protocol.n_shot}-shot, {protocol.distribution}")


def _legend(panels: list[Axes]) -> tuple[list, list[str]]:
    """Each colour and line once."""
    handles, labels = panels[0].get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    return list(once.values()), list(once)
