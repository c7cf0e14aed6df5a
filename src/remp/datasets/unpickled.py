"""Parts of an unpickled dict, checked to be what a reader needs."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from remp.datasets.safe_pickle import as_text
from remp.errors import DataError

_LARGEST = 2**62


def get_numbers(content: Mapping[str, Any], key: str, name: str) -> np.ndarray:
    """content[key], an array or a flat list of whole numbers, as int64 (n,). Raises DataError, naming file `name`."""
    value = content.get(key)
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "iu":
        return np.asarray(value).astype(np.int64)
    # looked at one by one: numpy takes time without end for a list that holds a list twice, and so on
    if isinstance(value, list | tuple) and all(type(item) is int and abs(item) < _LARGEST for item in value):
        return np.array(value, dtype=np.int64)
    raise DataError(f"{name} has no list of whole numbers called {key!r}: it is another file or damaged, get it again")


def get_names(content: Mapping[str, Any], key: str, name: str) -> list[str]:
    """content[key], a list of texts. Raises DataError, naming the file `name`."""
    value = content.get(key)
    value = as_text(value.tolist() if isinstance(value, np.ndarray) else value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    raise DataError(f"{name} has no list of names called {key!r}: it is another file or damaged, get it again")


def get_images(content: Mapping[str, Any], key: str, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """content[key], uint8 (n, *shape). Raises DataError, naming the file `name`."""
    value = content.get(key)
    if isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.shape[1:] == shape:
        return np.asarray(value)
    got = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
    raise DataError(f"{name} has {got} as {key!r}, needed uint8 (n, {', '.join(map(str, shape))}): get the file again")
