"""The colours of figures and pages, and the plane that many dimensions are shown in."""

from collections.abc import Callable

import numpy as np

INK, QUIET = "#1f2430", "#6b7280"
# Okabe and Ito's colours, told apart by all kinds of colour vision; more classes begin again.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8a7f00", "#4d4d4d")


def class_colour(way: int) -> str:
    """The colour (#rrggbb) of a class, in every figure and table."""
    return COLOURS[way % len(COLOURS)]


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
