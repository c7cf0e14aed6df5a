"""Rows of arrays and of Parquet files: all in order, any part, any numbers of them."""

import pickle
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from remp.errors import DataError
from remp.rows import ArrayRows
from remp.rows.parquet import ParquetRows, check_row_count

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

from damaged_parquet import with_more_rows  # noqa: E402

VALUES = np.random.default_rng(0).normal(size=(53, 6)).astype(np.float32)


def list_column(values, kind):
    """(n, d) as a column of lists, or None in place of a row."""
    return pyarrow.array([None if row is None else list(row) for row in values], type=kind)


LISTS = {
    "lists": pyarrow.list_(pyarrow.float32()),
    "large lists": pyarrow.large_list(pyarrow.float64()),
    "lists of a fixed size": pyarrow.list_(pyarrow.float32(), 6),
}


@pytest.fixture(scope="module", params=["array", "memory map", "tensor", "strided", "columns", *LISTS])
def rows(request, tmp_path_factory):
    """The same rows, however they are kept, in pieces of 10; row groups hold 20 rows."""
    path = tmp_path_factory.mktemp("rows") / "rows"
    if request.param in LISTS:
        content = {"name": pyarrow.array(range(53)), "embedding": list_column(VALUES.tolist(), LISTS[request.param])}
        parquet.write_table(pyarrow.table(content), path, row_group_size=20)
        return ParquetRows(path, "embedding", chunk=10)
    if request.param == "columns":
        parquet.write_table(pyarrow.table({f"x{i}": VALUES[:, i] for i in range(6)}), path, row_group_size=20)
        return ParquetRows(path, [f"x{i}" for i in range(6)], chunk=10)
    if request.param == "memory map":
        np.save(path.with_suffix(".npy"), VALUES)
        return ArrayRows(np.load(path.with_suffix(".npy"), mmap_mode="r"), chunk=10)
    kinds = {"array": VALUES, "tensor": torch.from_numpy(VALUES), "strided": VALUES[::-1][::-1].T.copy().T}
    return ArrayRows(kinds[request.param], chunk=10)


def test_all_rows_come_in_order(rows):
    chunks = list(rows.chunks())
    assert (len(rows), rows.dim) == VALUES.shape
    assert all(chunk.dtype == torch.float32 and len(chunk) <= 10 for chunk in chunks)
    np.testing.assert_array_equal(torch.cat(chunks), VALUES)


@settings(max_examples=30, deadline=None)
@given(ends=st.tuples(st.integers(0, 53), st.integers(0, 53)))
def test_any_part_of_the_rows_comes(rows, ends):
    start, stop = sorted(ends)
    part = torch.cat([torch.empty(0, 6), *rows.chunks(start, stop)])
    np.testing.assert_array_equal(part, VALUES[start:stop])


@settings(max_examples=30, deadline=None)
@given(numbers=st.lists(st.integers(0, 52)))
def test_rows_of_any_numbers_come_in_the_order_of_the_numbers(rows, numbers):
    np.testing.assert_array_equal(rows.take(numbers), VALUES[np.array(numbers, dtype=int)])


def test_a_number_without_a_row_is_an_error(rows):
    with pytest.raises(IndexError):
        rows.take([2, 53])


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8, np.uint16, np.int64, bool, ">f8"])
def test_other_numbers_become_single_precision(dtype):
    values = (10 * VALUES).astype(dtype)
    (chunk,) = ArrayRows(values).chunks()
    np.testing.assert_array_equal(chunk, values.astype(np.float32))
    np.testing.assert_array_equal(ArrayRows(values).take([3, 1]), values[[3, 1]].astype(np.float32))
    for wrong in (-1, len(values)):
        with pytest.raises(IndexError, match=f"needed 0 … {len(values) - 1}"):
            ArrayRows(values).take([0, wrong])


def test_a_tensor_of_bfloat16_with_a_gradient_is_taken_too():
    values = torch.from_numpy(VALUES).bfloat16().requires_grad_()
    np.testing.assert_array_equal(ArrayRows(values).take([0]), values[:1].detach().float())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros(3), r"shape \(3,\); needed \(rows, dimensions\)"),
        (np.zeros((3, 2, 2)), r"shape \(3, 2, 2\)"),
        (np.zeros((3, 0)), "one dimension at least"),
        (np.array([["a", "b"]]), "type <U1; needed numbers"),
        (np.array([[1, None]], dtype=object), "type object; needed numbers"),
        (np.zeros((2, 2), dtype=complex), "type complex128; needed numbers"),
    ],
)
def test_what_is_no_table_of_numbers_is_refused(values, message):
    with pytest.raises(DataError, match=message):
        ArrayRows(values)


