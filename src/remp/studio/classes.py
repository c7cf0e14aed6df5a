"""The classes of a studio: names, colours, and what may be a name."""

import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass

from remp.errors import ConfigError

LONGEST_NAME = 200  # characters
# Told apart on white and on black, neighbours above all; more classes begin again.
COLOURS = (
    "#2f7fd1", "#e08a00", "#0f9d76", "#d0518f", "#d9541e", "#7a5cd6", "#8a8f00", "#17a3b8",
    "#b5392f", "#4d9a2a", "#a452b8", "#a8713a", "#4468c9", "#c7a100", "#2b8f5b", "#e0668a",
    "#6d7f99", "#3fa0e0", "#93702b", "#c23fa6",
)  # fmt: skip
_COLOUR = re.compile(r"#[0-9a-f]{6}")


@dataclass(frozen=True)
class StudioClass:
    """colour: #rrggbb"""

    name: str
    colour: str


def clean_name(name: str) -> str:
    """A class name as it is kept: one spelling of accents, one line, no spaces around. Raises ConfigError for none."""
    if not isinstance(name, str):
        raise ConfigError(f"a class name is text, got {type(name).__name__}")
    if len(name) > LONGEST_NAME:
        raise ConfigError(
            f"a class name of {len(name):,} characters; needed at most {LONGEST_NAME}: give a shorter one"
        )
    visible = "".join(" " if unicodedata.category(letter) in ("Cc", "Zl", "Zp") else letter for letter in name)
    cleaned = " ".join(unicodedata.normalize("NFC", visible).split())
    if not cleaned:
        raise ConfigError("a class name without letters: type a name that can be read")
    return cleaned


def clean_colour(colour: str) -> str:
    """#rrggbb in small letters; raises ConfigError for anything else."""
    if not isinstance(colour, str) or not _COLOUR.fullmatch(colour.casefold()):  # type: ignore[redundant-expr]
        raise ConfigError(f"got the colour {str(colour)[:40]!r}; needed one such as #2f7fd1")
    return colour.casefold()


def next_colour(taken: Collection[str]) -> str:
    """The first colour that the fewest classes have."""
    counts = [sum(colour == other for other in taken) for colour in COLOURS]
    return COLOURS[counts.index(min(counts))]
