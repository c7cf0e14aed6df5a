"""Classes with one label beside classes with twenty: what makes their logits comparable.

The mean of twenty rows lies nearer to any row than a single row does, which has all the noise of its own. So a class
with few labels loses rows to a class with many. With as many labels of each class, that cancels out. So:

1. The rule is applied four times to as many labels of each class as the rarest has, drawn at random. The mean of what
   unlabelled rows get there is fair.
2. It is applied to all labels. Each class's logits are shifted to be as large on average as the fair ones; these shifts
   count while prototypes are rectified.
3. It is applied to all labels with these shifts, which changes the prototypes, too. What then still lacks is added in
   the end.

Which rows are nearer to which class is still decided by all labels.
"""

import numpy as np
import torch
from torch import Tensor

from remp.propagation import SEED, of_each_class, sample_of, sample_of_each_class
from remp.propagation.adaptive import Adapted, Adaptive, Shifts, adapt
from remp.rows import ArrayRows, Rows, Shard

# Numbers of labels count as equal if their inverses differ by no more than this; how often equal numbers are drawn.
_ALIKE, _TRIES = 0.1, 4
# The rule is applied to a sample: at most 1000 unlabelled rows, and of each class 20 labelled ones, or as many as make
# 1000 in all. With more than 400 classes, nothing is done.
_UNLABELLED, _OF_A_CLASS, _LABELLED, _MOST_CLASSES = 1000, 20, 1000, 400


def about_equal(labels: np.ndarray, n_classes: int) -> bool:
    """Whether the classes have about as many labels each, or some of them none. labels: (n,), -1 for unlabelled."""
    counts = np.bincount(labels[labels >= 0], minlength=n_classes)
    return not counts.min() or bool(1 / counts.min() - 1 / counts.max() <= _ALIKE)


def fair_shifts(rows: Rows, labels: np.ndarray, n_classes: int, settings: Adaptive, shard: Shard) -> Shifts | None:
    """The shifts of the regression's logits; None where the classes have about as many labels each, or where nothing
    shows what is fair.

    labels: (n,), -1 for unlabelled. Found in the first process; all get the same numbers.
    """
    unlabelled = sample_of(np.flatnonzero(labels < 0), _UNLABELLED)
    if (
        about_equal(labels, n_classes)
        or not settings.layers
        or not len(unlabelled)
        or not 1 < n_classes <= _MOST_CLASSES
    ):
        return None
    shifts = torch.zeros(2, n_classes, dtype=torch.float64)
    if shard.rank == 0:
        most = max(_OF_A_CLASS, _LABELLED // n_classes)
        chosen = np.concatenate([sample_of_each_class(labels, n_classes, most), unlabelled])
        shifts = torch.stack(_of_sample(rows.take(chosen), labels[chosen], n_classes, settings))
    return Shifts(*shard.sum(shifts))


def _of_sample(rows: Tensor, labels: np.ndarray, n_classes: int, settings: Adaptive) -> Shifts:
    """rows: (s, d), few enough for one chunk. labels: (s,), -1 for unlabelled."""
    counts, free = np.bincount(labels[labels >= 0]), np.flatnonzero(labels < 0)
    random, tries = np.random.default_rng(SEED), []
    for _ in range(_TRIES):
        few = [random.permutation(numbers)[: counts.min()] for numbers in of_each_class(labels, n_classes)]
        kept = np.sort(np.concatenate([*few, free]))
        tries.append(_scores(adapt(ArrayRows(rows[kept]), labels[kept], n_classes, settings), rows[free]))
    fair = torch.stack(tries).mean(0)
    in_layers = _gap(fair, _scores(adapt(ArrayRows(rows), labels, n_classes, settings), rows[free]), counts)
    shifts = Shifts(in_layers, at_end=torch.zeros_like(in_layers))
    shifted = adapt(ArrayRows(rows), labels, n_classes, settings, shifts=shifts)
    return Shifts(in_layers, at_end=_gap(fair, _scores(shifted, rows[free]), counts))


def _scores(model: Adapted, rows: Tensor) -> Tensor:
    """The model's scores of these rows (m, N), each row minus its mean."""
    scores = model.scores(rows).double()
    return scores - scores.mean(1, keepdim=True)


def _gap(fair: Tensor, scores: Tensor, counts: np.ndarray) -> Tensor:
    """(N,) what the scores (m, N) lack, on average over the rows, of the fair ones, scaled to be as wide.

    Noise makes a class lose in proportion to 1 / K, for K labels of the class (counts: (N,)). So of the gap, only the
    part in proportion to that is taken; the rest is chance.
    """
    width = scores.std(1).mean() / fair.std(1).mean().clamp(min=1e-12)
    gap = width * fair.mean(0) - scores.mean(0)
    noise = torch.from_numpy(1 / counts - np.mean(1 / counts))
    return noise * (gap @ noise) / noise.square().sum()
