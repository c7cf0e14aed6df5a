"""What `--reject` would leave: for each threshold how many items keep their label, and how many of these are right."""

from typing import NamedTuple

import numpy as np

from remp.labelling.outcome import STATUSES, Labelling

THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


class Kept(NamedTuple):
    """n: how many of the unlabelled items have a label of this probability or more; right: the share of these that is
    right, by their probabilities; 0 if there are none."""

    threshold: float
    n: int
    right: float


def rejection_table(labelling: Labelling) -> list[Kept]:
    """A line for each of the usual thresholds and the one that was asked for, those that leave nothing after the first
    left out.

    Items that resemble no class are not counted: they get no label at any threshold.
    """
    values = _probabilities(labelling)
    lines = [_kept(values, threshold) for threshold in sorted({0.0, *THRESHOLDS, labelling.reject or 0.0})]
    n_lines = 1 + sum(line.n > 0 for line in lines)
    return lines[:n_lines] if len(values) else []


def largest_threshold(labelling: Labelling) -> float:
    """The largest threshold, in hundredths, that leaves an item; 0 without any."""
    return float(np.floor(100 * _probabilities(labelling).max(initial=0.0)) / 100)


def _probabilities(labelling: Labelling) -> np.ndarray:
    can_be_labelled = np.isin(labelling.status, [STATUSES.index("labelled"), STATUSES.index("uncertain")])
    return labelling.probability[can_be_labelled]


def _kept(values: np.ndarray, threshold: float) -> Kept:
    kept = values[values >= threshold]
    return Kept(threshold, len(kept), float(kept.mean()) if len(kept) else 0.0)
