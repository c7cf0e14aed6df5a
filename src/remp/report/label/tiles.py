"""Which items of a labelling are shown, and what is said of each."""

import base64
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from remp.datasets.decode import UnreadablePicture
from remp.labelling.outcome import STATUSES, Advice, Finding, Labelling, Status
from remp.report import class_colour, isolated, percent, short
from remp.report.thumbnails import Thumbnails

MOST_FINDINGS = 25  # of one kind
MOST_ADVICE = 20
FINDING_TITLES = {
    "hardly better than guessing": "Classes that the features hardly tell apart",
    "unrecognised class": "Classes that are not recognised",
    "suspicious label": "Labels that may be wrong",
    "easy examples": "Labels of typical items only",
    "exact duplicates": "Exact duplicates",
    "near duplicates": "Near duplicates",
    "single example": "Classes with a single example",
    "similar classes": "Classes that look alike",
}


@dataclass(frozen=True)
class ItemTile:
    """An item: its name, a few words on it, and its picture as a data address (None: it cannot be read)."""

    name: str
    caption: str
    alt: str
    source: str | None


@dataclass(frozen=True)
class Strip:
    """Some items of `total` that have something in common."""

    title: str
    tiles: tuple[ItemTile, ...]
    total: int


@dataclass(frozen=True)
class ClassBlock:
    """A class with its strips. expected: how many of the unlabelled items are expected to be of it."""

    name: str
    colour: str
    given: int
    labelled: int
    uncertain: int
    expected: float
    strips: tuple[Strip, ...]


@dataclass(frozen=True)
class FindingGroup:
    """Findings of a kind, each with its tiles, of `total`."""

    title: str
    findings: tuple[tuple[str, tuple[ItemTile, ...]], ...]
    total: int


@dataclass(frozen=True)
class TileChoice:
    """Chooses from a labelling; a strip has at most `most` tiles. source: item -> data address of its picture."""

    labelling: Labelling
    source: Callable[[int], str | None]
    most: int

    def class_block(self, number: int) -> ClassBlock:
        """Items of a class: given, then the most and least certain, then those that rectification moved here, or, where
        that is left out, the estimated sizes of the classes."""
        result = self.labelling
        given = np.flatnonzero(result.task.labels == number)
        predicted = np.flatnonzero((result.best == number) & (self._is("labelled") | self._is("uncertain")))
        by_certainty = predicted[np.argsort(-result.probability[predicted], kind="stable")]
        only_class = len(result.task.class_names) == 1  # all equally certain
        certain = by_certainty[: min(self.most, len(by_certainty) if only_class else (len(by_certainty) + 1) // 2)]
        doubtful = by_certainty[:0] if only_class else by_certainty[len(certain) :][::-1]
        changed = by_certainty[result.before[by_certainty] != number]
        strips = (
            self._strip("Given", given, lambda item: ""),
            self._strip("Labelled" if only_class else "Most certain", certain, self._certainty, len(predicted)),
            self._strip("Least certain", doubtful, self._certainty_and_other, len(predicted)),
            self._strip(
                f"Changed by {'class sizes' if result.rectified == 0 else 'rectification'}",
                changed,
                lambda item: f"was {self._class(result.before[item])}",
            ),
        )
        return ClassBlock(
            name=result.task.class_names[number],
            colour=class_colour(number),
            given=len(given),
            labelled=int(self._is("labelled")[predicted].sum()),
            uncertain=int(self._is("uncertain")[predicted].sum()),
            expected=float(result.expected_sizes[number]),
            strips=strips,
        )

    def unknown(self) -> Strip:
        """Items that are like none of the classes, those that fit worst first."""
        items = np.flatnonzero(self._is("unknown"))
        by_fit = items[np.argsort(self.labelling.probability[items], kind="stable")]
        return self._strip("Unknown", by_fit, lambda item: f"nearest: {self._class(self.labelling.best[item])}")

    def advice(self) -> list[tuple[ItemTile, Advice]]:
        return [
            (self._tile(advice.item, self._doubt(advice.item)), advice)
            for advice in self.labelling.label_next[:MOST_ADVICE]
        ]

    def findings(self) -> list[FindingGroup]:
        """By kind, in the order of FINDING_TITLES."""
        groups = {kind: [found for found in self.labelling.findings if found.kind == kind] for kind in FINDING_TITLES}
        return [
            FindingGroup(FINDING_TITLES[kind], tuple(map(self._finding, found[:MOST_FINDINGS])), len(found))
            for kind, found in groups.items()
            if found
        ]

    def _finding(self, finding: Finding) -> tuple[str, tuple[ItemTile, ...]]:
        items = (*finding.items, *finding.beside)[: self.most]
        return finding.text, tuple(self._tile(item, self._label_or_guess(item)) for item in items)

    def _strip(
        self, title: str, items: Iterable[int], caption: Callable[[int], str], total: int | None = None
    ) -> Strip:
        items = list(items)
        tiles = tuple(self._tile(int(item), caption(int(item))) for item in items[: self.most])
        return Strip(title, tiles, len(items) if total is None else total)

    def _tile(self, item: int, caption: str) -> ItemTile:
        name = self.labelling.task.names[item]
        return ItemTile(name, caption, f"{short(name)}: {caption}" if caption else short(name), self.source(item))

    def _is(self, status: Status) -> np.ndarray:
        return np.equal(self.labelling.status, STATUSES.index(status))

    def _class(self, number: int) -> str:
        return isolated(short(self.labelling.task.class_names[number], 24))

    def _certainty(self, item: int) -> str:
        """Nothing with one class, whose probability is always 1."""
        return "" if len(self.labelling.task.class_names) == 1 else percent(self.labelling.probability[item])

    def _certainty_and_other(self, item: int) -> str:
        other = self.labelling.runner_up[item]
        return f"{self._certainty(item)}, or {self._class(other)}" if other >= 0 else self._certainty(item)

    def _doubt(self, item: int) -> str:
        return f"{self._class(self.labelling.best[item])} {self._certainty_and_other(item)}".rstrip()

    def _label_or_guess(self, item: int) -> str:
        label = self.labelling.task.labels[item]
        return f"given: {self._class(label)}" if label >= 0 else self._doubt(item)


SIDE, QUALITY = 128, 80


def thumbnail_sources(paths: Sequence[Path]) -> list[str | None]:
    """The centre square of each picture as a data address, or None for a file that is gone or is no picture.

    A file that has not changed since its thumbnail was made is not read again.
    """
    thumbnails = Thumbnails(SIDE, QUALITY)

    def source(path: Path) -> str | None:
        try:
            return "data:image/jpeg;base64," + base64.b64encode(thumbnails.small(path)[0]).decode("ascii")
        except UnreadablePicture:
            return None

    try:
        with ThreadPoolExecutor() as pool:
            return list(pool.map(source, paths))
    finally:
        thumbnails.close()
