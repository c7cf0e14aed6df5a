"""What is to be labelled: items, some of them with a label."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

UNLABELLED = -1


@dataclass(frozen=True)
class LabellingTask:
    """names: (n,) what the user calls an item: a path below the folder, or the number of a row. labels: (n,) int64
    index into `class_names`, or -1. paths: (n,) the pictures, or () for embeddings. skipped: (name, reason) of what
    could not be read; such items are not among `names`."""

    names: tuple[str, ...]
    labels: np.ndarray
    class_names: tuple[str, ...]
    paths: tuple[Path, ...] = ()
    skipped: tuple[tuple[str, str], ...] = field(default=())

    @property
    def is_labelled(self) -> np.ndarray:
        """(n,) bool"""
        return self.labels != UNLABELLED

    def without(self, reasons: dict[int, str]) -> "LabellingTask":
        """The task without the items of these numbers, which go to `skipped` with their reason."""
        kept = [number for number in range(len(self.names)) if number not in reasons]
        return LabellingTask(
            names=tuple(self.names[number] for number in kept),
            labels=self.labels[kept],
            class_names=self.class_names,
            paths=tuple(self.paths[number] for number in kept) if self.paths else (),
            skipped=(*self.skipped, *((self.names[number], reason) for number, reason in sorted(reasons.items()))),
        )
