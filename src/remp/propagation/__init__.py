"""Labels from a few rows to many, whatever the shares of the classes, and how far the answers can be trusted."""

import numpy as np

SEED = 20210620


def sample_of(numbers: np.ndarray, most: int) -> np.ndarray:
    """At most `most` of these numbers (k,), drawn without replacement by a fixed seed, in ascending order."""
    if len(numbers) <= most:
        return np.sort(numbers)
    return np.sort(np.random.default_rng(SEED).choice(numbers, most, replace=False))


def of_each_class(labels: np.ndarray, n_classes: int) -> list[np.ndarray]:
    """Numbers of the labelled rows of each class, ascending: (n,), -1 for unlabelled -> n_classes arrays."""
    labelled = np.flatnonzero(labels >= 0)
    by_class = labelled[np.argsort(labels[labelled], kind="stable")]
    return np.split(by_class, np.bincount(labels[labelled], minlength=n_classes).cumsum()[:-1])


def sample_of_each_class(labels: np.ndarray, n_classes: int, most: int) -> np.ndarray:
    """Numbers of at most `most` labelled rows of each class, ascending, drawn as by `sample_of`."""
    return np.sort(np.concatenate([sample_of(numbers, most) for numbers in of_each_class(labels, n_classes)]))
