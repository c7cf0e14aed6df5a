"""Rows of a Parquet dataset of many files."""

import numpy as np
import pytest
import torch

from remp import ReMPClassifier
from remp.engine import Threads
from remp.engine.dataset import open_dataset
from remp.errors import DataError
from remp.rectification.propagate import propagate
from remp.rows import ArrayRows
from remp.rows.dataset import parquet_dataset
from remp.system.files import place

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

RANDOM = np.random.default_rng(0)
TRUTH = np.arange(90) % 3
VALUES = (3 * RANDOM.normal(size=(3, 6))[TRUTH] + RANDOM.normal(size=(90, 6))).astype(np.float32)
LABELS = np.where(np.arange(90) < 9, TRUTH, -1)


def write(folder, *ends):
    """The values in files of a folder, and files beside them that are no rows."""
    folder.mkdir()
    for number, part in enumerate(np.split(VALUES, ends)):
        parquet.write_table(pyarrow.table({"embedding": part.tolist()}), folder / f"part-{number:03d}.parquet")
    (folder / "_skipped.csv").write_text("name,reason\n")
    (folder / "_old.parquet").write_text("no rows")
    return folder


def test_a_dataset_has_the_rows_of_its_files_in_order(tmp_path):
    rows = parquet_dataset(write(tmp_path / "d", 10, 40))
    np.testing.assert_array_equal(torch.cat(list(rows.chunks())), VALUES)


def test_propagate_and_the_classifier_take_a_dataset(tmp_path):
    rows = parquet_dataset(write(tmp_path / "d", 10, 40))
    whole = propagate(ArrayRows(VALUES), LABELS, 3)
    torch.testing.assert_close(propagate(rows, LABELS, 3).prototypes, whole.prototypes, rtol=1e-5, atol=1e-5)
    ours, theirs = ReMPClassifier().fit(rows, LABELS), ReMPClassifier().fit(VALUES, LABELS)
    np.testing.assert_allclose(ours.label_distributions_, theirs.label_distributions_, atol=1e-4)
    np.testing.assert_array_equal(ours.predict(rows), theirs.predict(VALUES))
    assert ours.n_features_in_ == 6
    with pytest.raises(ValueError, match="X has 2 features"):
        ours.predict(ArrayRows(np.zeros((3, 2))))


def test_a_file_whose_rows_are_of_another_length_is_named(tmp_path):
    folder = write(tmp_path / "d", 10, 40)
    parquet.write_table(pyarrow.table({"embedding": [[1.0, 2.0]]}), folder / "part-001.parquet")
    message = r"d/part-001\.parquet has rows of 2 numbers, .*d/part-000\.parquet of 6; needed the same"
    with pytest.raises(DataError, match=message):
        parquet_dataset(folder)
    with pytest.raises(DataError, match=message):
        open_dataset(place(folder), Threads())


def test_a_folder_without_parquet_files_is_refused(tmp_path):
    with pytest.raises(DataError, match="holds no Parquet files"):
        parquet_dataset(tmp_path)
