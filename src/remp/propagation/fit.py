"""From rows and a few labels to calibrated probabilities, as `remp label` and ReMPClassifier both find them; and what
is kept to label other rows later."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from remp.errors import DataError
from remp.propagation import sample_of, sample_of_each_class
from remp.propagation.adaptive import Adapted, Adaptive, EvidenceLogits, EvidenceWeights
from remp.propagation.calibration import Calibration, Signs, agreement_of, calibrate, typical_sharpness, weigh_evidence
from remp.propagation.held_out import MOST_CLASSES, HeldOut, Likeness, ease_of, fit_likeness, hold_out, learn
from remp.propagation.shares import Equality, equality_of, log_shares
from remp.rectification.propagate import Propagated, Propagation
from remp.rectification.transform import FeatureTransform, fit_transform
from remp.rows import ArrayRows, Block, Rows, Shard, shard_of
from remp.rows.dataset import join

_DEFAULTS = Adaptive()
_MOST_EXAMPLES = 10_000  # labelled rows that are kept, as many as the rule looks at
# Unlabelled rows from which is found whether the classes are of equal size, and the labelled rows easier than others:
# the larger of 1000 and 50 per class, but never more than the last.
_ITEMS, _ITEMS_PER_CLASS, _MOST_ITEMS = 1000, 50, 20_000


@dataclass(frozen=True)
class Fitted:
    """model: the classes, which give a row its logits. held_out: what labelled rows get without their label.
    calibration: from logits to probabilities. likeness: how much a row resembles the nearest class."""

    model: Adapted | Propagated
    held_out: HeldOut
    calibration: Calibration
    likeness: Likeness

    @property
    def evidence(self) -> EvidenceWeights:
        """How much each kind of evidence counts by the hidden labels; all 1 for the paper's rule and without layers."""
        if isinstance(self.model, Adapted) and self.model.settings.layers:
            return self.model.evidence
        return EvidenceWeights()

    @property
    def left_out(self) -> bool:
        """Whether rectification was left out because the held-out labels are likelier without it."""
        return not self.evidence.cosine

    def light(self) -> "Fitted":
        """Without the features of the held-out rows, which are large."""
        return replace(self, held_out=replace(self.held_out, features=self.held_out.features[:0]))

    def probabilities(self, rows: Tensor) -> Tensor:
        """Raw rows (m, d) -> (m, N), calibrated; a row sums to 1."""
        return self.calibration.probabilities(self.model.logits(rows))


def fit_rows(
    rows: Rows,
    labels: np.ndarray,
    n_classes: int,
    settings: Adaptive | Propagation = _DEFAULTS,
    *,
    shard: Shard | None = None,
    model: Adapted | Propagated | None = None,
) -> Fitted:
    """Learn the classes of all rows, and from hidden labels how sure the model can be.

    In this order: the model; what it says of labels that are hidden; by these labels how much each kind of evidence
    counts; whether the kinds of evidence agree, the classes are of equal size, and the labels easy ones; the
    temperature; by all of these the shares of the classes. The paper's rule is left as it was asked for: of it, only
    the temperature is found.

    labels: (n,) class 0 … n_classes - 1, or -1 for an unlabelled row. shard: who passes over the rows; by default as
    the rows themselves say. model: what `learn` made of the same, if that is known.
    """
    shard = shard or shard_of(rows)
    model = model or learn(rows, labels, n_classes, settings, shard)
    held_out = hold_out(model, rows, labels)
    if isinstance(model, Adapted):
        model = replace(model, surroundings=None)  # large, and not looked at any more
        if model.settings.layers:
            weights = torch.tensor(weigh_evidence(held_out), dtype=torch.float64)
            model = replace(model, evidence=EvidenceWeights(*_as_in_first(weights, shard).tolist()))
            held_out = held_out.weighed(model.evidence)
    counts = np.bincount(labels[labels >= 0], minlength=n_classes)
    likeness = fit_likeness(rows, labels, n_classes, model.settings.parts, shard)
    some = rows.take(sample_of(np.flatnonzero(labels < 0), min(max(_ITEMS, _ITEMS_PER_CLASS * n_classes), _MOST_ITEMS)))
    signs, offsets = _signs(model, some, counts, shard)
    ease = ease_of(held_out.resemblance, likeness(some).numpy())
    found = calibrate(model, held_out, counts, signs=signs, ease=ease)
    sharpness, weights = _as_in_first(torch.from_numpy(np.stack([found.sharpness, found.weights])), shard).numpy()
    calibration = Calibration(sharpness, weights)
    if isinstance(model, Adapted) and not model.settings.balanced:
        shares = _shares(model, held_out, calibration.best, rows)
        shares = shares + signs.equality * (offsets - shares)
        model = replace(model, log_shares=_as_in_first(shares, shard))
        held_out = replace(held_out, others=None)  # large, too
    return Fitted(model, held_out, calibration, likeness)


def _as_in_first(numbers: Tensor, shard: Shard) -> Tensor:
    """The numbers that the first process has, in each: it alone has looked at the surroundings of labels."""
    return shard.sum(torch.zeros_like(numbers) if shard.rank else numbers)