def written(tmp_path, **columns):
    parquet.write_table(pyarrow.table(columns), tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("b", "has no column 'b'; it has: vectors, texts, a"),
        ("texts", "column 'texts' .* is of type string; needed numbers"),
        (["a", "vectors"], "got 2 columns; needed one of lists, or one or more of numbers"),
        ([], "got 0 columns"),
    ],
)
def test_columns_that_are_no_features_are_refused(tmp_path, columns, message):
    path = written(tmp_path, vectors=[[1.0], [2.0]], texts=["x", "y"], a=[1, 2])
    with pytest.raises(DataError, match=message):
        ParquetRows(path, columns)


@pytest.mark.parametrize(("row", "got"), [([1.0], "1 numbers"), (None, "nothing"), ([], "0 numbers")])
def test_a_list_of_another_length_is_named(tmp_path, row, got):
    path = written(tmp_path, x=pyarrow.array([[1.0, 2.0], [3.0, 4.0], row], type=pyarrow.list_(pyarrow.float32())))
    with pytest.raises(DataError, match=f"row 2 of .* holds {got}; needed 2, as in the first"):
        list(ParquetRows(path, "x", chunk=2).chunks())


def test_a_missing_number_is_not_finite(tmp_path):
    lists = written(tmp_path, x=[[1.0, None]])
    assert ParquetRows(lists, "x").take([0])[0, 1].isnan()
    numbers = written(tmp_path, x=[1.0], y=pyarrow.array([None], type=pyarrow.int32()))
    assert ParquetRows(numbers, ["x", "y"]).take([0])[0, 1].isnan()


@pytest.mark.parametrize(("first", "got"), [([], "an empty list"), (None, "nothing")])
@pytest.mark.parametrize("others", [[[1.0, 2.0]], []])
def test_a_first_row_without_numbers_is_named(tmp_path, first, others, got):
    path = written(tmp_path, x=pyarrow.array([first, *others], pyarrow.list_(pyarrow.float32())))
    with pytest.raises(DataError, match=f"column 'x' of .* starts with {got}; needed numbers"):
        ParquetRows(path, "x")


def test_a_file_that_is_no_parquet_is_refused(tmp_path):
    (tmp_path / "x.parquet").write_text("hello")
    for name in ("x.parquet", "absent.parquet"):
        with pytest.raises(DataError, match="cannot be read as Parquet"):
            ParquetRows(tmp_path / name, "x")


def test_without_pyarrow_the_error_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(DataError, match="pip install pyarrow"):
        ParquetRows(tmp_path / "x.parquet", "x")


@pytest.mark.parametrize("kind", ["lists", "columns"])
def test_rows_that_a_parquet_file_only_claims_are_not_made_up(tmp_path, kind):
    values = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    columns = {"e": list(values)} if kind == "lists" else dict(zip("abcd", values.T, strict=True))
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "x.parquet", compression="none")
    np.testing.assert_array_equal(ParquetRows(tmp_path / "x.parquet", list(columns)).take([49]).numpy(), values[49:])
    with_more_rows(tmp_path / "x.parquet")
    with pytest.raises(DataError, match=r"x\.parquet (says it has 60 rows, but ends after 50|cannot be read)"):
        ParquetRows(tmp_path / "x.parquet", list(columns)).take([3, 55])


def test_a_number_of_rows_that_cannot_be_is_refused(tmp_path):
    pyarrow.parquet.write_table(pyarrow.table({"e": [[1.0]] * 5}), tmp_path / "x.parquet")
    for groups in ([5, -1], [2**40]):
        with pytest.raises(DataError, match=r"x\.parquet says it has -?\d+ rows in \d+ bytes"):
            check_row_count(tmp_path / "x.parquet", groups)
    check_row_count(tmp_path / "x.parquet", [5, 10**6])


def test_rows_of_thousands_of_row_groups_are_taken_in_time_that_grows_with_their_number(tmp_path):
    values = np.arange(3000, dtype=np.float32).reshape(1500, 2)
    pyarrow.parquet.write_table(
        pyarrow.table({f"x{i}": values[:, i % 2] for i in range(40)}), tmp_path / "x.parquet", row_group_size=1
    )
    rows = pickle.loads(pickle.dumps(ParquetRows(tmp_path / "x.parquet", ["x0", "x1"])))
    started = time.process_time()
    np.testing.assert_array_equal(rows.take(np.arange(1500)).numpy(), values)
    assert time.process_time() - started < 5
