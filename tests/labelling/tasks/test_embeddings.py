"""One's own embeddings: arrays and Parquet files, with labels in them or beside them."""

import pickle
import sys
import zipfile

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from bounds import bounded, measured
from remp.errors import DataError
from remp.labelling.tasks import Items
from remp.labelling.tasks.embeddings import embedding_task

VALUES = np.arange(15, dtype=np.float32).reshape(5, 3)


@pytest.fixture
def array(tmp_path):
    np.save(tmp_path / "X.npy", VALUES)
    return tmp_path / "X.npy"


def read(embeddings, labels: str | None = None):
    """Task and values, with a file y.csv of this content."""
    if labels is None:
        task, rows = embedding_task(embeddings, None)
    else:
        file = embeddings.with_name("y.csv")
        file.write_text(labels)
        task, rows = embedding_task(embeddings, file)
    return task, rows.take(range(len(rows))).numpy()


def classes(task: Items) -> list[str | None]:
    return [task.class_names[label] if label >= 0 else None for label in task.labels]


@pytest.mark.parametrize(
    "labels",
    [
        "cat\n\ndog\n-1\ncat\n",
        "label\ncat\n\ndog\n\ncat\n",
        "row,label\n0,cat\n4,cat\n2,dog\n3,\n1,-1\n",
        "class,row\ncat,0\ncat,4\ndog,2",
        ",label\n0,cat\n1,\n2,dog\n3,\n4,cat\n",
        "index,target\n0,cat\n2,dog\n4,cat\n",
    ],
    ids=["one label per line", "with a header", "rows and labels", "labels and rows", "pandas", "pandas, named"],
)
def test_labels_of_rows_come_in_two_forms(array, labels):
    task, values = read(array, labels)
    assert classes(task) == ["cat", None, "dog", None, "cat"]
    assert task.names == ("0", "1", "2", "3", "4")
    assert task.paths == ()
    np.testing.assert_array_equal(values, VALUES)


def test_an_array_is_mapped_not_read(tmp_path):
    n, dim = 1000, 50_000_000  # a sparse file of 200 GB, which takes no room on the disk
    np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float32, (n, dim))
    (tmp_path / "y.csv").write_text(f"row,label\n0,a\n{n - 1},b\n")
    task, rows = embedding_task(tmp_path / "X.npy", tmp_path / "y.csv")
    assert (len(rows), rows.dim) == (n, dim)
    assert classes(task)[-1] == "b"


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8, ">f4"])
def test_any_kind_of_number_will_do(tmp_path, dtype):
    np.save(tmp_path / "X.npy", np.asfortranarray(VALUES.astype(dtype)))
    np.testing.assert_array_equal(read(tmp_path / "X.npy", "a\nb\n\n\n\n")[1], VALUES)


def test_an_archive_with_one_array_is_read(tmp_path):
    np.savez(tmp_path / "X.npz", VALUES)
    np.testing.assert_array_equal(read(tmp_path / "X.npz", "a\nb\n\n\n\n")[1], VALUES)


class Trap:
    """What would run if it were unpickled."""

    def __reduce__(self):
        return (sys.exit, ("the pickle ran",))


def write_pickle(path):
    path.write_bytes(pickle.dumps(Trap()))


def write_objects(path):
    np.save(path, np.array([[Trap()]], dtype=object), allow_pickle=True)


def write_half(path):
    np.save(path, VALUES)
    path.write_bytes(path.read_bytes()[:-10])


@pytest.mark.parametrize("write", [write_pickle, write_objects, write_half, lambda path: path.write_bytes(b"")])
def test_a_damaged_file_or_a_pickle_is_an_error_and_runs_nothing(tmp_path, write):
    write(tmp_path / "X.npy")
    with pytest.raises(DataError, match=r"X.npy.* (is no array of numbers|cannot be read)"):
        read(tmp_path / "X.npy", "a\n")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros(5), r"got features of shape \(5,\); needed \(rows, dimensions\)"),
        (np.zeros((5, 0)), r"shape \(5, 0\)"),
        (np.zeros((0, 3)), "has no rows"),
        (np.zeros((5, 3), complex), "of type complex128; needed numbers"),
        (np.full((5, 3), "a"), "of type <U1; needed numbers"),
    ],
)
def test_what_is_no_table_of_numbers_is_an_error(tmp_path, values, message):
    np.save(tmp_path / "X.npy", values)
    with pytest.raises(DataError, match=message):
        read(tmp_path / "X.npy", "a\n")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("a\nb\n", "has 2 lines for 5 rows; needed one label per line"),
        ("row,label\n1,a\n5,b\n", "line 3: there is no row '5'; rows are 0 … 4"),
        ("row,label\nx,a\n", "there is no row 'x'"),
        ("row,label\n1,a\n1,b\n", "gives '1' two labels: 'a' in line 2 and 'b' in line 3"),
        ("rwo,label\n1,a\n", "no column 'row' .*did you mean 'rwo'"),
        (None, "has no labels: give --labels"),
        (",0\n1,a\n", r"no column 'label' .*rename the one that you mean to 'label'; there are: \(no name\), 0"),
    ],
)
def test_labels_that_do_not_fit_are_an_error(array, labels, message):
    with pytest.raises(DataError, match=message):
        read(array, labels)


