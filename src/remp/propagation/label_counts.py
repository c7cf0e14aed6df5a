"""Classes with one label beside classes with twenty: what makes their logits comparable.

The mean of twenty rows lies nearer to any row than a single row does, which has all the noise of its own. So a class
with few labels loses rows to a class with many. With as many labels of each class, that cancels out: the rule is tried
a few times with as many labels of each as the rarest class has, and the logits of each class are then shifted to be as
large on average as they are there. Which rows are nearer to which class is still told by all labels.
"""

import numpy as np
import torch
from torch import Tensor

from remp.propagation import SEED, of_each_class, sample_of, sample_of_each_class
from remp.propagation.adaptive import Adapted, Adaptive, Shifts, adapt
from remp.rows import ArrayRows, Rows, Shard

# Numbers of labels count as equal if their inverses differ by no more than this; how often the rule is tried.
_ALIKE, _TRIES = 0.1, 4
# Rows that it is tried on: unlabelled ones, and labelled ones of each class and in all; with more classes than these,
# nothing is done.
_UNLABELLED, _OF_A_CLASS, _LABELLED, _MOST_CLASSES = 1000, 20, 1000, 400


def about_equal(labels: np.ndarray, n_classes: int) -> bool:
    """Whether the classes have about as many labels each, or some of them none. labels: (n,), -1 for unlabelled."""
    counts = np.bincount(labels[labels >= 0], minlength=n_classes)
    return not counts.min() or bool(1 / counts.min() - 1 / counts.max() <= _ALIKE)


def fair_shifts(rows: Rows, labels: np.ndarray, n_classes: int, settings: Adaptive, shard: Shard) -> Shifts | None:
    """None where the classes have about as many labels each, or where nothing tells what is fair.

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
    counts, free = np.bincount(labels[labels >= 0]), torch.from_numpy(labels < 0)
    random, tries = np.random.default_rng(SEED), []
    for _ in range(_TRIES):
        few = [random.permutation(numbers)[: counts.min()] for numbers in of_each_class(labels, n_classes)]
        kept = np.sort(np.concatenate([*few, np.flatnonzero(labels < 0)]))
        tries.append(_scores(adapt(ArrayRows(rows[kept]), labels[kept], n_classes, settings), rows[free]))
    fair = torch.stack(tries).mean(0)
    in_layers = _gap(fair, _scores(adapt(ArrayRows(rows), labels, n_classes, settings), rows[free]), counts)
    model = adapt(ArrayRows(rows), labels, n_classes, settings, shifts=Shifts(in_layers, torch.zeros_like(in_layers)))
    return Shifts(in_layers, _gap(fair, _scores(model, rows[free]), counts))


def _scores(model: Adapted, rows: Tensor) -> Tensor:
    """(m, N), of mean 0 over the classes."""
    scores = model.scores(rows).double()
    return scores - scores.mean(1, keepdim=True)


def _gap(fair: Tensor, scores: Tensor, counts: np.ndarray) -> Tensor:
    """(N,) what the scores (m, N) lack of the fair ones on average, if these were as wide, as far as it goes with the
    inverse of the number of labels (N,), as noise does: the rest is chance."""
    width = scores.std(1).mean() / fair.std(1).mean().clamp(min=1e-12)
    gap, noise = width * fair.mean(0) - scores.mean(0), torch.from_numpy(1 / counts - np.mean(1 / counts))
    return noise * (gap @ noise) / noise.square().sum()
