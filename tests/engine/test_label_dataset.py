"""`remp label` on a Parquet dataset of embeddings: labels as from one file, damaged parts named and left out."""

import json

import numpy as np
import pytest

from embedding_cases import mean_colour_embedder
from remp.engine.embed import embed
from remp.errors import ConfigError, DataError
from remp.label_files import label
from remp.labelling.options import LabelOptions

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
Image = pytest.importorskip("PIL.Image")

RANDOM = np.random.default_rng(0)
TRUTH = np.arange(120) % 3
VALUES = (3 * RANDOM.normal(size=(3, 8))[TRUTH] + RANDOM.normal(size=(120, 8))).astype(np.float32)


def write(folder, *, labels=True, names=True, parts=6):
    """120 rows, of which the first of each part are labelled, in some parts."""
    folder.mkdir()
    for number, rows in enumerate(np.split(np.arange(120), parts)):
        columns = {"embedding": pyarrow.array(list(VALUES[rows]), pyarrow.list_(pyarrow.float32()))}
        if names:
            columns["name"] = [f"row {i}" for i in rows]
        if labels:
            columns["label"] = ["abc"[TRUTH[i]] if i % 20 < 3 else None for i in rows]
        settings = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
        parquet.write_table(pyarrow.table(columns), folder / f"{number}.parquet", **settings)
    return folder


def test_a_dataset_is_labelled_as_one_file_is(tmp_path):
    many = label(write(tmp_path / "many"), out=tmp_path / "a")
    one = label(write(tmp_path / "one", parts=1) / "0.parquet", out=tmp_path / "b")
    np.testing.assert_array_equal(many.labels, one.labels)
    np.testing.assert_allclose(many.probability, one.probability, atol=1e-4)
    assert many.task.names == one.task.names
    assert (many.labels == TRUTH).mean() > 0.9
    assert (tmp_path / "a" / "report.html").exists()


def test_labels_come_from_a_table_by_name_or_number(tmp_path):
    table = tmp_path / "labels.csv"
    table.write_text("name,label\n" + "".join(f"row {i},{'abc'[TRUTH[i]]}\n" for i in range(9)))
    named = label(write(tmp_path / "named", labels=False), labels=table, out=tmp_path / "a")
    table.write_text("row,label\n" + "".join(f"{i},{'abc'[TRUTH[i]]}\n" for i in range(9)))
    numbered = label(write(tmp_path / "numbered", labels=False, names=False), labels=table, out=tmp_path / "b")
    np.testing.assert_array_equal(named.labels, numbered.labels)
    with pytest.raises(DataError, match="says nothing of labels"):
        label(tmp_path / "named", out=tmp_path / "c")


@pytest.mark.parametrize("how", ["cut", "flipped"])
def test_a_damaged_part_is_named_and_left_out(tmp_path, how):
    part = write(tmp_path / "many") / "2.parquet"
    content = part.read_bytes()
    where = content.index(VALUES[45].tobytes())  # in the middle of the embeddings
    flipped = content[:where] + bytes([content[where] ^ 1]) + content[where + 1 :]
    part.write_bytes(content[:-9] if how == "cut" else flipped)
    done = label(tmp_path / "many", LabelOptions(unknown=False), out=tmp_path / "a")
    assert len(done.labels) == 100
    assert done.task.skipped[0][0] == "2.parquet"
    assert "row 45" not in done.task.names
    assert (done.labels == TRUTH[[i for i in range(120) if i // 20 != 2]]).mean() > 0.9
    assert json.loads((tmp_path / "a" / "labels.json").read_text())["skipped"][0]["file"] == "2.parquet"


def test_numbers_of_rows_are_refused_where_a_part_is_missing(tmp_path):
    (write(tmp_path / "many", labels=False, names=False) / "2.parquet").write_bytes(b"PAR1")
    (tmp_path / "labels.csv").write_text("row,label\n0,a\n1,b\n")
    with pytest.raises(DataError, match=r"2\.parquet cannot be read, so that the numbers"):
        label(tmp_path / "many", labels=tmp_path / "labels.csv", out=tmp_path / "a")


def test_pictures_that_were_embedded_keep_their_folders_as_classes(tmp_path, own_home):
    for number in range(30):
        name = "red" if number < 3 else "blue" if number < 6 else "unlabelled"
        (tmp_path / "photos" / name).mkdir(parents=True, exist_ok=True)
        colour = (200 + number, number, 9) if number % 2 or number < 3 else (number, 9, 200 + number)
        Image.new("RGB", (20, 20), colour if number not in (3, 5) else (number, 9, 220)).save(
            tmp_path / "photos" / name / f"{number:02d}.png"
        )
    (tmp_path / "photos" / "unlabelled" / "29.png").write_bytes(b"no picture")
    embedder = mean_colour_embedder()
    embed(tmp_path / "photos", tmp_path / "data", backbone=embedder, block=8)
    done = label(tmp_path / "data", LabelOptions(unknown=False, class_folders="copy"), out=tmp_path / "a")
    assert done.task.class_names == ("blue", "red")
    direct = label(tmp_path / "photos", LabelOptions(backbone=embedder, unknown=False), out=tmp_path / "b")
    np.testing.assert_array_equal(done.labels, direct.labels)
    assert done.task.names == direct.task.names
    assert [name for name, _ in done.task.skipped] == ["unlabelled/29.png"]


def test_an_engine_takes_no_single_file(tmp_path):
    from remp.engine.local import Threads

    path = write(tmp_path / "one", parts=1) / "0.parquet"
    with pytest.raises(ConfigError, match="write it as a Parquet dataset"):
        label(path, out=tmp_path / "a", engine=Threads())
