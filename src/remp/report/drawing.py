"""How figures and pages look: colours, one style of plots without a window or global state, the plane of a map."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, QUIET = "#1f2430", "#6b7280"
# Okabe and Ito's colours, told apart by all kinds of colour vision, and four that are far from them and from each other
# for all of these, too; more classes begin again.
COLOURS = (
    *("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8a7f00", "#4d4d4d"),
    *("#602000", "#8000e0", "#400060", "#e0c080"),
)


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


DOTS_PER_INCH = 170
STYLE: Any = {
    "font.size": 10,
    "text.parse_math": False,  # a name may have a dollar sign
    "text.color": INK,
    "axes.edgecolor": "#c5cad3",
    "axes.labelcolor": QUIET,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "axes.grid": True,
    "grid.color": "#eceef2",
    "legend.frameon": False,
}


@contextmanager
def styled_figure(width: float, height: float) -> Iterator[tuple["Figure", Callable[[], bytes]]]:
    """An empty figure of so many inches, and a function that makes its PNG."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)

        def png() -> bytes:
            buffer = BytesIO()
            figure.savefig(buffer, format="png", dpi=DOTS_PER_INCH, facecolor="white")
            return buffer.getvalue()

        yield figure, png
