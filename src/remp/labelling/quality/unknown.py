"""Which items resemble no class: those less at home than labelled items whose label was hidden.

How much an item is at home is its resemblance to the nearest class plus its largest score without rectification, each
in units of its spread among the held-out items: a stranger is unlike the examples of every class, and none claims it.
"""

import numpy as np

# The share of items of the known classes that may be called unknown, were they normal; 5 % of real ones are.
_FALSE_ALARMS = 0.065
# Without held-out items: this many standard deviations below the middle of all items.
_FAR = 3.0


def at_home(resemblance: np.ndarray, top_score: np.ndarray, spreads: tuple[float, float]) -> np.ndarray:
    """(m,) and (m,) -> (m,), larger is more at home. spreads: standard deviations of either among held-out items."""
    return resemblance / spreads[0] + top_score / spreads[1]


def spreads_of(resemblance: np.ndarray, top_score: np.ndarray) -> tuple[float, float]:
    """The standard deviations of held-out items (m,), none of them 0; a score counts for nothing without two items."""
    if len(resemblance) < 2:
        return 1.0, float("inf")
    return tuple(float(max(values.std(ddof=1), 1e-6)) for values in (resemblance, top_score))  # type: ignore[return-value]


def smallest_known(held_out: np.ndarray, everything: np.ndarray) -> float:
    """What is less at home than this is unknown: the limit of prediction for one more item like the held-out ones (m,),
    or, without two of these, far below all items (k,), of which most should be known."""
    if len(held_out) > 1:
        from scipy.special import stdtrit

        quantile = float(stdtrit(len(held_out) - 1, 1 - _FALSE_ALARMS))
        return float(held_out.mean() - quantile * held_out.std(ddof=1) * np.sqrt(1 + 1 / len(held_out)))
    if not len(everything):
        return -np.inf
    middle = np.median(everything)
    deviation = 1.4826 * np.median(np.abs(everything - middle))  # the factor makes it that of a normal distribution
    return float(middle - _FAR * deviation)
