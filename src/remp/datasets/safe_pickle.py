"""Pickles from strangers: arrays and plain containers come through, all else is an error and runs nothing."""

import math
import os
import pickle
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO

import numpy as np

from remp.errors import DataError
from remp.untrusted import border

# The pickles of CIFAR-100, the largest that are read whole, have 0.3 million steps; one step makes at most 216 bytes.
_MOST_STEPS = 1_000_000
_UNFOLDING = 4  # times the size of the file: bytes in an old protocol, then the array of them
_CHUNK = 2**20
_PLAIN_DTYPE = re.compile(r"[?]|[biufc][0-9]{0,2}|[SU][0-9]{1,5}")
_MOST_DIMENSIONS, _MOST_ITEMS = 32, 2**48
_LARGEST_KEY = 2**60  # larger integers can be chosen so that all fall into one place of a dict


def load_pickle(file: BinaryIO, name: str) -> Any:
    """The content of a pickle of any protocol, Python 2's too (its strings come out as bytes: see `as_text`).

    Admits numpy arrays of numbers and strings, None, bool, numbers, bytes, str, list, tuple, dict and set, the keys of
    dicts and members of sets being text or small numbers. Raises DataError, naming `name`, for anything else; takes
    seconds at most, and memory in proportion to the file.
    """
    with border(
        f"{name} is not a pickle of plain arrays, or it is damaged", "nothing in it was run. Get the file again"
    ):
        return _PlainUnpickler(_Bounded(file)).load()


def as_text(value: Any) -> Any:
    """`value` with bytes turned into str, also in the keys of a dict and in a list, one level deep."""
    if isinstance(value, dict):
        return {_text(key): item for key, item in value.items()}
    return [_text(item) for item in value] if isinstance(value, list) else _text(value)


class _Bounded:
    """A file that refuses a read beyond its end before any memory is set aside for it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = self._left = file.seek(0, os.SEEK_END)
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


class _Steps:
    """The table of what each step of a pickle does, which counts how many are looked up."""

    def __init__(self, table: Mapping[int, Callable[[Any], None]]) -> None:
        self._table, self._left = table, _MOST_STEPS

    def __getitem__(self, code: int) -> Callable[[Any], None]:
        self._left -= 1
        if self._left < 0:
            raise pickle.UnpicklingError(f"it has more than {_MOST_STEPS} steps")
        return self._table[code]


# The pure-Python unpickler, each of whose steps can be replaced. An allow-list in `find_class` of the one in C, forty
# lines, would stop foreign code, but not a small file that takes gigabytes or hours: the one in C takes memory for any
# memo number it reads, and keys that take for ever to hash, indices of arrays and the number of steps go unchecked.
_Unpickler: Any = vars(pickle)["_Unpickler"]


class _PlainUnpickler(_Unpickler):
    def __init__(self, file: _Bounded) -> None:
        super().__init__(file, encoding="bytes")
        self._factory = Factory(_UNFOLDING * file.size + _CHUNK)
        self.dispatch = _Steps(self._STEPS)

    def find_class(self, module: str, name: str) -> Any:
        # Python 2 says __builtin__, numpy 2 says numpy._core
        path = f"{module}.{name}".replace("__builtin__.", "builtins.").replace("numpy._core.", "numpy.core.")
        if path not in self._factory.admitted:
            raise pickle.UnpicklingError(f"it wants to use {path}")
        return self._factory.admitted[path]

    def _call(self) -> None:
        arguments, function = self.stack.pop(), self.stack[-1]
        if not isinstance(function, Maker) or not isinstance(arguments, tuple):
            raise pickle.UnpicklingError(f"it calls a {type(function).__name__}")
        self.stack[-1] = function.make(*arguments)

    def _instantiate(self, function: Any, arguments: list[Any]) -> None:
        self.stack += [function, tuple(arguments)]
        self._call()

    def _fill(self) -> None:
        state, made = self.stack.pop(), self.stack[-1]
        if isinstance(made, Array):
            self._factory.fill(made, state)
        elif isinstance(made, Dtype):
            made.take_state(state)
        else:
            raise pickle.UnpicklingError(f"it tries to change a {type(made).__name__}")

    def _append(self) -> None:
        item = self.stack.pop()
        self._top(list).append(item)

    def _append_all(self) -> None:
        items = self.pop_mark()
        self._top(list).extend(items)

    def _add_to_set(self) -> None:
        items = self.pop_mark()
        _check_keys(items)
        self._top(set).update(items)

    def _top(self, *kinds: type) -> Any:
        """What is on the stack, to be changed: numpy's arrays take time and memory without end for some indices."""
        if type(self.stack[-1]) not in kinds:
            raise pickle.UnpicklingError(f"it uses a {type(self.stack[-1]).__name__} as a {kinds[0].__name__}")
        return self.stack[-1]

    def _set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._set([key, value])

    def _set_all(self) -> None:
        self._set(self.pop_mark())

    def _set(self, items: list[Any]) -> None:
        _check_keys(items[::2])
        self._top(dict, OrderedDict).update(zip(items[::2], items[1::2], strict=True))

    def _make_dict(self) -> None:
        items = self.pop_mark()
        self.append({})
        self._set(items)

    def _make_frozenset(self) -> None:
        items = self.pop_mark()
        _check_keys(items)
        self.append(frozenset(items))

    def _read_bytearray(self) -> None:
        self.append(bytearray(self.read(int.from_bytes(self.read(8), "little"))))

    def _refuse(self) -> None:
        raise pickle.UnpicklingError("it makes an object of a class")

    _STEPS: Mapping[int, Callable[[Any], None]] = {
        **_Unpickler.dispatch,
        pickle.REDUCE[0]: _call,
        pickle.BUILD[0]: _fill,
        pickle.APPEND[0]: _append,
        pickle.APPENDS[0]: _append_all,
        pickle.ADDITEMS[0]: _add_to_set,
        pickle.SETITEM[0]: _set_item,
        pickle.SETITEMS[0]: _set_all,
        pickle.DICT[0]: _make_dict,
        pickle.FROZENSET[0]: _make_frozenset,
        pickle.BYTEARRAY8[0]: _read_bytearray,
        pickle.NEWOBJ[0]: _refuse,
        pickle.NEWOBJ_EX[0]: _refuse,
        pickle.READONLY_BUFFER[0]: lambda self: None,
    }


