"""labels.csv and labels.json: exact, whatever the names are."""

import csv
import json
import os
from dataclasses import replace
from io import StringIO

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_up_labelling import every_finding, made_up_labelling
from remp.labelling.outcome import STATUSES, Labelling
from remp.labelling.output.tables import COLUMNS, csv_lines, json_lines, write_labels

HARD_NAMES = [
    "a, b.jpg",
    'say "x".jpg',
    "new\nline.jpg",
    "return\r.jpg",
    "=1+1.jpg",
    "猫.jpg",
    os.fsdecode(b"\xe9.jpg"),
]


def named(names, class_names=("cat", "dog")) -> Labelling:
    """A made-up labelling of items with these names."""
    made_up = made_up_labelling(class_names, len(names), n_given=1)
    return replace(made_up, task=replace(made_up.task, names=tuple(names)))


def labels_csv(labelling: Labelling) -> str:
    return "".join(csv_lines(labelling))


def labels_json(labelling: Labelling) -> str:
    return "".join(json_lines(labelling))


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(text, newline="")))


def test_a_line_has_the_label_and_how_sure_it_is():
    labelling = made_up_labelling(("cat", "dog"), 40)
    for number, row in enumerate(read_csv(labels_csv(labelling))):
        status = STATUSES[labelling.status[number]]
        expected = {"uncertain": "", "unknown": "unknown"}.get(status, ("cat", "dog", "")[labelling.labels[number]])
        assert (row["file"], row["label"], row["status"]) == (str(number), expected, status)
        assert float(row["probability"]) == pytest.approx(labelling.probability[number], abs=1e-6)
        assert float(row["margin"]) == pytest.approx(labelling.margin[number], abs=1e-6)
        assert row["likeliest"] == ("cat", "dog")[labelling.best[number]]
        assert row["runner-up"] == ("cat", "dog")[labelling.runner_up[number]]


def test_with_one_class_there_is_no_runner_up():
    assert {row["runner-up"] for row in read_csv(labels_csv(made_up_labelling(("cat",), 9)))} == {""}


def test_hard_names_come_back_from_both_files(tmp_path):
    write_labels(named(HARD_NAMES), tmp_path)
    with (tmp_path / "labels.csv").open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        assert [row["file"] for row in csv.DictReader(file)] == HARD_NAMES
    items = json.loads((tmp_path / "labels.json").read_text(encoding="utf-8"))["items"]
    assert [item["file"] for item in items] == HARD_NAMES


def test_a_name_that_is_not_utf8_is_in_the_csv_file_byte_for_byte(tmp_path):
    write_labels(named([os.fsdecode(b"caf\xe9.jpg"), "b.jpg"]), tmp_path)
    assert b"\ncaf\xe9.jpg," in (tmp_path / "labels.csv").read_bytes()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1), min_size=3))
def test_any_text_comes_back_from_the_csv_file(names):
    assert [row["file"] for row in read_csv(labels_csv(named(names)))] == names


def test_pandas_reads_the_csv_file():
    table = pandas.read_csv(StringIO(labels_csv(named(HARD_NAMES[:-1])), newline=""), keep_default_na=False)
    assert tuple(table.columns) == COLUMNS
    assert list(table["file"]) == HARD_NAMES[:-1]


def test_json_has_the_same_items_and_all_else():
    labelling = made_up_labelling(("cat", "dog"), 30, findings=every_finding())
    saved = json.loads(labels_json(labelling))
    for item, row in zip(saved["items"], read_csv(labels_csv(labelling)), strict=True):
        assert {name: "" if value is None else str(value) for name, value in item.items()} == row
    assert saved["classes"][0]["label"] == "cat"
    assert [entry["examples"] for entry in saved["classes"]] == [2, 2]
    assert saved["findings"][1]["files"] == ["1", "2"]
    assert saved["label_next"][0] == {"file": "4", "reason": "between two classes"}
    assert saved["estimate"]["accuracy"] == 0.873


def test_of_no_labels_no_share_is_right():
    table = json.loads(labels_json(made_up_labelling(("cat", "dog"), 30, reject=1.0)))["reject"]
    assert table[-1] == {"threshold": 1.0, "n": 0, "right": None}
    assert table[0]["right"] > 0


def test_json_has_no_number_that_json_does_not_know():
    labelling = made_up_labelling(("cat",), 5, probability=np.full(5, np.nan), estimate=None)
    saved = json.loads(labels_json(labelling), parse_constant=pytest.fail)
    assert (saved["items"][0]["probability"], saved["estimate"]) == (None, None)


def test_settings_that_are_numbers_of_numpy_are_in_json():
    options = {"reject": np.float32(0.5), "propagation": {"layers": np.int64(2), "balanced": np.bool_(True)}}
    labelling = made_up_labelling(("cat", "dog"), 9, reject=np.float32(0.5), made_with=options)
    assert json.loads(labels_json(labelling))["made_with"] == options


def test_what_was_skipped_is_in_json(tmp_path):
    labelling = made_up_labelling(("cat", "dog"), 9)
    labelling = replace(labelling, task=replace(labelling.task, skipped=(("x.jpg", "damaged"),)))
    assert json.loads(labels_json(labelling))["skipped"] == [{"file": "x.jpg", "reason": "damaged"}]


def test_a_large_labelling_is_a_parquet_dataset_too(tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("remp.labelling.output.tables.LARGE", 3)
    labelling = named(HARD_NAMES)
    write_labels(labelling, tmp_path)
    table = parquet.read_table(tmp_path / "labels-parquet").to_pandas()
    assert len(list((tmp_path / "labels-parquet").iterdir())) == 3
    for got, record in zip(table.to_dict("records"), labelling.records(), strict=True):
        assert got.pop("file").encode() == record.pop("file").encode("utf-8", "backslashreplace")
        for column in ("probability", "margin"):
            assert got.pop(column) == pytest.approx(record.pop(column), abs=1e-5)
        assert {name: None if value != value else value for name, value in got.items()} == record


def test_without_pyarrow_a_large_labelling_has_the_other_files(tmp_path, monkeypatch):
    monkeypatch.setattr("remp.labelling.output.tables.LARGE", 3)
    monkeypatch.setattr("remp.labelling.output.tables.find_spec", lambda name: None)
    write_labels(named(HARD_NAMES), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["labels.csv", "labels.json"]
