"""Checks of the numbers in a method's settings."""

import math

from remp.errors import ConfigError


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
