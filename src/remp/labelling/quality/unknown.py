"""Which items resemble no class: those less like their nearest class than labelled items whose label was hidden.

An item is compared with the class means of the labelled items alone. Rectified prototypes would not do: a heap of
strangers draws the nearest one to itself, and looks at home there.
"""

import numpy as np
from torch import Tensor

from remp.rectification.similarity import cosine

# The share of items of the known classes that may be called unknown.
_FALSE_ALARMS = 0.03
# Without held-out items: this many standard deviations below the middle of all items.
_FAR = 3.0


def resemblance(features: Tensor, prototypes: Tensor) -> Tensor:
    """Cosine with the nearest of the prototypes (N, d): features (m, d) -> (m,)."""
    return cosine(features, prototypes).amax(-1)


def smallest_known(held_out: np.ndarray, everything: np.ndarray) -> float:
    """The resemblance below which an item is unknown: the limit of prediction for one more item like the held-out ones
    (m,), or, without two of these, far below all items (k,), of which most should be known."""
    if len(held_out) > 1:
        from scipy.special import stdtrit

        quantile = float(stdtrit(len(held_out) - 1, 1 - _FALSE_ALARMS))
        return float(held_out.mean() - quantile * held_out.std(ddof=1) * np.sqrt(1 + 1 / len(held_out)))
    if not len(everything):
        return -1.0
    middle = np.median(everything)
    deviation = 1.4826 * np.median(np.abs(everything - middle))  # the factor makes it that of a normal distribution
    return float(middle - _FAR * deviation)
