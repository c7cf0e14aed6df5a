"""Pages from the templates of this package, and names of strangers that are printed in them."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from remp.untrusted import visible

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

LONGEST = 48


def render_page(template: str, **values: Any) -> str:
    """The page of a template as HTML. Every value is escaped, and one that the template misses is an error."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("remp.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def short(text: str, longest: int = LONGEST) -> str:
    """The visible text; of a long one the beginning and the end."""
    text = visible(text)
    if len(text) <= longest:
        return text
    end = (longest - 1) // 2
    return f"{text[: longest - 1 - end]}…{text[-end:]}"


def breakable(text: str) -> Markup:
    """The text, which a browser may break after _ / - and a full stop, as between words."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"([_/.-])(?=.)", r"\1<wbr>", str(escape(text))))


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
