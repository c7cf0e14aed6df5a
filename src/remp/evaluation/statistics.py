"""The one place where an interval or a paired difference is computed."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % interval. `mean_interval` and `paired_difference` return it.

    Parameters
    ----------
    mean : float
        Mean over the episodes.
    half_width : float
        The interval is mean ± half_width; infinite for one episode.
    n : int
        Number of episodes.

    Examples
    --------
    >>> from remp import Estimate
    >>> Estimate(mean=0.7162, half_width=0.0062, n=2000).percent()
    '71.62 ± 0.62 %'
    """

    mean: float
    half_width: float
    n: int

    def percent(self) -> str:
        """As text, in percent."""
        return f"{100 * self.mean:.2f} ± {100 * self.half_width:.2f} %"


def mean_interval(values: np.ndarray) -> Estimate:
    """Mean of per-episode values with the 95 % interval of Student's t distribution.

    Parameters
    ----------
    values : array
        (n,) one value for each episode.

    Returns
    -------
    Estimate
        With `mean`, `half_width` and `n`. The interval is mean ± half_width.

    Examples
    --------
    >>> from remp import mean_interval
    >>> mean_interval([0.6, 0.7, 0.8]).percent()
    '70.00 ± 24.84 %'
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"got values of shape {values.shape}; needed (n,), one for each episode")
    n = len(values)
    if n == 0:
        raise ValueError("no values to average: at least one episode is needed")
    if n == 1:
        return Estimate(float(values[0]), float("inf"), 1)
    return Estimate(float(values.mean()), float(_quantile(n - 1) * values.std(ddof=1) / np.sqrt(n)), n)


def paired_difference(first: np.ndarray, second: np.ndarray) -> Estimate:
    """Mean of first - second over the same episodes, with its 95 % interval.

    Parameters
    ----------
    first, second : array
        (n,) values of two methods, episode by episode.

    Returns
    -------
    Estimate
        With `mean`, `half_width` and `n`.

    Examples
    --------
    Hard episodes are hard for both methods, so that their difference is known better than either accuracy:

    >>> from remp import mean_interval, paired_difference
    >>> first, second = [0.62, 0.71, 0.83], [0.60, 0.70, 0.80]
    >>> mean_interval(first).percent()
    '72.00 ± 26.17 %'
    >>> paired_difference(first, second).percent()
    '2.00 ± 2.48 %'
    """
    first, second = (np.asarray(values, dtype=np.float64) for values in (first, second))  # bytes would wrap around
    if first.shape != second.shape:
        raise ValueError(
            f"got values of shape {first.shape} and {second.shape}; a paired difference needs the same episodes for "
            "both"
        )
    return mean_interval(first - second)


def _quantile(degrees_of_freedom: int) -> float:
    from scipy.special import stdtrit  # as scipy.stats.t.ppf, which takes a second to import

    return float(stdtrit(degrees_of_freedom, 0.975))
