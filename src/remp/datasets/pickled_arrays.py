"""What a stranger's pickle may make: bytes, sets, ordered dicts and arrays of plain numbers, each looked at before."""

import math
import pickle
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

_PLAIN_DTYPE = re.compile(r"[?]|[biufc][0-9]{0,2}|[SU][0-9]{1,5}")
_MOST_DIMENSIONS, _MOST_ITEMS = 32, 2**48
_LARGEST_KEY = 2**60  # larger integers can be chosen so that all fall into one place of a dict


def text(value: Any) -> Any:
    """Bytes as str; all else as it is."""
    return value.decode("latin1") if isinstance(value, bytes) else value


def check_keys(keys: Iterable[Any]) -> None:
    """Refuse keys and members that take long to hash: a tuple that holds a tuple twice, and so on, takes for ever."""
    for key in keys:
        is_small = isinstance(key, int | float) and abs(key) <= _LARGEST_KEY
        if not (is_small or key is None or isinstance(key, str | bytes)):
            raise pickle.UnpicklingError(f"a {type(key).__name__} as a key; needed text or a small number")


class Maker:
    """A function a pickle may call but neither look into nor change."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[..., Any]) -> None:
        self.make = make


class Dtype:
    """Stands in for numpy.dtype, so that no stranger's state reaches numpy's own parser."""

    def __init__(self, code: bytes | str, *_: Any) -> None:
        self._code, self._byte_order = text(code), "|"

    def take_state(self, state: Any) -> None:
        self._byte_order = text(state[1])

    def real(self) -> np.dtype:
        if not (isinstance(self._code, str) and _PLAIN_DTYPE.fullmatch(self._code)):
            raise pickle.UnpicklingError("an array not of plain numbers")
        if self._byte_order not in ("<", ">", "|", "="):
            raise pickle.UnpicklingError("an array of an unknown byte order")
        return np.dtype(self._code).newbyteorder(self._byte_order)  # type: ignore[arg-type]


class Array(np.ndarray):
    """An array that its pickle has yet to fill."""


class Factory:
    """Makes what a pickle asks for, as long as all of it together is not much larger than the file itself."""

    def __init__(self, most_bytes: int) -> None:
        self._left = most_bytes
        self.admitted: dict[str, Any] = {
            "numpy.ndarray": _NDARRAY,
            "numpy.dtype": Maker(Dtype),
            "numpy.core.multiarray._reconstruct": Maker(_empty_array),
            "numpy.core.multiarray.scalar": Maker(self._scalar),
            "numpy.core.numeric._frombuffer": Maker(self._array_from_buffer),
            "_codecs.encode": Maker(self._encode),
            "builtins.bytes": Maker(self._bytes),
            "builtins.bytearray": Maker(self._bytes),
            "builtins.set": Maker(_make_set),
            "builtins.frozenset": Maker(_make_frozenset),
            "collections.OrderedDict": Maker(_make_ordered),
        }

    def fill(self, array: Array, state: Any) -> None:
        """Give an array its pickled state."""
        _, shape, stand_in, is_fortran, data = state
        dtype, content = _real(stand_in), self._bytes(data)
        _check_size(shape, dtype, content)
        self._charge(len(content))
        array.__setstate__((1, shape, dtype, bool(is_fortran), content))  # type: ignore[arg-type]

    def _charge(self, n_bytes: int) -> None:
        self._left -= n_bytes
        if self._left < 0:
            raise pickle.UnpicklingError("it unpacks to far more than its own size")

    def _bytes(self, data: Any = b"") -> bytes:
        if not isinstance(data, bytes | bytearray | str):  # bytes(n) would make n of them
            raise pickle.UnpicklingError(f"{type(data).__name__} in place of bytes")
        self._charge(0 if isinstance(data, bytes) else len(data))
        return data.encode("latin1") if isinstance(data, str) else bytes(data)

    def _encode(self, content: str, encoding: bytes | str) -> bytes:
        """How Python 3 writes bytes in the old protocols."""
        if text(encoding) != "latin1" or not isinstance(content, str):
            raise pickle.UnpicklingError("bytes in another encoding than latin1")
        return self._bytes(content)

    def _scalar(self, dtype: Dtype, data: bytes | str) -> Any:
        content = self._bytes(data)
        _check_size((), _real(dtype), content)
        return np.frombuffer(content, _real(dtype))[0]

    def _array_from_buffer(self, data: Any, dtype: Dtype, shape: tuple[int, ...], order: Any) -> Array:
        array = _empty_array(_NDARRAY)
        self.fill(array, (1, shape, dtype, text(order) == "F", data))
        return array


_NDARRAY = "numpy.ndarray"  # a word: the class itself could be called with any size


def _real(stand_in: Any) -> np.dtype:
    if not isinstance(stand_in, Dtype):
        raise pickle.UnpicklingError(f"an array of type {type(stand_in).__name__}")
    return stand_in.real()


def _check_size(shape: Any, dtype: np.dtype, data: bytes) -> None:
    if not isinstance(shape, tuple) or len(shape) > _MOST_DIMENSIONS:
        raise pickle.UnpicklingError("an array without a sensible shape")
    # before the product is taken: [0] * n is a list of n zeros, and that of huge numbers takes for ever
    if not all(type(n) is int and 0 <= n <= _MOST_ITEMS for n in shape):
        raise pickle.UnpicklingError("an array whose shape is not of whole numbers")
    if dtype.itemsize == 0 or math.prod(shape) * dtype.itemsize != len(data):
        raise pickle.UnpicklingError(f"an array of shape {shape} of {dtype} with {len(data)} bytes of data")


def _empty_array(kind: Any, *_: Any) -> Array:
    if kind != _NDARRAY:
        raise pickle.UnpicklingError("an array of another class than numpy's")
    return Array((0,), dtype=np.uint8)


def _make_set(items: Any = ()) -> set[Any]:
    check_keys(_list(items))
    return set(items)


def _make_frozenset(items: Any = ()) -> frozenset[Any]:
    check_keys(_list(items))
    return frozenset(items)


def _make_ordered(pairs: Any = ()) -> OrderedDict[Any, Any]:
    check_keys(_list(pair)[0] for pair in _list(pairs))
    return OrderedDict(pairs)


def _list(items: Any) -> list[Any] | tuple[Any, ...]:
    if not isinstance(items, list | tuple):
        raise pickle.UnpicklingError(f"a {type(items).__name__} in place of a list")
    return items
