"""What the labelled items get when their label is hidden: all that can be known of the quality of the others."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from remp.labelling.quality.unknown import resemblance
from remp.rectification.propagate import Propagated, propagate
from remp.rows import ArrayRows, Rows

MOST_FOLDS = 10
# Unlabelled items that the propagation of a fold sees: this many, or this many a class, but never more than the last.
_ITEMS, _ITEMS_A_CLASS, _MOST_ITEMS = 1000, 50, 20_000
SEED = 20210620


@dataclass(frozen=True)
class HeldOut:
    """items: (m,) numbers of labelled items whose class has another; labels: (m,) theirs. What they get without their
    label: logits (m, N), resemblance (m,) to the nearest class mean. features: (m, d), transformed."""

    items: np.ndarray
    labels: np.ndarray
    logits: Tensor
    resemblance: np.ndarray
    features: Tensor

    def __len__(self) -> int:
        return len(self.items)


def hold_out(propagated: Propagated, rows: Rows, labels: np.ndarray) -> HeldOut:
    """Propagate again without the label of one item of each class (or a tenth of them), in turn, and score these.

    labels: (n,), -1 for unlabelled. The features are transformed once, with the centre of all rows.
    """
    n_classes = len(propagated.prototypes)
    folds = fold_numbers(labels, n_classes)
    unlabelled = sample_of(np.flatnonzero(labels < 0), min(max(_ITEMS, _ITEMS_A_CLASS * n_classes), _MOST_ITEMS))
    items = np.concatenate([np.flatnonzero(labels >= 0), unlabelled])
    features = propagated.features(rows.take(items))
    settings = replace(propagated.settings, transform="none")
    logits, similar = torch.zeros(len(items), n_classes), torch.zeros(len(items))
    for fold in range(folds.max(initial=-1) + 1):
        is_out = folds[items] == fold
        without = propagate(ArrayRows(features), np.where(is_out, -1, labels[items]), n_classes, settings)
        logits[is_out] = without.logits(features[is_out])
        similar[is_out] = resemblance(features[is_out], without.prototypes_before)
    found = np.flatnonzero(folds[items] >= 0)
    return HeldOut(items[found], labels[items[found]], logits[found], similar[found].numpy(), features[found])


def fold_numbers(labels: np.ndarray, n_classes: int) -> np.ndarray:
    """(n,) in which fold the label of an item is hidden; -1 for unlabelled ones and for the only one of its class."""
    random = np.random.default_rng(SEED)
    folds = np.full(len(labels), -1)
    for number in range(n_classes):
        members = np.flatnonzero(labels == number)
        if len(members) > 1:
            folds[random.permutation(members)] = np.arange(len(members)) % MOST_FOLDS
    return folds


def sample_of(numbers: np.ndarray, most: int) -> np.ndarray:
    """At most `most` of these numbers (k,), drawn without replacement by a fixed seed, in ascending order."""
    if len(numbers) <= most:
        return np.sort(numbers)
    return np.sort(np.random.default_rng(SEED).choice(numbers, most, replace=False))
