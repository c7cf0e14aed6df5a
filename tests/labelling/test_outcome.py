"""The outcome of a labelling as records and as a table."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from made_up_labelling import made_up_labelling
from remp.errors import ConfigError
from remp.labelling.outcome import STATUSES, AccuracyEstimate


def four_items():
    """One item of each status, of the classes cat and dog."""
    made_up = made_up_labelling(("cat", "dog"), 4, n_given=1)
    return replace(
        made_up,
        task=replace(made_up.task, names=("a", "b", "c", "d"), labels=np.array([1, -1, -1, -1])),
        labels=np.array([1, 0, -1, -1]),
        best=np.array([1, 0, 1, 0]),
        runner_up=np.array([0, 1, 0, -1]),
        probability=np.array([1.0, 0.9, 0.51, np.nan]),
        margin=np.array([1.0, 0.8, 0.02, 0.3]),
        status=np.arange(4),
    )


def test_a_record_names_the_classes_and_never_one_for_minus_one():
    given, labelled, uncertain, unknown = four_items().records()
    assert [record["status"] for record in (given, labelled, uncertain, unknown)] == list(STATUSES)
    assert (given["label"], given["probability"]) == ("dog", 1.0)
    assert (labelled["label"], labelled["runner-up"], labelled["margin"]) == ("cat", "dog", 0.8)
    assert (uncertain["label"], uncertain["likeliest"]) == (None, "dog")
    assert (unknown["label"], unknown["runner-up"], unknown["probability"]) == ("unknown", None, None)


def test_one_line_tells_the_estimate_only_if_there_is_one():
    estimate = AccuracyEstimate(0.93, 0.6, 1.0, 0.9, "other tasks")
    assert ", right by estimate 93.0%>" in repr(replace(four_items(), estimate=estimate, folder=None))
    assert "right" not in repr(replace(four_items(), estimate=None, folder=None))


def test_the_table_has_a_row_for_each_item():
    table = four_items().to_pandas()
    assert table["file"].tolist() == ["a", "b", "c", "d"]
    assert table.loc[table.status == "labelled", "label"].tolist() == ["cat"]


def test_without_pandas_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match="to_pandas needs pandas, which is not installed: pip install pandas"):
        four_items().to_pandas()
