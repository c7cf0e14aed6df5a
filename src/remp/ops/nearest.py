"""The hint in an error about an unknown name."""

import difflib
from collections.abc import Iterable


def nearest(name: str, names: Iterable[str]) -> str:
    """The names there are, and which of them may have been meant."""
    names = list(names)
    near = difflib.get_close_matches(name, names, n=1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    return f"there are: {', '.join(names) or 'none'}{meant}"