def _signs(model: Adapted | Propagated, rows: Tensor, counts: np.ndarray, shard: Shard) -> tuple[Signs, Tensor]:
    """What a sample of the unlabelled rows (m, d) tells of the temperature; and what must be added to the model's
    logits (N,) so that all classes get as many of these rows.

    Nothing is looked at by the paper's rule, without layers or unlabelled rows, and with very many classes. counts:
    (N,) labelled rows of each class.
    """
    n_classes = len(counts)
    nothing = torch.zeros(n_classes, dtype=torch.float64)
    if not isinstance(model, Adapted) or not model.settings.layers:
        return Signs(), nothing
    if not len(rows) or not 1 < n_classes <= MOST_CLASSES:
        return Signs(equality=float(model.settings.balanced)), nothing
    logits = model.evidence_logits(rows)
    offsets, certainty = (nothing, 1.0) if model.settings.balanced else _equality(model, logits, counts)
    # Shifts make the sum of all kinds of evidence comparable between classes, not the answers of each kind.
    agreement = Signs().agreement if model.shifts else agreement_of(logits)
    two = torch.tensor([agreement, certainty], dtype=torch.float64)
    found = _as_in_first(torch.cat([offsets, two]), shard)
    return Signs(*found[-2:].tolist()), found[:-2]


def _equality(model: Adapted, logits: EvidenceLogits, counts: np.ndarray) -> Equality:
    """Whether the classes are of equal size, by the logits of unlabelled rows; the offsets are for the model's own
    logits."""
    sharpness = float(np.exp(typical_sharpness(model, counts)))
    scores = sharpness * model.evidence.weigh(*logits[:3]).double()
    offsets, certainty = equality_of(scores, n_shot=float(1 / (1 / counts).mean()))
    return Equality(offsets / sharpness, certainty)


def _shares(model: Adapted, held_out: HeldOut, sharpness: float, rows: Rows) -> Tensor:
    """What the shares of the classes add to the model's logits (N,): as far as all folds agree on them if labels could
    be hidden, else as the layers found them. sharpness: that of the calibration, since shares are found from
    probabilities."""
    others = held_out.others
    if not others:
        return model.log_shares
    scores = model.scores(rows.take(others.items)).double()
    found = log_shares(sharpness * scores, sharpness * others.scores(model.evidence).double())
    return held_out.covered**2 * found / sharpness


@dataclass(frozen=True)
class RowAnswers:
    """The probabilities of rows by a model, in float64, so that a row gets the same ones with any other rows beside it.

    dtype: of the result."""

    model: Adapted | Propagated
    calibration: Calibration
    dtype: type[np.floating]

    def __call__(self, block: Block) -> np.ndarray:
        """Of all rows of a block: (len(block), N)."""
        return np.concatenate(list(self.each(block.chunks(), block.first)))

    def each(self, chunks: Iterable[Tensor], first: int = 0) -> Iterator[np.ndarray]:
        """Raw rows (m, d) -> (m, N), chunk by chunk. first: the number of the first row."""
        for chunk in chunks:
            answers = self.calibration.probabilities(self.model.logits(chunk.double()))
            check_answers(answers, first)
            first += len(chunk)
            yield answers.numpy().astype(self.dtype, copy=False)


def check_answers(probabilities: Tensor, first: int) -> None:
    """Raise a DataError, with the number of the row, if rows first, first + 1, … get no probabilities (m, N)."""
    if not probabilities.isfinite().all():
        bad = first + int((~probabilities.isfinite()).any(-1).nonzero()[0])
        raise DataError(
            f"row {bad} holds a number that is not finite in float32, or too large to compare: correct it or leave it "
            "out"
        )


@dataclass(frozen=True)
class Learned:
    """What was learned from a few examples, with what is needed to use it again.

    fitted: without the features of the held-out rows. classes: (N,) names or numbers. examples: (s, d) labelled rows;
    labels: (s,); counts: (N,) how many labelled rows of each class there were, of which examples may be a sample.
    backbone, side: what made the features and from how large pictures, None for features of one's own. embedder: hash
    of the backbone, to notice if that of this name has changed.
    """

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
        """rows, labels: (n, d) and (n,), -1 for unlabelled: all that `fitted` was learned from."""
        counts = np.bincount(labels[labels >= 0], minlength=len(classes))
        numbers = sample_of_each_class(labels, len(classes), max(1, _MOST_EXAMPLES // len(classes)))
        return cls(fitted.light(), classes, rows.take(numbers).numpy(), labels[numbers], counts)

    def with_rows(self, rows: Rows, shard: Shard | None = None) -> "Learned":
        """Learned again from the same examples, with these rows as the unlabelled ones. shard: who passes over them."""
        # Raises an error about a row that is not finite by its number in these rows, not in the joined ones.
        fit_transform(rows, FeatureTransform(), shard or shard_of(rows))
        joined = join(ArrayRows(self.examples), rows)
        labels = np.concatenate([self.labels, np.full(len(rows), -1, np.int64)])
        fitted = fit_rows(joined, labels, len(self.classes), self.fitted.model.settings, shard=shard)
        return replace(self, fitted=fitted.light())
