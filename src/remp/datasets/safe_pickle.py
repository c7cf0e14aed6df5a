"""Pickles from strangers: arrays and plain containers come through, all else is an error and runs nothing."""

import math
import os
import pickle
import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

from remp.errors import DataError

_PLAIN_DTYPE = re.compile(r"[?]|[biufc][0-9]{0,2}|[SU][0-9]{1,5}")


def load_pickle(file: BinaryIO, name: str) -> Any:
    """The content of a pickle of any protocol, Python 2's too (its strings come out as bytes: see `as_text`).

    Admits numpy arrays of numbers and strings, None, bool, numbers, bytes, str, list, tuple, dict and set. Raises
    DataError, naming `name`, for anything else.
    """
    try:
        return _PlainUnpickler(_Bounded(file), encoding="bytes").load()
    except Exception as error:  # by the documentation of pickle, damaged data may raise anything
        raise DataError(
            f"{name} is not a pickle of plain arrays, or it is damaged ({error}). Nothing in it was run: get it again"
        ) from error


def as_text(value: Any) -> Any:
    """`value` with bytes turned into str, also in the keys of a dict and in a list."""
    if isinstance(value, bytes):
        return value.decode("latin1")
    if isinstance(value, dict):
        return {as_text(key): item for key, item in value.items()}
    if isinstance(value, list):
        return [as_text(item) for item in value]
    return value


class _Bounded:
    """A file that refuses a read beyond its end before any memory is set aside for it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._left = file.seek(0, os.SEEK_END)
        file.seek(0)

    def read(self, size: int) -> bytes:
        if not 0 <= size <= self._left:
            raise EOFError(f"it says {size} more bytes follow, {self._left} do")
        self._left -= size
        return self._file.read(size)

    def readline(self) -> bytes:
        line = self._file.readline()
        self._left -= len(line)
        return line

    def readinto(self, buffer: Any) -> int:
        buffer[:] = self.read(len(buffer))
        return len(buffer)


class _Maker:
    """A function a pickle may call but neither look into nor change."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make

    def __call__(self, *arguments: Any) -> Any:
        return self._make(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("it tries to change a function")


class _Dtype:
    """Stands in for numpy.dtype, so that no stranger's state reaches numpy's own parser."""

    def __init__(self, code: bytes | str, *_: Any) -> None:
        self._code = as_text(code)
        self._byte_order = "|"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._byte_order = as_text(state[1])

    def real(self) -> np.dtype:
        if not _PLAIN_DTYPE.fullmatch(self._code) or self._byte_order not in ("<", ">", "|", "="):
            raise pickle.UnpicklingError(f"an array of {self._code!r}, not of plain numbers")
        return np.dtype(self._code).newbyteorder(self._byte_order)


class _Array(np.ndarray):
    """An array that takes over a pickled state only after looking at it."""

    def __setstate__(self, state: Any) -> None:
        _, shape, stand_in, is_fortran, data = state
        dtype, content = stand_in.real(), _plain_bytes(data)
        _check_size(shape, dtype, content)
        super().__setstate__((1, shape, dtype, bool(is_fortran), content))  # type: ignore[arg-type]


def _check_size(shape: tuple[int, ...], dtype: np.dtype, data: bytes) -> None:
    if min(shape, default=0) < 0 or dtype.itemsize == 0 or math.prod(shape) * dtype.itemsize != len(data):
        raise pickle.UnpicklingError(f"an array of shape {shape} of {dtype} with {len(data)} bytes of data")


def _empty_array(kind: Any, *_: Any) -> _Array:
    if kind is not _NDARRAY:
        raise pickle.UnpicklingError(f"an array of type {kind!r}")
    return _Array((0,), dtype=np.uint8)


def _array_from_buffer(data: Any, dtype: _Dtype, shape: tuple[int, ...], order: Any) -> _Array:
    array = _empty_array(_NDARRAY)
    array.__setstate__((1, shape, dtype, as_text(order) == "F", data))
    return array


def _scalar(dtype: _Dtype, data: bytes | str) -> Any:
    data = _plain_bytes(data)
    _check_size((), dtype.real(), data)
    return np.frombuffer(data, dtype.real())[0]


def _plain_bytes(data: Any = b"") -> bytes:
    if not isinstance(data, bytes | bytearray | str):  # bytes(n) would make n of them
        raise pickle.UnpicklingError(f"{type(data).__name__} in place of bytes")
    return data.encode("latin1") if isinstance(data, str) else bytes(data)


def _encode(text: str, encoding: bytes | str) -> bytes:
    """How Python 3 writes bytes in the old protocols."""
    if as_text(encoding) != "latin1":
        raise pickle.UnpicklingError(f"bytes in encoding {encoding!r}")
    return text.encode("latin1")


_NDARRAY = "numpy.ndarray"  # a word: the class itself could be called with any size
_ADMITTED: dict[str, Any] = {
    "numpy.ndarray": _NDARRAY,
    "numpy.dtype": _Maker(_Dtype),
    "numpy.core.multiarray._reconstruct": _Maker(_empty_array),
    "numpy.core.multiarray.scalar": _Maker(_scalar),
    "numpy.core.numeric._frombuffer": _Maker(_array_from_buffer),
    "_codecs.encode": _Maker(_encode),
    "builtins.bytes": _Maker(_plain_bytes),
    "builtins.bytearray": _Maker(_plain_bytes),
    "builtins.set": _Maker(set),
    "builtins.frozenset": _Maker(frozenset),
    "collections.OrderedDict": _Maker(OrderedDict),
}


# The pure-Python unpickler: the one in C takes memory for any memo number it reads, before it reads on.
class _PlainUnpickler(pickle._Unpickler):  # type: ignore[name-defined,misc]
    def find_class(self, module: str, name: str) -> Any:
        # Python 2 says __builtin__, numpy 2 says numpy._core
        path = f"{module}.{name}".replace("__builtin__.", "builtins.").replace("numpy._core.", "numpy.core.")
        if path not in _ADMITTED:
            raise pickle.UnpicklingError(f"it wants to use {path}")
        return _ADMITTED[path]
