"""Labels, classes and marks of a collection as one value: actions change it, undo takes any of them back."""

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from remp.errors import ConfigError

LONGEST_NAME = 200  # characters
# Told apart on white and on black, neighbours above all; more classes begin again.
COLOURS = (
    "#2f7fd1", "#e08a00", "#0f9d76", "#d0518f", "#d9541e", "#7a5cd6", "#8a8f00", "#17a3b8",
    "#b5392f", "#4d9a2a", "#a452b8", "#a8713a", "#4468c9", "#c7a100", "#2b8f5b", "#e0668a",
    "#6d7f99", "#3fa0e0", "#93702b", "#c23fa6",
)  # fmt: skip
_COLOUR = re.compile(r"#[0-9a-f]{6}")


@dataclass(frozen=True)
class StudioClass:
    """A class of the user. colour: #rrggbb"""

    name: str
    colour: str


def clean_name(name: str) -> str:
    """A class name as it is kept: one spelling of accents, one line, no spaces around. Raises ConfigError for none."""
    if len(name) > LONGEST_NAME:
        raise ConfigError(
            f"a class name of {len(name):,} characters; needed at most {LONGEST_NAME}: give a shorter one"
        )
    try:
        name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ConfigError("a class name with half a character: type it again") from error
    visible = "".join(" " if unicodedata.category(letter) in ("Cc", "Zl", "Zp") else letter for letter in name)
    cleaned = _as_read(visible)
    if not cleaned:
        raise ConfigError("a class name without letters: type a name that can be read")
    return cleaned


def _as_read(name: str) -> str:
    return " ".join(unicodedata.normalize("NFC", name).split())


def clean_colour(colour: str) -> str:
    """#rrggbb in small letters; raises ConfigError for anything else."""
    if not _COLOUR.fullmatch(colour.casefold()):
        raise ConfigError(f"got the colour {colour[:40]!r}; needed one such as #2f7fd1")
    return colour.casefold()


def next_colour(taken: Collection[str]) -> str:
    """The first colour that the fewest classes have."""
    counts = [sum(colour == other for other in taken) for colour in COLOURS]
    return COLOURS[counts.index(min(counts))]


# What an item has in place of the number of a class: no label, or the mark that it is of none of the classes.
NONE, UNKNOWN = -1, -2
# Where a label comes from: nowhere, from the user's files or a typed name, from a prediction that was accepted.
FREE, GIVEN, ACCEPTED = 0, 1, 2


@dataclass(frozen=True)
class _Change:
    """What an action did, both ways. items: (k,) and their labels and origins (k,) before and after."""

    title: str
    items: np.ndarray
    labels: tuple[np.ndarray, np.ndarray]
    origins: tuple[np.ndarray, np.ndarray]
    classes: tuple[dict[int, StudioClass], dict[int, StudioClass]]
    dismissed: tuple[frozenset[str], frozenset[str]]


