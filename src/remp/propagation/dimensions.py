"""In how many directions rows vary, which tells how large a cosine is by chance: about 1 / √D in D dimensions.

In few dimensions even unrelated rows have large cosines with a prototype, so that these must count less.
"""

import numpy as np
from torch import Tensor

from remp.propagation import sample_of
from remp.propagation.products import features_of
from remp.propagation.shares import trust_in
from remp.rectification.transform import RowTransform
from remp.rows import Rows

# The dimensions of most features, after their transform; how many unlabelled rows are looked at; the range of weights.
_USUAL, _ROWS, _LEAST, _MOST = 28.0, 300, 0.25, 3.0


def weight_of_cosines(rows: Rows, labels: np.ndarray, transform: RowTransform, size: float) -> float:
    """What logits by cosines are multiplied with: √(D / 28) for the effective dimensions D of the unlabelled rows, so
    that they are as large by chance in any number of dimensions; near to 1 if there are few such rows.

    labels: (n,), -1 for unlabelled. transform, size: what makes features of rows.
    """
    sample = sample_of(np.flatnonzero(labels < 0), _ROWS)
    found = effective_dimensions(features_of(rows.take(sample), transform, size))
    return float(np.clip((found / _USUAL) ** (0.5 * trust_in(len(sample))), _LEAST, _MOST))


def effective_dimensions(features: Tensor) -> float:
    """tr(C)² / tr(C²) for the covariance C of rows (m, d), estimated from pairs of different rows, so that it does not
    grow with m; 1 for fewer than three rows, or rows that are all the same."""
    m = len(features)
    centred = features.double() - features.double().mean(0)
    products = centred @ centred.T
    squares = products.diagonal()
    of_pairs = float((products.square().sum() - squares.square().sum()) * m / max(1, m - 1))
    found = float(squares.sum()) ** 2 / of_pairs if m > 2 and of_pairs > 0 else 1.0
    return max(1.0, found) if np.isfinite(found) else 1.0