def test_labels_in_an_array_are_told_how_to_become_text(array):
    np.save(array.with_name("y.npy"), np.arange(5))
    with pytest.raises(
        DataError, match=r"y\.npy is an array of NumPy.*numpy\.savetxt\('labels\.csv', labels, fmt='%s'\)"
    ):
        embedding_task(array, array.with_name("y.npy"))


def test_several_arrays_and_unknown_files_are_errors(tmp_path):
    np.savez(tmp_path / "X.npz", VALUES, VALUES)
    with pytest.raises(DataError, match=r"holds 2 arrays \(arr_0, arr_1\); needed one"):
        read(tmp_path / "X.npz", "a\n")
    with pytest.raises(DataError, match=r"none\.npy.* cannot be read .*No such file"):
        read(tmp_path / "none.npy", "a\n")


def parquet(folder, **columns):
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "X.parquet", row_group_size=2)
    return folder / "X.parquet"


@pytest.mark.parametrize("form", ["lists", "fixed", "columns"])
def test_parquet_with_labels_and_ids(tmp_path, form):
    if form == "columns":
        values = {f"d{number}": VALUES[:, number] for number in range(3)}
    elif form == "lists":
        values = {"embedding": list(VALUES)}
    else:
        values = {"vector": pyarrow.FixedSizeListArray.from_arrays(VALUES.ravel(), 3)}
    task, read_values = read(parquet(tmp_path, id=list("vwxyz"), label=["cat", None, "dog", "", "cat"], **values))
    assert classes(task) == ["cat", None, "dog", None, "cat"]
    assert task.names == ("v", "w", "x", "y", "z")
    np.testing.assert_array_equal(read_values, VALUES)


def test_names_and_labels_may_be_bytes_and_a_missing_name_is_the_number(tmp_path):
    file = parquet(tmp_path, id=[b"v", b"w", None, b"y", b"z"], label=[b"cat", None, b"dog", b"", None], d=VALUES[:, 0])
    task, _ = read(file)
    assert classes(task) == ["cat", None, "dog", None, None]
    assert task.names == ("v", "w", "2", "y", "z")


@pytest.mark.parametrize(
    ("index", "is_column"), [(None, False), ("row", False), ("photo", False), (None, True), ("row", True)]
)
def test_the_index_of_a_data_frame_is_no_dimension(tmp_path, index, is_column):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(VALUES, columns=["a", "b", "c"]).assign(label=["cat", "", "dog", "", ""])
    table = table.iloc[[3, 0, 4, 1, 2]].rename_axis(index)
    (table.reset_index() if is_column else table).to_parquet(tmp_path / "X.parquet")
    task, read_values = read(tmp_path / "X.parquet")
    assert classes(task) == [None, "cat", None, None, "dog"]
    np.testing.assert_array_equal(read_values, VALUES[[3, 0, 4, 1, 2]])


@pytest.mark.parametrize("said", [b"{", b"[]", b'{"index_columns": 3}', b'{"index_columns": [{}, "a"]}'])
def test_strange_words_about_an_index_do_no_harm(tmp_path, said):
    table = pyarrow.table({"a": VALUES[:, 0], "b": VALUES[:, 1], "label": ["cat", "", "dog", "", ""]})
    pyarrow.parquet.write_table(table.replace_schema_metadata({b"pandas": said}), tmp_path / "X.parquet")
    _, read_values = read(tmp_path / "X.parquet")
    np.testing.assert_array_equal(read_values, VALUES[:, 1:2] if b'"a"' in said else VALUES[:, :2])


@pytest.mark.parametrize("labels", [[7, None, 8, -1, 7], [7.0, float("nan"), 8.0, -1.0, 7.0]])
def test_numbers_are_labels_too(tmp_path, labels):
    task, _ = read(parquet(tmp_path, embedding=list(VALUES), label=labels))
    assert classes(task) == ["7", None, "8", None, "7"]
    assert task.names == ("0", "1", "2", "3", "4")


def test_labels_beside_a_parquet_file_go_by_its_ids(tmp_path):
    file = parquet(tmp_path, file=list("vwxyz"), embedding=list(VALUES), pixels=[[1]] * 5)
    task, _ = read(file, "file,label\nw,cat\nz,dog\nelsewhere,dog\n")
    assert classes(task) == [None, "cat", None, None, "dog"]
    assert task.skipped == (("elsewhere", "listed in y.csv, but not in the embeddings"),)


