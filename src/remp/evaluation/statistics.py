"""The one place where an interval or a paired difference is computed."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Estimate:
    """A mean with the half-width of its 95 % interval, over n episodes."""

    mean: float
    half_width: float
    n: int

    def percent(self) -> str:
        return f"{100 * self.mean:.2f} ± {100 * self.half_width:.2f} %"


def mean_interval(values: np.ndarray) -> Estimate:
    """Mean of per-episode values with the 95 % interval of Student's t distribution."""
    values = np.asarray(values, dtype=np.float64)
    n = len(values)
    if n == 0:
        raise ValueError("no values to average: at least one episode is needed")
    if n == 1:
        return Estimate(float(values[0]), float("inf"), 1)
    return Estimate(float(values.mean()), float(_quantile(n - 1) * values.std(ddof=1) / np.sqrt(n)), n)


def paired_difference(first: np.ndarray, second: np.ndarray) -> Estimate:
    """Mean of first - second over the same episodes, with its 95 % interval."""
    first, second = np.asarray(first), np.asarray(second)
    if first.shape != second.shape:
        raise ValueError(
            f"got {len(first)} and {len(second)} episodes; a paired difference needs the same episodes for both"
        )
    return mean_interval(first - second)


def _quantile(degrees_of_freedom: int) -> float:
    from scipy.special import stdtrit  # as scipy.stats.t.ppf, which takes a second to import

    return float(stdtrit(degrees_of_freedom, 0.975))
