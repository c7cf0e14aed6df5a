"""What others' readers raise becomes an error of remp; mistakes in remp's own code show as what they are."""

import json

import pytest

from remp.errors import CheckpointError, DataError
from remp.untrusted import border, listed, reason, shortened


@pytest.mark.parametrize(
    "error", [ValueError("a\n b"), KeyError(), MemoryError(), RecursionError("deep"), OSError(5, "x")]
)
def test_what_a_reader_raises_becomes_ours_with_its_reason(error: Exception) -> None:
    with (
        pytest.raises(DataError, match=r"x\.npz is damaged \(.+\): get it again") as caught,
        border("x.npz is damaged", "get it again"),
    ):
        raise error
    assert caught.value.__cause__ is error
    assert "\n" not in str(caught.value)


def test_the_kind_of_error_can_be_chosen() -> None:
    with pytest.raises(CheckpointError), border("x", "y", CheckpointError):
        json.loads("{")


def test_errors_of_remp_pass_as_they_are() -> None:
    with pytest.raises(CheckpointError, match=r"^mine$"), border("x", "y"):
        raise CheckpointError("mine")


def test_an_interruption_passes() -> None:
    with pytest.raises(KeyboardInterrupt), border("x", "y"):
        raise KeyboardInterrupt


@pytest.mark.parametrize("line", ["unknown_name", "().missing", "assert False", "import remp.missing"])
def test_a_mistake_in_a_line_of_remp_is_not_hidden(line: str) -> None:
    module = {"__name__": "remp.made_up", "border": border}
    exec(f"def read():\n    with border('x', 'y'):\n        {line}", module)
    with pytest.raises((NameError, AttributeError, AssertionError, ImportError)):
        module["read"]()


@pytest.mark.parametrize("line", ["unknown_name", "().missing", "assert False"])
def test_the_same_mistake_in_a_reader_of_others_becomes_ours(line: str) -> None:
    reader = {"__name__": "others.reader"}
    exec(f"def read():\n    {line}", reader)
    with pytest.raises(DataError), border("x", "y"):
        reader["read"]()


def test_long_texts_and_lists_are_shortened_for_messages() -> None:
    assert shortened("short") == "short"
    assert len(shortened("x" * 10**6)) < 200
    assert listed(["a", "b"]) == "a, b"
    assert listed([str(i) for i in range(10**6)]) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 999,990 more"
    assert len(listed(["x" * 10**6] * 10**3)) < 1000
    assert len(reason(ValueError("x" * 10**6))) < 250
