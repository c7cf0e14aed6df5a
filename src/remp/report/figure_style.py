"""How figures look: one set of colours and fonts, drawn without a window and without global state."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

INK, QUIET = "#1f2430", "#6b7280"
# Okabe and Ito's colours, told apart by all kinds of colour vision; more classes begin again.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8a7f00", "#4d4d4d")
DOTS_AN_INCH = 170
STYLE: Any = {
    "font.size": 10,
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


def class_colour(way: int) -> str:
    """The colour (#rrggbb) of a class of an episode, in every figure and table."""
    return COLOURS[way % len(COLOURS)]


@contextmanager
def styled_figure(width: float, height: float) -> Iterator[tuple[Figure, Callable[[], bytes]]]:
    """An empty figure of so many inches, and a function that makes its PNG."""
    with rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)

        def png() -> bytes:
            buffer = BytesIO()
            figure.savefig(buffer, format="png", dpi=DOTS_AN_INCH, facecolor="white")
            return buffer.getvalue()

        yield figure, png
