"""Labels from a few rows to many, whatever the shares of the classes, and how far the answers can be trusted."""

import numpy as np

SEED = 20210620


def sample_of(numbers: np.ndarray, most: int) -> np.ndarray:
    """At most `most` of these numbers (k,), drawn without replacement by a fixed seed, in ascending order."""
    if len(numbers) <= most:
        return np.sort(numbers)
    return np.sort(np.random.default_rng(SEED).choice(numbers, most, replace=False))
