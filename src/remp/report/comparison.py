"""A comparison as Markdown, CSV, JSON and a picture."""

import csv
import json
import re
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remp.errors import ConfigError
from remp.evaluation.compare import Comparison, Table
from remp.evaluation.side_by_side import Row
from remp.evaluation.statistics import Estimate
from remp.report import COLOURS, QUIET, short, styled_figure
from remp.system.files import write_atomically
from remp.untrusted import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMES = ("comparison.md", "comparison.csv", "comparison.json", "comparison.png")
ASSUMPTIONS = ("inductive", "transductive", "transductive, balanced", "inductive, balanced")


def comparison_markdown(comparison: Comparison) -> str:
    """The tables for a page."""
    pages = []
    for table in comparison.tables:
        head, *rows = (tuple(map(_in_markdown, line)) for line in table.cells)
        lines = [f"| {' | '.join(line)} |" for line in (head, ("---",) * len(head), *rows)]
        pages.append("\n".join([*lines, "", _in_markdown(table.note), ""]))
    return "\n".join(pages)


def _in_markdown(text: str) -> str:
    """The text without a meaning for Markdown, or for HTML in it."""
    return re.sub(r"([\\`<>|\[\]&])", r"\\\1", text)


def comparison_csv(comparison: Comparison) -> str:
    """One line per method and protocol; numbers as shares, not in percent."""
    records = [_record(table, entry) for table in comparison.tables for entry in table.entries]
    text = StringIO()
    writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def comparison_json(comparison: Comparison) -> str:
    """Everything: each table's episode hash and protocol, each method's settings and accuracy of every episode."""
    tables = [
        {
            **table.protocol.as_dict(),
            "reference": table.reference,
            "episode_hash": table.entries[0].result.episode_hash,
            "checkpoint_hash": table.entries[0].result.checkpoint_hash,
            "without_layers": {name: found.as_dict() for name, found in table.without_layers.items()},
            "rows": [{**_record(table, entry), **entry.result.as_dict()} for entry in table.entries],
        }
        for table in comparison.tables
    ]
    return json.dumps({"tables": tables}) + "\n"


def check_free(folder: Path, *, overwrite: bool = False) -> None:
    """Raise ConfigError if the folder holds a comparison that may not be overwritten."""
    held = [name for name in NAMES if (folder / name).exists()]
    if held and not overwrite:
        raise ConfigError(f"{folder} holds {', '.join(held)} already: give another folder, or --overwrite")


def write_comparison(comparison: Comparison, folder: Path, *, overwrite: bool = False) -> list[Path]:
    """Write all files into the folder and return their paths."""
    check_free(folder, overwrite=overwrite)
    folder.mkdir(parents=True, exist_ok=True)
    texts = (comparison_markdown(comparison), comparison_csv(comparison), comparison_json(comparison))
    contents = [*(text.encode() for text in texts), comparison_plot(comparison)]
    paths = [folder / name for name in NAMES]
    for path, content in zip(paths, contents, strict=True):
        write_atomically(path, content)
    return paths


def _record(table: Table, entry: Row) -> dict[str, Any]:
    """The row in plain types."""
    result, protocol = entry.result, table.protocol
    shots = "+".join(map(str, protocol.n_shot)) if isinstance(protocol.n_shot, tuple) else protocol.n_shot
    return {
        "method": visible(entry.name),
        "n_way": protocol.n_way,
        "n_shot": shots,
        "n_query": protocol.n_query,
        "distribution": protocol.distribution,
        "n_episodes": result.estimate.n,
        **_numbers("accuracy", result.estimate),
        "reference": visible(table.reference),
        **_numbers("difference", entry.difference),
        "episodes_per_second": round(entry.episodes_per_second, 2),
        "transductive": result.transductive,
        "assumes_balance": result.assumes_balance,
        "episode_hash": result.episode_hash,
    }


def _numbers(name: str, estimate: Estimate | None) -> dict[str, float | None]:
    """Mean and half-width, None where there is none: a single episode has no interval."""
    mean = None if estimate is None else round(estimate.mean, 6)
    half_width = None if estimate is None or estimate.n == 1 else round(estimate.half_width, 6)
    return {name: mean, f"{name}_half_width_95": half_width}


def comparison_plot(comparison: Comparison) -> bytes:
    """One panel a protocol: accuracies with 95 % intervals, the best on top, coloured by what is assumed, as PNG."""
    tables = comparison.tables
    height = 1.3 + 0.28 * max(len(table.entries) for table in tables)
    with styled_figure(1.0 + 4.8 * len(tables), height) as (figure, png):
        for axes, table in zip(figure.subplots(1, len(tables), squeeze=False)[0], tables, strict=True):
            _draw(axes, table)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        once = dict(zip(labels, handles, strict=True))  # one entry for each colour and line
        figure.legend(once.values(), once.keys(), loc="outside lower center", ncols=len(once), fontsize=9)
        return png()


def _draw(axes: "Axes", table: Table) -> None:
    protocol = table.protocol
    places = range(len(table.entries), 0, -1)
    for place, entry in zip(places, table.entries, strict=True):
        estimate, colour = entry.result.estimate, COLOURS[ASSUMPTIONS.index(entry.assumptions)]
        width = 100 * estimate.half_width if estimate.n > 1 else None
        axes.errorbar(100 * estimate.mean, place, xerr=width, fmt="o", color=colour, capsize=3, label=entry.assumptions)
        if entry.name == table.reference:
            axes.axvline(
                100 * estimate.mean, color=QUIET, linestyle=":", linewidth=1, label=f"reference: {short(entry.name)}"
            )
    axes.set_yticks(list(places), [short(entry.name) for entry in table.entries])
    axes.set_xlabel("accuracy, % (mean and 95 % interval)")
    axes.set_title(f"{protocol.n_way}-way {protocol.n_shot}-shot, {protocol.distribution}")
