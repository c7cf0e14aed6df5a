"""What was learned from a few examples, with what is needed to use it again."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from remp.propagation.fit import Fitted, fit_rows
from remp.propagation.held_out import sample_of
from remp.rows import ArrayRows, Rows, Shard
from remp.rows.dataset import join

_MOST_EXAMPLES = 10_000  # that are kept, as many as the rule looks at


@dataclass(frozen=True)
class Learned:
    """fitted: what was learned, of the held-out rows without their features. classes: (N,) names or numbers. examples:
    (s, d) labelled rows, labels: (s,) theirs, counts: (N,) how many there were of each class. backbone, side: what made
    the features and from how large pictures, None for features of one's own. embedder: its hash, to tell whether a
    backbone of that name is still the same."""

    fitted: Fitted
    classes: tuple[Any, ...]
    examples: np.ndarray
    labels: np.ndarray
    counts: np.ndarray
    backbone: str | None = None
    side: int | None = None
    embedder: str = ""

    @classmethod
    def of(cls, fitted: Fitted, rows: Rows, labels: np.ndarray, classes: tuple[Any, ...]) -> "Learned":
        """rows: all that it was learned from; labels: (n,), -1 for unlabelled."""
        counts = np.bincount(labels[labels >= 0], minlength=len(classes))
        most = max(1, _MOST_EXAMPLES // len(classes))
        kept = [sample_of(np.flatnonzero(labels == number), most) for number in range(len(classes))]
        numbers = np.sort(np.concatenate(kept))
        held_out = replace(fitted.held_out, features=fitted.held_out.features[:0])
        return cls(replace(fitted, held_out=held_out), classes, rows.take(numbers).numpy(), labels[numbers], counts)

    def made_by(self, backbone: str, side: int, embedder: str) -> "Learned":
        return replace(self, backbone=backbone, side=side, embedder=embedder)

    def with_rows(self, rows: Rows, shard: Shard | None = None) -> "Learned":
        """Learned again from the same examples, with these rows as the unlabelled ones. shard: who passes over them."""
        joined = join(ArrayRows(self.examples), rows)
        labels = np.concatenate([self.labels, np.full(len(rows), -1, np.int64)])
        fitted = fit_rows(joined, labels, len(self.classes), self.fitted.model.settings, shard=shard)
        held_out = replace(fitted.held_out, features=fitted.held_out.features[:0])
        return replace(self, fitted=replace(fitted, held_out=held_out))
