"""What strangers wrote: what readers throw at it becomes an error of remp, and names are made fit to print."""

from collections.abc import Iterator
from contextlib import contextmanager
from unicodedata import category

from remp.errors import DataError, RempError

# Raised in a line of our own, these are a mistake in that line; no reader raises them there about a file.
_MISTAKES = (NameError, AttributeError, AssertionError, ImportError, NotImplementedError)
_UNSEEN = {"Cc", "Cs", "Zl", "Zp"}  # control characters, broken UTF-8, line and paragraph separators
_TURNING = frozenset(
    "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)  # change the reading direction


@contextmanager
def border(what: str, cure: str, kind: type[RempError] = DataError) -> Iterator[None]:
    """Raise `kind` saying "`what` (reason): `cure`" for whatever the reader inside raises.

    By their documentation, the readers of pickles, archives, pictures, arrays and tables may raise anything at a
    damaged file, so no list of exceptions would do. Hence only the call of the reader stands inside, and what remp
    makes of the content stands outside: a mistake in our own code shows as what it is. Errors of remp pass.

    Examples
    --------
    >>> import json
    >>> with border("x.json is not JSON", "write it again"):
    ...     json.loads("{")
    Traceback (most recent call last):
    remp.errors.DataError: x.json is not JSON (JSONDecodeError: Expecting property name enclosed in double quotes...
    """
    try:
        yield
    except RempError:
        raise
    except Exception as error:
        if isinstance(error, _MISTAKES) and _is_raised_by_remp(error):
            raise
        raise kind(f"{what} ({reason(error)}): {cure}") from error


def reason(error: BaseException) -> str:
    """What an exception says, on one line of sensible length."""
    if isinstance(error, MemoryError):
        return "it asks for more memory than there is"
    if isinstance(error, OSError) and error.strerror:
        return str(error.strerror)
    text = shortened(" ".join(str(error).split()))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def visible(text: str) -> str:
    """The text with characters that cannot be seen, or that turn the text around, as escapes such as \\n."""
    return "".join(
        letter.encode("unicode_escape").decode("ascii") if letter in _TURNING or category(letter) in _UNSEEN else letter
        for letter in text
    )


def shortened(text: str, most: int = 200) -> str:
    """The text, its middle left out if it is long: names in a stranger's file may have a million letters."""
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-most // 4 :]}"


def listed(names: list[str], most: int = 10) -> str:
    """Names for a message: the first few, each of sensible length."""
    shown = ", ".join(shortened(name, 60) for name in names[:most])
    return f"{shown} and {len(names) - most:,} more" if len(names) > most else shown


def _is_raised_by_remp(error: BaseException) -> bool:
    """Whether the innermost frame is one of remp's modules."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__", "")).split(".")[0] == "remp"
