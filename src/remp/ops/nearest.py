"""The hint in an error about an unknown name."""

import difflib
from collections.abc import Iterable


def nearest(name: str, names: Iterable[str]) -> str:
    """The names there are, and which of them may have been meant."""
    names = list(names)
    meant = did_you_mean(name, names)
    return f"there are: {', '.join(names) or 'none'}" + (f"; {meant}" if meant else "")


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """A question about the name that comes closest; empty where none is close."""
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else ""
