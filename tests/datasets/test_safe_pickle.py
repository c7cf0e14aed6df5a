"""Pickles that are plain come through unchanged; all others are refused and run nothing."""

import io
import os
import pickle
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

from remp.datasets.safe_pickle import as_text, load_pickle
from remp.errors import DataError

# What Python 2 with numpy 1 writes for an array of six bytes, opcode by opcode.
PYTHON_2_ARRAY = (
    b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    b"(K\x01K\x02K\x03\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    b"\x89U\x06abcdeftb."
)


def load(content: bytes) -> object:
    return load_pickle(io.BytesIO(content), "file.pkl")


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("dtype", ["u1", "<i8", ">f4", "?", "S3", "<U4"])
def test_arrays_of_every_protocol_come_back_equal(protocol: int, dtype: str) -> None:
    array = np.arange(12).reshape(3, 4).astype(dtype)
    loaded = load(pickle.dumps({"a": [array, np.asfortranarray(array)]}, protocol))
    for copy in loaded["a"]:
        assert copy.dtype.newbyteorder("=") == array.dtype.newbyteorder("=")
        np.testing.assert_array_equal(copy, array)


@pytest.mark.parametrize("protocol", range(6))
def test_plain_containers_and_scalars_come_back_equal(protocol: int) -> None:
    content = [1, 2.5, None, True, "ä", b"\xff", (1, [2]), {3: {"x"}}, np.float32(1.5), np.int64(-3), OrderedDict(a=1)]
    assert load(pickle.dumps(content, protocol)) == content


def test_arrays_of_python_2_and_numpy_1_come_through() -> None:
    expected = np.frombuffer(b"abcdef", np.uint8).reshape(2, 3)
    np.testing.assert_array_equal(load(PYTHON_2_ARRAY), expected)


def test_strings_of_python_2_are_bytes_that_as_text_turns_to_str() -> None:
    assert as_text(load(b"\x80\x02}U\x01a]U\x01bas.")) == {"a": [b"b"]}


class Malicious:
    def __init__(self, *call: object) -> None:
        self.call = call

    def __reduce__(self) -> tuple:
        return self.call[0], tuple(self.call[1:])


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("call", [open, os.mkdir, eval, exec])
def test_a_malicious_pickle_is_an_error_and_nothing_runs(tmp_path: Path, protocol: int, call: object) -> None:
    target = tmp_path / "made"
    argument = {open: (str(target), "w"), os.mkdir: (str(target),)}.get(call, (f"open({str(target)!r}, 'w')",))
    content = pickle.dumps([np.zeros(3), Malicious(call, *argument)], protocol)
    with pytest.raises(DataError, match=r"file\.pkl.*Nothing in it was run"):
        load(content)
    assert not target.exists()


def test_an_array_of_objects_is_refused() -> None:
    with pytest.raises(DataError, match="not of plain numbers"):
        load(pickle.dumps(np.array([{}, []], dtype=object)))


@pytest.mark.parametrize(
    "content",
    [
        b"c__builtin__\nbytearray\n(I1000000000000\ntR.",
        b"cbuiltins\nbytes\n(I1000000000000\ntR.",
        b"cnumpy\nndarray\n(I1000000000000\ntR.",
        PYTHON_2_ARRAY.replace(b"K\x02K\x03\x86", b"J\xff\xff\xff\x7fJ\xff\xff\xff\x7f\x86"),
        PYTHON_2_ARRAY.replace(b"U\x06abcdef", b"K\x06"),
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\x00\x00\x00.",
        b"\x80\x02]r\xff\xff\xff\xff" + b"a" * 3,
    ],
    ids=["bytearray", "bytes", "ndarray", "shape", "data", "length", "memo"],
)
def test_absurd_sizes_are_refused_before_memory_is_taken(content: bytes) -> None:
    with pytest.raises(DataError):
        load(content)


def test_a_pickle_cannot_change_what_it_may_call() -> None:
    with pytest.raises(DataError, match="change a function"):
        load(b"c_codecs\nencode\n}(U\x01xK\x01ub.")
    assert load(pickle.dumps(b"abc", 2)) == b"abc"


@pytest.mark.parametrize("content", [b"", b"hello", b"\x80\x02", PYTHON_2_ARRAY[:-9]])
def test_damaged_pickles_are_told(content: bytes) -> None:
    with pytest.raises(DataError, match=r"file\.pkl is not a pickle"):
        load(content)
