"""The page about a labelling: how good it is, what to look at, and the pictures class by class."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from remp.labelling.outcome import STATUSES, Labelling
from remp.labelling.quality.estimate import rejection_table, with_a_label
from remp.report import COLOURS, percent, render_page
from remp.report.label.map import PHONE_SIZE, WIDE_SIZE, embedding_map
from remp.report.label.summary import how_to_label, no_label_left, said, weakened
from remp.report.label.tiles import TileChoice, thumbnail_sources
from remp.system.files import write_atomically

STRIP_LENGTHS = (8, 6, 4, 3, 2, 1, 0)  # eight stand in a line
STRIPS_PER_CLASS = 4
MOST_TILES = 1200  # that many pictures are read in seconds
MOST_CLASSES = 200  # with strips
MOST_SKIPPED = 500
MOST_OPEN_CLASSES, MOST_OPEN_FINDINGS = 12, 4  # more are folded


def write_label_report(path: Path, labelling: Labelling, *, title: str) -> Path:
    """Write the page. It names no address but its own parts, so it can be sent and kept as one file."""
    page = render_label_report(labelling, title=title)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page)
    return path


def render_label_report(labelling: Labelling, *, title: str, max_bytes: int = 8_000_000) -> bytes:
    """The page as HTML in UTF-8.

    Strips of pictures become shorter, and then vanish, until the page has at most `max_bytes`; words are not cut.
    """
    values = _values(labelling, title)
    n_classes = min(len(labelling.task.class_names), MOST_CLASSES)
    lengths = [n for n in STRIP_LENGTHS if n * STRIPS_PER_CLASS * n_classes <= MOST_TILES]
    source = _sources(labelling, lengths[0], n_classes)
    for length in lengths:
        page = render_page("label.html.j2", **values, **_tiles(TileChoice(labelling, source, length), n_classes))
        content = page.encode("utf-8", errors="backslashreplace")
        if len(content) <= max_bytes:
            break
    return content


def _sources(labelling: Labelling, length: int, n_classes: int) -> Callable[[int], str | None]:
    """Item -> data address of its picture, for strips of this length or less: each is read once, however often the
    page is made."""
    paths = labelling.task.paths
    if not paths:
        return lambda item: None
    wanted: list[int] = []
    _tiles(TileChoice(labelling, wanted.append, length), n_classes)
    items = list(dict.fromkeys(wanted))
    return dict(zip(items, thumbnail_sources([paths[item] for item in items]), strict=True)).__getitem__


def _tiles(choice: TileChoice, n_classes: int) -> dict[str, Any]:
    return {
        "strip_length": choice.most,
        "classes": [choice.class_block(number) for number in range(n_classes)],
        "unknown": choice.unknown(),
        "advice": choice.advice(),
        "findings": choice.findings(),
    }


def _values(labelling: Labelling, title: str) -> dict[str, Any]:
    """All of the page that does not depend on how many pictures it shows."""
    task = labelling.task
    drawn = 1 < len(task.class_names) <= MOST_CLASSES_DRAWN and labelling.confusion.any()
    return {
        "title": title,
        "share": _share(labelling),
        "lead": _lead(labelling),
        "labelling": labelling,
        "left_out": labelling.rectified == 0,
        "weakened": weakened(labelling),
        "rejection": rejection_table(labelling),
        "no_label_left": no_label_left(labelling),
        "noun": "pictures" if task.paths else "rows",
        "counted": partial(_counted, labelling),
        "has_pictures": bool(task.paths),
        "counts": _counts(labelling),
        "class_names": task.class_names,
        "map": embedding_map(labelling),
        "wide_size": WIDE_SIZE,
        "phone_size": PHONE_SIZE,
        "sizes": _sizes(labelling),
        "cells": confusion_cells(labelling.confusion) if drawn else [],
        "in_words": len(task.class_names) <= MOST_CLASSES_IN_WORDS,
        "pairs": worst_pairs(labelling.confusion),
        "skipped": task.skipped[:MOST_SKIPPED],
        "n_skipped": len(task.skipped),
        "most_open_classes": MOST_OPEN_CLASSES,
        "most_open_findings": MOST_OPEN_FINDINGS,
        "made_with": {what: said(value) for what, value in labelling.made_with.items()},
        "how": how_to_label(labelling),
        "n_colours": len(COLOURS),
    }


def _share(labelling: Labelling) -> str:
    """The one number of the page; none where it cannot be known."""
    estimate = labelling.estimate
    return percent(estimate.accuracy) if estimate and not labelling.task.is_labelled.all() else ""


def _counted(labelling: Labelling, number: int) -> str:
    """So many pictures, or rows, in words."""
    noun = "picture" if labelling.task.paths else "row"
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _lead(labelling: Labelling) -> str:
    """The one sentence to read: how many of the new labels are right, as far as that is known (after that share)."""
    n = int((~labelling.task.is_labelled).sum())
    if n == 0:
        return f"Nothing was left to label: {_counted(labelling, len(labelling.task.names))}, all with a label already."
    if labelling.estimate is None:
        reason = f": {labelling.no_estimate}" if labelling.no_estimate else ""
        return (
            f"{_counted(labelling, n)} had no label. How many of the new labels are right cannot be estimated{reason}."
        )
    estimate = labelling.estimate
    interval = f"{100 * estimate.level:g}\u00a0% interval: {percent(estimate.low)} to {percent(estimate.high)}"
    labelled = with_a_label(labelling)
    if labelled.n == n:
        return f"({interval}) of the {_counted(labelling, n)} without a label are expected to get the right one."
    which = f"({interval}) of the {_counted(labelling, n)} without a label are expected to be of their likeliest class"
    if not labelled.n:
        return f"{which}; none of them got it as its label."
    right = percent(labelled.right or 0.0)
    return f"{which}. {labelled.n:,} got it as their label; of these, {right} are expected to be right."


def _counts(labelling: Labelling) -> list[tuple[str, int, str]]:
    """(name, number, meaning) of what became of everything that was found."""
    numbers = [int((labelling.status == index).sum()) for index in range(len(STATUSES))]
    meanings = (
        "labelled by you",
        "got a label",
        "got none: too close to call",
        "got none: like no class",
    )
    counts = list(zip(STATUSES, numbers, meanings, strict=True))
    return [*counts, ("skipped", len(labelling.task.skipped), "could not be read")]


def _sizes(labelling: Labelling) -> list[tuple[int, int, float, float, float]]:
    """(class, given, expected, and both as percent of the largest class) for each class."""
    task = labelling.task
    given = np.bincount(task.labels[task.is_labelled], minlength=len(task.class_names)).tolist()
    expected = [float(size) for size in labelling.expected_sizes]
    largest = max((g + e for g, e in zip(given, expected, strict=True)), default=0) or 1
    return [
        (number, g, e, 100 * g / largest, 100 * e / largest)
        for number, (g, e) in enumerate(zip(given, expected, strict=True))
    ]


MOST_CLASSES_IN_WORDS = 12  # a table with numbers in its cells
MOST_CLASSES_DRAWN = 150
MOST_PAIRS = 12
LEAST_SHARE = 0.01  # of a class; paler cells cannot be seen
RIGHT, WRONG = (0, 114, 178), (178, 59, 0)  # both dark enough for white text


@dataclass(frozen=True)
class Cell:
    """Items of class `row` that were labelled `column`: the expected number as shown, and the colours of the cell."""

    row: int
    column: int
    text: str
    background: str
    ink: str


@dataclass(frozen=True)
class Pair:
    """Items of class `true` that are expected to be labelled `taken_for`: number, and share of the class."""

    true: int
    taken_for: int
    expected: float
    share: float


def confusion_cells(confusion: np.ndarray) -> list[list[Cell]]:
    """One list per row, with every cell that can be seen (all of them where the table has words)."""
    shares = _shares(confusion)
    in_words = len(confusion) <= MOST_CLASSES_IN_WORDS
    return [
        [
            _cell(row, column, confusion[row, column], shares[row, column])
            for column in range(len(confusion))
            if in_words or shares[row, column] >= LEAST_SHARE
        ]
        for row in range(len(confusion))
    ]


def worst_pairs(confusion: np.ndarray) -> list[Pair]:
    """The pairs of classes with most expected mistakes, at least half an item, worst first."""
    rows, columns = np.nonzero((confusion >= 0.5) & ~np.eye(len(confusion), dtype=bool))
    order = np.argsort(-confusion[rows, columns], kind="stable")[:MOST_PAIRS]
    pairs = [(int(rows[k]), int(columns[k])) for k in order]
    return [Pair(i, j, float(confusion[i, j]), float(confusion[i, j] / confusion[i].sum())) for i, j in pairs]


def _shares(confusion: np.ndarray) -> np.ndarray:
    """(N, N) of each class, the share that got each label; zeros for a class without items."""
    return confusion / np.maximum(confusion.sum(1, keepdims=True), 1e-12)


def _cell(row: int, column: int, count: float, share: float) -> Cell:
    strength = float(min(max(share, 0), 1)) ** 0.6  # small shares of mistakes are to be seen too
    colour = [round(255 + strength * (part - 255)) for part in (RIGHT if row == column else WRONG)]
    text = f"{count:.0f}" if count >= 9.5 else f"{count:.1f}"
    return Cell(row, column, text, "#" + bytes(colour).hex(), "#fff" if _luminance(colour) < 0.18 else "#000")


def _luminance(colour: Sequence[int]) -> float:
    """As WCAG defines it. White has a contrast of 4.5 with what is below 0.183, black with what is above 0.175."""
    parts = [part / 255 for part in colour]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
