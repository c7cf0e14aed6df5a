"""Results side by side with paired differences: of several methods, and of one with its layers and without."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from remp.errors import EpisodeError
from remp.evaluation.result import Result
from remp.evaluation.statistics import Estimate, paired_difference
from remp.methods import KNOWN, METHODS
from remp.methods.remp import ReMP

MOST_SETTINGS_IN_A_NAME = 3


@dataclass(frozen=True)
class Row:
    """A result with its name, and its paired difference to the result that all are compared with; None for that one.
    seconds: taken to score all episodes, where that was measured."""

    name: str
    result: Result
    difference: Estimate | None = None
    seconds: float = float("nan")

    @property
    def accuracy(self) -> str:
        return self.result.estimate.percent()

    @property
    def lead(self) -> str:
        """The difference in points, with its sign."""
        return "" if self.difference is None else _points(self.difference)

    @property
    def kind(self) -> str:
        return "transductive" if self.result.transductive else "inductive"

    @property
    def assumptions(self) -> str:
        return f"{self.kind}, balanced" if self.result.assumes_balance else self.kind

    @property
    def episodes_per_second(self) -> float:
        return len(self.result.accuracies) / self.seconds


def side_by_side(results: Sequence[Result]) -> list[Row]:
    """One row per result, with its difference to the first. Raises EpisodeError for results of other episodes."""
    first = results[0]
    for other in results[1:]:
        if other.episode_hash != first.episode_hash:
            raise EpisodeError(
                f"{first.method} was scored on episodes {first.episode_hash[:12]}, {other.method} on "
                f"{other.episode_hash[:12]}; a paired difference needs the same: evaluate both with --episodes FILE"
            )
    differences = [None, *(paired_difference(other.accuracies, first.accuracies) for other in results[1:])]
    return [Row(*row) for row in zip(_names(results), results, differences, strict=True)]


def comparison_table(results: Sequence[Result]) -> str:
    """Accuracies with 95 % intervals, the paired differences to the first, and the protocol, as lines of text."""
    rows = side_by_side(results)
    head = ("", "accuracy", "difference", "kind", "checkpoint")
    cells = [head, *((row.name, row.accuracy, row.lead, row.kind, row.result.checkpoint_hash[:12]) for row in rows)]
    note = f"Differences: the row minus {rows[0].name}, in points, paired by episode."
    return "\n".join([aligned(cells), note, protocol_note(results[0])])


def aligned(cells: Sequence[tuple[str, ...]]) -> str:
    """Lines of cells as text, columns one below the other."""
    # Not a rich table: that cuts cells to the width of the terminal, which is 80 columns where the output is a file.
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("   ".join(map(str.ljust, line, widths)).rstrip() for line in cells)


def protocol_note(result: Result) -> str:
    """What the numbers of a table have in common, in two lines."""
    protocol = result.protocol
    drawn = f"seed {result.seed}" if result.seed is not None else "from a file"
    return (
        f"Means and 95 % intervals over the same n = {result.estimate.n} episodes of {result.data} / {result.split}:\n"
        f"{protocol.n_way}-way, {protocol.n_shot}-shot, {protocol.n_query} queries per class ({protocol.distribution}),"
        f" {drawn}, hash {result.episode_hash[:16]}"
    )


def _names(results: Sequence[Result]) -> list[str]:
    """Each result by its method; results of the same method also by the settings in which they differ."""
    titles = {name: method.__name__ for name, method in METHODS.items()}
    return [
        ", ".join([titles.get(result.method, result.method), *_distinctions(result, results)]) for result in results
    ]


def _distinctions(result: Result, results: Sequence[Result]) -> list[str]:
    own = _facts(result)
    others = [_facts(other) for other in results if other.method == result.method]
    differing = [name for name in own if any(other.get(name) != own[name] for other in others)]
    return [f"{name} {own[name]}" for name in differing[:MOST_SETTINGS_IN_A_NAME]]


def _facts(result: Result) -> dict[str, Any]:
    return {**result.settings, "transform": result.transform, "checkpoint": result.checkpoint_hash[:8]}


@dataclass(frozen=True)
class WithoutLayers:
    """Mean accuracies on the same episodes, and the paired difference: with the layers minus without."""

    with_layers: float
    without: float
    difference: Estimate

    @classmethod
    def of(cls, with_layers: np.ndarray, without: np.ndarray) -> "WithoutLayers":
        """Accuracies of the same episodes (E,)."""
        return cls(float(with_layers.mean()), float(without.mean()), paired_difference(with_layers, without))

    @property
    def hurts(self) -> bool:
        """Whether the interval of the difference lies below 0."""
        return self.difference.mean + self.difference.half_width < 0

    def sentence(self, cure: str, where: str = "here") -> str:
        """In words. cure: what to do where rectification hurts."""
        points = f"{_points(self.difference)} points, paired, n = {self.difference.n}"
        figures = f"{100 * self.with_layers:.2f} % with it, {100 * self.without:.2f} % without ({points})"
        if self.hurts:
            return f"Rectification hurts {where}: {figures}. {cure}"
        if self.difference.mean - self.difference.half_width > 0:
            return f"Rectification helps {where}: {figures}."
        return f"Rectification makes no clear difference {where}: {figures}."

    def as_dict(self) -> dict[str, float]:
        return {
            "with_layers": round(self.with_layers, 6),
            "without_layers": round(self.without, 6),
            "difference": round(self.difference.mean, 6),
            "difference_half_width_95": round(self.difference.half_width, 6),
        }


def _points(difference: Estimate) -> str:
    """A difference in points, with its sign."""
    return f"{100 * difference.mean:+.2f} ± {100 * difference.half_width:.2f}".replace("-", "−")


def has_layers(method: str, settings: Mapping[str, Any]) -> bool:
    """Whether a method of this name, with these settings, rectifies. Others may call something else `layers`."""
    return issubclass(KNOWN[method], ReMP) and settings.get("layers", 0) > 0
