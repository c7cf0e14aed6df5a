"""How figures look: one style, drawn without a window and without global state."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from remp.report.drawing import INK, QUIET

DOTS_AN_INCH = 170
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
