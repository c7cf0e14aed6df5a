"""Sizes of layers that a method takes from the shape of its features."""

from math import prod

from remp.errors import ConfigError
from remp.methods.base import Method


def vector_size(method: Method) -> int:
    """Numbers in a feature."""
    if not method.feature_shape:
        raise ConfigError(
            f"{type(method).__name__} learns layers on its features: give feature_shape, the size of a feature"
        )
    return prod(method.feature_shape)


def map_shape(method: Method) -> tuple[int, int, int]:
    """(width, height, breadth) of a feature that is a map."""
    if len(method.feature_shape) != 3:
        raise ConfigError(
            f"{type(method).__name__} got feature_shape={method.feature_shape}; it learns layers on maps and needs "
            "their (width, height, breadth)"
        )
    width, height, breadth = method.feature_shape
    return width, height, breadth
