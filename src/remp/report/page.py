"""Pages from the templates of this package."""

from importlib.resources import files
from typing import Any


def render_page(template: str, **values: Any) -> str:
    """The page of a template as HTML. Every value is escaped, and one that the template misses is an error."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(_source),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)


def _source(name: str) -> str:
    return files("remp.report").joinpath(f"templates/{name}").read_text(encoding="utf-8")