def _text(value: Any) -> Any:
    """Bytes as str; all else as it is."""
    return value.decode("latin1") if isinstance(value, bytes) else value


def _check_keys(keys: Iterable[Any]) -> None:
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
        self._code, self._byte_order = _text(code), "|"

    def take_state(self, state: Any) -> None:
        self._byte_order = _text(state[1])

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
            "builtins.set": Maker(lambda items=(): set(_members(items))),
            "builtins.frozenset": Maker(lambda items=(): frozenset(_members(items))),
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
        if _text(encoding) != "latin1" or not isinstance(content, str):
            raise pickle.UnpicklingError("bytes in another encoding than latin1")
        return self._bytes(content)

    def _scalar(self, dtype: Dtype, data: bytes | str) -> Any:
        content = self._bytes(data)
        _check_size((), _real(dtype), content)
        return np.frombuffer(content, _real(dtype))[0]

    def _array_from_buffer(self, data: Any, dtype: Dtype, shape: tuple[int, ...], order: Any) -> Array:
        array = _empty_array(_NDARRAY)
        self.fill(array, (1, shape, dtype, _text(order) == "F", data))
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


def _members(items: Any) -> Any:
    _check_keys(_list(items))
    return items


def _make_ordered(pairs: Any = ()) -> OrderedDict[Any, Any]:
    _check_keys(_list(pair)[0] for pair in _list(pairs))
    return OrderedDict(pairs)


def _list(items: Any) -> list[Any] | tuple[Any, ...]:
    if not isinstance(items, list | tuple):
        raise pickle.UnpicklingError(f"a {type(items).__name__} in place of a list")
    return items


_LARGEST, _MOST_NAMES = 2**62, 100_000


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
    if isinstance(value, np.ndarray):  # millions of names would be far larger as a list
        value = value.tolist() if value.size <= _MOST_NAMES else None
    value = as_text(value)
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
