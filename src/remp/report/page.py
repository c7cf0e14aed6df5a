"""Pages from the templates of this package, and names of strangers that are printed in them."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

LONGEST = 48
_UNSEEN = {"Cc", "Cs", "Zl", "Zp"}  # control characters, broken UTF-8, line and paragraph separators
_TURNING = frozenset(
    "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)  # change the reading direction


def render_page(template: str, **values: Any) -> str:
    """The page of a template as HTML. Every value is escaped, and one that the template misses is an error."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    return Environment(
        loader=FunctionLoader(_source),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _source(name: str) -> str:
    return files("remp.report").joinpath(f"templates/{name}").read_text(encoding="utf-8")


def visible(text: str) -> str:
    """The text with characters that cannot be seen, or that turn the text around, as escapes such as \\n."""
    return "".join(map(_visible_character, text))


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


def _visible_character(character: str) -> str:
    if character in _TURNING or unicodedata.category(character) in _UNSEEN:
        return character.encode("unicode_escape").decode("ascii")
    return character
