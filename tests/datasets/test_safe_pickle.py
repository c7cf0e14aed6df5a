"""Pickles that are plain come through unchanged; all others are refused and run nothing."""

import io
import os
import pickle
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

from bounds import bounded
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
    with pytest.raises(DataError, match=r"file\.pkl.*nothing in it was run"):
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
    with pytest.raises(DataError, match="change a Maker"):
        load(b"c_codecs\nencode\n}(U\x01xK\x01ub.")
    assert load(pickle.dumps(b"abc", 2)) == b"abc"


@pytest.mark.parametrize("content", [b"", b"hello", b"\x80\x02", PYTHON_2_ARRAY[:-9]])
def test_damaged_pickles_are_told(content: bytes) -> None:
    with pytest.raises(DataError, match=r"file\.pkl is not a pickle"):
        load(content)


def nested(depth: int) -> bytes:
    """A tuple that holds a tuple twice, and so on: small in memory, 2^depth to walk through."""
    return b"\x80\x02)" + b"q\x00h\x00\x86" * depth


BOMBS = {
    "a key": b"\x80\x02}" + nested(60)[2:] + b"K\x01s.",
    "keys": b"\x80\x02}(" + nested(60)[2:] + b"K\x01u.",
    "keys of the old kind": b"(" + nested(60)[2:] + b"K\x01d.",
    "a member": b"\x80\x04\x8f(" + nested(60)[2:] + b"\x90.",
    "a frozen member": b"\x80\x04(" + nested(60)[2:] + b"\x91.",
    "a made set": b"\x80\x02cbuiltins\nset\n](" + nested(60)[2:] + b"e\x85R.",
    "a made dict": b"\x80\x02ccollections\nOrderedDict\n](" + nested(60)[2:] + b"K\x01\x86e\x85R.",
    "an index of an array": PYTHON_2_ARRAY[:-1] + b"]" + b"q\x01](h\x01h\x01e" * 40 + b"K\x01s.",
    "a type's name": b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n" + nested(40)[2:] + b"K\x00\x85U\x01b\x87R.",
    "a shape of lists": PYTHON_2_ARRAY.replace(b"K\x02K\x03\x86", b"J\xff\xff\xff\x7f]K\x00a\x86"),
    "a shape of large numbers": b"\x80\x02\x8b\x40\x42\x0f\x00"
    + b"\x7f" * 10**6
    + b"q\x05("
    + b"h\x05" * 30
    + b"tq\x060"
    + PYTHON_2_ARRAY[2:].replace(b"K\x02K\x03\x86", b"h\x06"),
    "keys that fall into one place": b"\x80\x02}("
    + b"".join(b"\x8a\x0a" + (i * (2**61 - 1)).to_bytes(10, "little") + b"N" for i in range(10**5))
    + b"u.",
    "many sets": b"\x80\x04(" + b"\x8f" * (2 * 10**6) + b"l.",
    "many numbers in the memo": b"\x80\x04N" + b"\x94" * (2 * 10**6) + b".",
    "a text encoded often": b"\x80\x02(c_codecs\nencode\nq\x00X\x00\x00\x10\x00"
    + b"a" * 2**20
    + b"U\x06latin1\x86q\x01"
    + b"h\x00h\x01R" * 10**4
    + b"l.",
    "an array made often": b"\x80\x02]("
    + PYTHON_2_ARRAY[2:-1]
    .replace(b"K\x02K\x03\x86", b"J\x00\x00\x10\x00\x85")
    .replace(b"U\x06abcdef", b"T\x00\x00\x10\x00" + bytes(2**20) + b"q\x07")
    + PYTHON_2_ARRAY[2:-1].replace(b"K\x02K\x03\x86", b"J\x00\x00\x10\x00\x85").replace(b"U\x06abcdef", b"h\x07") * 1000
    + b"e.",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_pickle_neither_hangs_nor_takes_gigabytes(name: str) -> None:
    outcome = bounded(lambda: load(BOMBS[name]))
    assert outcome.kind == "DataError", outcome
    assert "file.pkl is not a pickle of plain arrays" in outcome.text
    assert len(outcome.text) < 500


@pytest.mark.parametrize(
    "content",
    [b"\x80\x02]q\x00" + b"](h\x00h\x00eq\x00" * 24 + b".", b"\x80\x02]q\x00h\x00a."],
    ids=["that holds itself twice, 24 times", "that holds itself"],
)
def test_a_list_that_holds_itself_costs_nothing(content: bytes) -> None:
    assert bounded(lambda: as_text(load(content)), seconds=5, mebibytes=64).is_promised


def test_the_good_and_the_hostile_differ_only_in_what_they_hold() -> None:
    """The bombs above are refused for what they are, not for how they are written."""
    assert load(b"\x80\x02}(K\x05K\x01u.") == {5: 1}
    assert load(b"\x80\x04\x8f(K\x05K\x06\x90.") == {5, 6}
    assert load(b"\x80\x02ccollections\nOrderedDict\n](K\x05K\x01\x86e\x85R.") == {5: 1}
    assert load(b"(K\x05K\x01d.") == {5: 1}
    assert len(load(b"\x80\x04(" + b"\x8f" * 10**5 + b"l.")) == 10**5
