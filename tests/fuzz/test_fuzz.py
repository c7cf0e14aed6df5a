"""A few damaged files for every reader in each run of the tests; `make fuzz` tries thousands."""

import io
import pickle
import string
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from bounds import bounded, measured
from fuzz.mutation import _VALUES
from fuzz.readers import MISSING, READERS
from fuzz.trial import Fuzzer, Trial
from raw_data import write_tar, write_zip
from remp.checkpoint import load_trained, write_checkpoint
from remp.config import make_config
from remp.datasets.archives import open_members
from remp.datasets.safe_pickle import as_text, load_pickle
from remp.errors import DataError, RempError
from remp.labelling.tasks.label_table import ID_COLUMNS, read_label_table
from remp.trained import build_method

INPUTS = 12
few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


installed = [
    pytest.param(reader, marks=pytest.mark.skipif(reader in MISSING, reason=MISSING.get(reader, "")))
    for reader in READERS
]


@pytest.mark.parametrize("reader", installed)
@pytest.mark.filterwarnings("ignore")
def test_damaged_files_are_read_right_or_refused_in_bounds(reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMP_HOME", "")  # which the fuzzer sets, and the test sets back

    def findings() -> tuple[Trial, ...]:
        fuzzer = Fuzzer(reader)
        trials = [fuzzer.run(number) for number in range(INPUTS)]
        fuzzer.close()
        return tuple(trial for trial in trials if trial.is_finding)

    outcome = bounded(findings, seconds=60, mebibytes=1024)
    assert (outcome.kind, outcome.text) == ("result", "()")


@pytest.mark.parametrize("reader", installed)
@pytest.mark.filterwarnings("ignore")
def test_the_good_files_are_read(reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMP_HOME", str(tmp_path / "home"))
    (tmp_path / "good").mkdir()

    def read() -> None:
        READERS[reader].write(tmp_path / "good")
        READERS[reader].read(tmp_path / "good")

    outcome = bounded(read, seconds=60)
    assert outcome.kind == "result", outcome


@pytest.mark.parametrize(
    ("broken", "is_finding"),
    [
        (("result", "", 1.0, 1.0), False),
        (("DataError", "/tmp/remp-fuzz-1/bad/x is damaged", 1.0, 1.0), False),
        (("DataError", "something is damaged", 1.0, 1.0), True),
        (("foreign", "KeyError", 1.0, 1.0), True),
        (("result", "", 11.0, 1.0), True),
        (("result", "", 1.0, 513.0), True),
    ],
)
def test_a_broken_promise_is_a_finding(broken: tuple[str, str, float, float], is_finding: bool) -> None:
    assert Trial("pickles", 0, *broken).is_finding == is_finding


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.binary(), inner),
    max_leaves=20,
)


@few
@given(plain, st.integers(0, 5))
def test_every_plain_value_comes_through_a_pickle(value: Any, protocol: int) -> None:
    assert load_pickle(io.BytesIO(pickle.dumps(value, protocol)), "x.pkl") == value


STEPS = [
    bytes([code])
    for code in b"(.012FIKLMNSTUVXabcdeghijlopqrstu})]\x80\x81\x85\x86\x87\x88\x89\x8a\x8f\x90\x91\x94\x95"
] + [
    b"K\x01",
    b"U\x01a",
    b"q\x00",
    b"h\x00",
    b"cbuiltins\nset\n",
    b"cnumpy\ndtype\n",
    b"c_codecs\nencode\n",
    b"\x80\x02",
]


@few
@given(st.lists(st.sampled_from(STEPS), max_size=60).map(b"".join))
def test_any_steps_of_a_pickle_give_a_value_or_our_error(content: bytes) -> None:
    kind, text, _ = measured(lambda: as_text(load_pickle(io.BytesIO(content + b"."), "x.pkl")))
    assert kind == "result" or (kind == "DataError" and text.startswith("x.pkl is not a pickle")), text


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40) | st.sampled_from(
    ["../x", "/x", "a/../../x", "C:\\x", "a\nb", "\x1b[2J", "con", "a" * 300, "ä/ß.png", ".", "a//b", "a\0b"]
)


@few
@example({"\0": b""}, True)
@given(st.dictionaries(names, st.binary(max_size=50), min_size=1, max_size=4), st.booleans())
@pytest.mark.filterwarnings("ignore")
def test_members_of_any_name_are_read_as_they_are_or_refused(
    tmp_path: Path, members: dict[str, bytes], is_tar: bool
) -> None:
    path = tmp_path / "archive"
    assume(is_tar or all(name[0] != "\0" for name in members))  # which zipfile itself does not write
    (write_tar if is_tar else write_zip)(path, members)
    with tarfile.open(path) if is_tar else zipfile.ZipFile(path) as archive:
        inside = archive.getnames() if is_tar else archive.namelist()  # as the archive keeps them
    try:
        opened = open_members(path)
    except DataError as error:
        assert str(path) in str(error)  # noqa: PT017 (either way is right)
        return
    for name in opened.names():
        assert name in inside
        assert name not in members or opened.read(name) == members[name]


cells = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), max_size=12)


@few
@given(st.lists(st.tuples(cells.filter(lambda cell: bool(cell)), cells), min_size=1, max_size=8))
def test_labels_come_out_of_a_table_as_they_were_written(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    quoted = [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in [("file", "label"), *rows]]
    (tmp_path / "y.csv").write_text("\n".join(quoted), encoding="utf-8", newline="")
    read = [(row.key, row.label) for row in read_label_table(tmp_path / "y.csv", ID_COLUMNS)]
    assert read == [(key, label.strip() or None) for key, label in rows]


@few
@given(
    st.sampled_from(["config", "n_classes", "image_size", "mean", "std", "format", "class_names"]),
    st.sampled_from(_VALUES) | st.lists(st.integers(-3, 40), max_size=4) | st.text(string.printable, max_size=9),
)
def test_a_checkpoint_with_any_header_loads_as_it_was_or_is_refused(tmp_path: Path, key: str, value: Any) -> None:
    config, path = make_config({"data": "toy", "width": 4}), tmp_path / "model.safetensors"
    info = {"config": config.flat(), "n_classes": 3, "image_size": [16, 16, 3], "mean": [0.5] * 3, "std": [0.2] * 3}
    weights = {f"weights/{name}": t for name, t in build_method(config, (16, 16, 3), 3).state_dict().items()}
    write_checkpoint(path, weights, {**info, key: value})
    check_loaded(lambda: load_trained(path), path, weights)


def check_loaded(load: Callable[[], Any], path: Path, weights: dict[str, Any]) -> None:
    try:
        trained = load()
    except RempError as error:
        assert str(path) in str(error)  # noqa: PT017 (either way is right)
        return
    assert all((trained.method.state_dict()[name.removeprefix("weights/")] == t).all() for name, t in weights.items())
