"""Checks of what a user gives: numbers within their limits, and the name that an unknown one may have meant."""

import difflib
import math
from collections.abc import Iterable
from importlib import import_module
from itertools import islice
from typing import Any, get_args

from remp.errors import ConfigError
from remp.untrusted import listed, shortened

_MOST_NAMES, _LONGEST = 1000, 200  # that are compared: a stranger's table may have a million columns


def nearest(name: str, names: Iterable[str]) -> str:
    """The names there are, and which of them may have been meant."""
    names = list(names)
    meant = did_you_mean(name, names)
    return f"there are: {listed(names, 100) or 'none'}" + (f"; {meant}" if meant else "")


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """A question about the name that comes closest; empty where none is close."""
    alike = [other for other in islice(names, _MOST_NAMES) if len(other) < _LONGEST]
    near = difflib.get_close_matches(name[:_LONGEST], alike, n=1)
    return f"did you mean {shortened(near[0])!r}?" if near else ""


def require_at_least(least: float, **settings: float) -> None:
    """Raise a ConfigError unless every setting is a finite number, `least` or more."""
    for name, value in settings.items():
        if not least <= value < math.inf:
            raise ConfigError(f"{name} is {value}; needed a number of at least {least}")


def require_positive(**settings: float) -> None:
    """Raise a ConfigError unless every setting is a finite number above 0."""
    for name, value in settings.items():
        if not 0 < value < math.inf:
            raise ConfigError(f"{name} is {value}; needed a number above 0")


def require_share(**settings: float) -> None:
    """Raise a ConfigError unless every setting is above 0 and at most 1."""
    for name, value in settings.items():
        if not 0 < value <= 1:
            raise ConfigError(f"{name} is {value}; needed a share, above 0 and at most 1")


def require_below_one(**settings: float) -> None:
    """Raise a ConfigError unless every setting is 0 or more and below 1."""
    for name, value in settings.items():
        if not 0 <= value < 1:
            raise ConfigError(f"{name} is {value}; needed a number of at least 0, below 1")


def check_choice(name: str, value: str, choices: Any) -> None:
    """Raise a ConfigError unless `value` is one of the strings of the Literal `choices`."""
    if value not in get_args(choices):
        raise ConfigError(f"{name} is {value!r}; choose from: {', '.join(get_args(choices))}")


def required(module: str, feature: str) -> Any:
    """A module of a package that only `feature` needs. Raises a ConfigError where that is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(f"{feature} needs {module}, which is not installed: pip install {module}") from error