@dataclass
class StudioState:
    """What the user has said of n pictures so far.

    labels: (n,) int32, a class of `classes`, NONE or UNKNOWN. origins: (n,) int8, FREE, GIVEN or ACCEPTED. classes: by
    numbers that stay the same for as long as the class is there. next_number: for a new class; none that a class has
    had, since undo may bring that back. dismissed: findings that were looked at. done, undone: the changes that undo
    and redo take back, the newest last. version: grows with every change.
    """

    labels: np.ndarray
    origins: np.ndarray
    classes: dict[int, StudioClass]
    next_number: int
    dismissed: frozenset[str] = frozenset()
    version: int = 0
    done: list[_Change] = field(default_factory=list, repr=False)
    undone: list[_Change] = field(default_factory=list, repr=False)

    @classmethod
    def start(cls, labels: Sequence[int] | np.ndarray, class_names: Sequence[str]) -> "StudioState":
        """The state before any action. labels: (n,) index into class_names, or -1."""
        classes = {n: StudioClass(name, COLOURS[n % len(COLOURS)]) for n, name in enumerate(class_names)}
        labels = np.array(labels, np.int32)
        return cls(labels, np.where(labels >= 0, GIVEN, FREE).astype(np.int8), classes, len(classes))

    def find(self, name: str) -> int | None:
        """The number of the class of this name, or else of one that reads the same: folders may be named with accents
        apart from their letters, or with spaces at the end."""
        numbers = {one.name: number for number, one in reversed(self.classes.items())}
        if name in numbers:
            return numbers[name]
        alike = {_as_read(one): number for one, number in numbers.items()}
        return alike.get(_as_read(name))

    def label(self, items: Iterable[int], name: str) -> None:
        """Give items a class by its name; a class that is not there yet is made."""
        items, classes = self._items(items), dict(self.classes)
        number = self.find(name)
        if number is None:
            name = clean_name(name)
            number, self.next_number = self.next_number, self.next_number + 1
            classes[number] = StudioClass(name, next_colour([one.colour for one in classes.values()]))
        self._do(f"{_pictures(items)} labelled {name}", items, number, GIVEN, classes)

    def accept(self, predicted: Mapping[str, Iterable[int]]) -> None:
        """Make predictions labels: class name -> items. Items that have a label or a mark keep it."""
        parts, numbers = [], []
        for name, items in predicted.items():
            number, items = self._number(name), self._items(items)
            parts.append(items[self.labels[items] == NONE])
            numbers.append(np.full(len(parts[-1]), number, np.int32))
        items = np.concatenate(parts) if parts else np.empty(0, np.int64)
        if len(np.unique(items)) != len(items):
            raise ConfigError("an item was accepted as two classes at once: accept one of them")
        self._do(f"{_pictures(items)} accepted", items, np.concatenate([*numbers, np.empty(0, np.int32)]), ACCEPTED)

    def clear(self, items: Iterable[int]) -> None:
        """Take labels and marks away."""
        items = self._items(items)
        self._do(f"label of {_pictures(items)} taken away", items, NONE, FREE)

    def mark_unknown(self, items: Iterable[int]) -> None:
        """Say that items are of none of the classes."""
        items = self._items(items)
        self._do(f"{_pictures(items)} marked unknown", items, UNKNOWN, GIVEN)

    def rename(self, name: str, to: str) -> None:
        number, to = self._number(name), clean_name(to)
        if self.find(to) not in (None, number):
            raise ConfigError(f"there is a class {to!r} already: merge the two, or take another name")
        classes = {**self.classes, number: StudioClass(to, self.classes[number].colour)}
        self._do(f"{name} renamed {to}", classes=classes)

    def merge(self, name: str, into: str) -> None:
        """Items of one class get another, which stays."""
        number, target = self._number(name), self._number(into)
        if number == target:
            raise ConfigError(f"{name!r} cannot be merged with itself: choose another class")
        items = np.flatnonzero(self.labels == number)
        self._do(f"{name} merged into {into}", items, target, self.origins[items], self._without(number))

    def delete(self, name: str) -> None:
        """Take a class away, and the labels of its items."""
        number = self._number(name)
        items = np.flatnonzero(self.labels == number)
        self._do(f"{name} deleted", items, NONE, FREE, self._without(number))

    def recolour(self, name: str, colour: str) -> None:
        number = self._number(name)
        classes = {**self.classes, number: StudioClass(name, clean_colour(colour))}
        self._do(f"colour of {name} changed", classes=classes)

    def dismiss(self, finding: str) -> None:
        """Hide a finding that was looked at."""
        self._do("finding dismissed", dismissed=self.dismissed | {finding})

    def leave_out(self) -> None:
        """Stand for an action of the journal that cannot be done again, so that undo takes back what it took back."""
        self._do("action that was left out")

    def undo(self) -> str:
        """Take the last change back; what it was, in words, or nothing."""
        return self._move(self.done, self.undone, 0)

    def redo(self) -> str:
        """Make the change again that was taken back last."""
        return self._move(self.undone, self.done, 1)

    def _move(self, changes: list[_Change], to: list[_Change], side: int) -> str:
        if not changes:
            return ""
        to.append(changes.pop())
        self._set(to[-1], side)
        return to[-1].title

    def _do(
        self,
        title: str,
        items: np.ndarray | None = None,
        labels: int | np.ndarray = NONE,
        origins: int | np.ndarray = FREE,
        classes: dict[int, StudioClass] | None = None,
        *,
        dismissed: frozenset[str] | None = None,
    ) -> None:
        items = np.empty(0, np.int64) if items is None else items
        change = _Change(
            title,
            items,
            (self.labels[items], np.broadcast_to(labels, len(items)).astype(np.int32)),
            (self.origins[items], np.broadcast_to(origins, len(items)).astype(np.int8)),
            (self.classes, self.classes if classes is None else classes),
            (self.dismissed, self.dismissed if dismissed is None else dismissed),
        )
        self.done.append(change)
        self.undone.clear()
        self._set(change, 1)

    def _set(self, change: _Change, side: int) -> None:
        self.labels[change.items] = change.labels[side]
        self.origins[change.items] = change.origins[side]
        self.classes, self.dismissed = change.classes[side], change.dismissed[side]
        self.version += 1

    def _number(self, name: str) -> int:
        number = self.find(name)
        if number is None:
            raise ConfigError(f"there is no class {name[:80]!r} (any more)")
        return number

    def _without(self, number: int) -> dict[int, StudioClass]:
        return {other: one for other, one in self.classes.items() if other != number}

    def _items(self, items: Iterable[int]) -> np.ndarray:
        numbers = sorted({_whole(item) for item in items})
        if numbers and not 0 <= numbers[0] <= numbers[-1] < len(self.labels):
            wrong = str(numbers[-1] if numbers[0] >= 0 else numbers[0])[:40]
            raise ConfigError(f"there is no picture {wrong}: there are {len(self.labels)}, numbered from 0")
        return np.array(numbers, np.int64)


def _whole(item: int) -> int:
    if isinstance(item, bool) or not isinstance(item, int | np.integer):
        raise ConfigError(f"pictures are given by their number, got {str(item)[:40]!r}")
    return int(item)


def _pictures(items: np.ndarray) -> str:
    return "1 picture" if len(items) == 1 else f"{len(items):,} pictures"
