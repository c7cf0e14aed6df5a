"""The plane in which points of many dimensions vary most."""

from collections.abc import Callable

import numpy as np


def main_plane(points: np.ndarray) -> tuple[Callable[[np.ndarray], np.ndarray], float]:
    """The projection (n, d) -> (n, 2) on the two main directions of `points` (m, d), and its share of their variance.

    Directions that the points lack (d or m of one) are zeros.
    """
    centre = points.mean(0)
    _, lengths, directions = np.linalg.svd(points - centre, full_matrices=False)
    plane = np.zeros((points.shape[1], 2))
    plane[:, : len(directions[:2])] = directions[:2].T
    variances = lengths**2
    share = float(variances[:2].sum() / variances.sum()) if variances.sum() > 0 else 1.0
    return lambda items: (items - centre) @ plane, share
