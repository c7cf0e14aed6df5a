"""Pages and figures for people: of a labelling, of a comparison, and how all of them look.

Here is the common look: pages from the templates of this package, names of strangers that are printed in them, colours,
and one style of plots without a window or global state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from remp.untrusted import visible
from remp.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup
    from matplotlib.figure import Figure

LONGEST = 48


def render_page(template: str, **values: Any) -> str:
    """The page of a template as HTML. Every value is escaped, and one that the template misses is an error."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("remp.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "version": __version__,
        "visible": visible,
        "short": short,
        "breakable": breakable,
        "percent": percent,
    }
    return environment


def short(text: str, longest: int = LONGEST) -> str:
    """The visible text; of a long one the beginning and the end."""
    text = visible(text)
    if len(text) <= longest:
        return text
    end = (longest - 1) // 2
    return f"{text[: longest - 1 - end]}…{text[-end:]}"


def breakable(text: str) -> Markup:
    """The text, which a browser may break after _ / - and a full stop, as between words, but not within a number."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"([_/-]|(?<!\d)\.|\.(?!\d))(?=.)", r"\1<wbr>", str(escape(text))))


def isolated(text: str) -> str:
    """The text between marks that keep a name in Hebrew or Arabic from turning the words beside it around."""
    return f"\u2068{text}\u2069"


def percent(share: float) -> str:
    """0.873 as 87 %. What is not certain is not printed as 0 % or 100 %."""
    if 0.995 <= share < 1:
        return ">\u00a099\u00a0%"
    if 0 < share < 0.005:
        return "<\u00a01\u00a0%"
    return f"{100 * share:.0f}\u00a0%"


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
def styled_figure(width: float, height: float) -> Iterator[tuple[Figure, Callable[[], bytes]]]:
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
