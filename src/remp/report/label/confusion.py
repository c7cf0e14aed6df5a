"""Which classes are expected to be taken for which: cells of a heat map, and the worst pairs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
