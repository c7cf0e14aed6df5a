"""Which items a diagnosis looks at when there are too many to look at all."""

import numpy as np

SEED = 20210620


def sample_of(numbers: np.ndarray, most: int) -> np.ndarray:
    """At most `most` of these numbers (k,), drawn without replacement by a fixed seed, in ascending order."""
    if len(numbers) <= most:
        return np.sort(numbers)
    return np.sort(np.random.default_rng(SEED).choice(numbers, most, replace=False))