@pytest.mark.parametrize(
    ("columns", "labels", "message"),
    [
        ({"a": [[1.0]], "b": [[1.0]]}, "x\n", "has the columns a, b; needed one of lists named 'embedding'"),
        ({"a": ["text"]}, "x\n", "has the columns a; needed one"),
        ({"embedding": [[1.0]]}, None, "has no labels"),
        ({"id": ["x", "x"], "a": [1.0, 2.0]}, "id,label\nx,cat\n", "rows 0 and 1 have the same id 'x'"),
    ],
)
def test_a_parquet_file_that_cannot_be_understood_is_an_error(tmp_path, columns, labels, message):
    with pytest.raises(DataError, match=message):
        read(parquet(tmp_path, **columns), labels)


def test_the_target_of_a_wide_parquet_file_is_no_dimension(tmp_path):
    path = parquet(tmp_path, x=[1.0, 2.0], y=[3.0, 4.0], target=[7, -1])
    task, rows = embedding_task(path, None)
    assert (classes(task), rows.dim) == (["7", None], 2)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    file = parquet(tmp_path, embedding=list(VALUES))
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(DataError, match="pip install pyarrow"):
        read(file, "a\n")


def test_a_file_that_only_ends_in_parquet_is_an_error(tmp_path):
    (tmp_path / "X.parquet").write_bytes(b"PAR1 no PAR1")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        read(tmp_path / "X.parquet", "a\n")


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_a_flipped_byte_in_an_npz_is_told_wherever_it_is(tmp_path, write):
    path = tmp_path / "X.npz"
    write(path, np.random.default_rng(0).normal(size=(20, 3)))
    whole = path.read_bytes()
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        outcome = measured(lambda: shape_of(path, csv_of(tmp_path, "row,label\n0,a\n1,b\n")))
        assert outcome[:2] == ("result", "(20, 3)") or (outcome[0] == "DataError" and "X.npz" in outcome[1]), outcome


def shape_of(path, labels):
    """(n, dim) of all rows, after they were read."""
    task, rows = embedding_task(path, labels)
    assert len(task.names) == len(rows)
    return tuple(rows.take(range(len(rows))).shape)


def csv_of(folder, content):
    (folder / "y.csv").write_text(content)
    return folder / "y.csv"


def test_an_array_whose_header_lies_takes_no_memory(tmp_path, array):
    content = array.read_bytes().replace(b"(5, 3), }" + b" " * 14, b"(50000000000, 3), }    ")
    array.write_bytes(content)
    assert bounded(lambda: embedding_task(array, None), mebibytes=64).kind == "DataError"
    with zipfile.ZipFile(tmp_path / "X.npz", "w") as archive:
        archive.writestr("a.npy", content)
    outcome = bounded(lambda: embedding_task(tmp_path / "X.npz", None), mebibytes=64)
    assert outcome.kind == "DataError", outcome
    assert "X.npz" in outcome.text


def test_an_npz_that_unfolds_without_end_is_refused(tmp_path):
    np.savez_compressed(tmp_path / "X.npz", np.zeros((2**16, 600), np.float32))
    with pytest.raises(DataError, match=r"X\.npz unpacks to more than 50 times its size"):
        embedding_task(tmp_path / "X.npz", None)


@pytest.mark.parametrize(
    "values", [np.zeros(3), np.zeros((3, 0)), np.array([["a"]]), np.zeros((2, 2), complex)], ids=repr
)
def test_what_is_no_table_of_numbers_names_the_file(tmp_path, values):
    np.save(tmp_path / "X.npy", values)
    with pytest.raises(DataError, match=r"X\.npy: got features of"):
        embedding_task(tmp_path / "X.npy", None)


def test_a_table_of_many_columns_or_lines_makes_a_short_message(tmp_path, array):
    with pytest.raises(DataError, match=r"y\.csv has no column 'row'") as caught:
        embedding_task(array, csv_of(tmp_path, "x," * 300_000 + "\n"))
    assert len(str(caught.value)) < 3000
    outcome = bounded(lambda: embedding_task(array, csv_of(tmp_path, "\n" * (3 * 10**6))))
    assert outcome.kind == "DataError", outcome


def damaged_parquet(path, rng):
    content = bytearray(path.read_bytes())
    for place in rng.integers(0, len(content), rng.integers(1, 4)):
        content[place] = rng.integers(256)
    return bytes(content)


def test_damaged_parquet_files_are_told_or_read(tmp_path):
    path = tmp_path / "X.parquet"
    table = pyarrow.table({"embedding": list(VALUES), "id": list("abcde"), "label": ["x", None, "y", "x", None]})
    pyarrow.parquet.write_table(table, path)
    rng, hostile = np.random.default_rng(0), tmp_path / "Y.parquet"
    for _ in range(150):
        hostile.write_bytes(damaged_parquet(path, rng))
        kind, text, _ = measured(lambda: shape_of(hostile, None))
        assert kind == "result" or (kind == "DataError" and "Y.parquet" in text), text
