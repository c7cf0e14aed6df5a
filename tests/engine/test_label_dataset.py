"""`remp label` on a Parquet dataset of embeddings: labels as from one file, damaged parts named and left out."""

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from embedding_cases import mean_colour_embedder
from remp.cli import app
from remp.engine import Threads
from remp.engine.dataset import look_through, open_dataset
from remp.engine.embed import embed
from remp.errors import CheckpointError, ConfigError, DataError
from remp.label_files import label, label_new
from remp.labelling.pipeline import LabelOptions
from remp.system.files import place

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


def read_results(folder):
    """The file names, labels and probabilities of labels-parquet/, and those of labels.csv."""
    table = parquet.read_table(folder / "labels-parquet", columns=["file", "label", "probability"]).to_pydict()
    with (folder / "labels.csv").open() as file:
        rows = list(csv.DictReader(file))
    return table, {name: [row[name] for row in rows] for name in table}


def test_results_of_many_rows_are_a_parquet_dataset_too(tmp_path, monkeypatch):
    label(write(tmp_path / "many"), out=tmp_path / "few")
    assert not (tmp_path / "few" / "labels-parquet").exists()
    monkeypatch.setattr("remp.labelling.output.tables.LARGE", 50)
    label(tmp_path / "many", LabelOptions(unknown=False), out=tmp_path / "a")
    assert len(list((tmp_path / "a" / "labels-parquet").iterdir())) == 3
    ours, theirs = read_results(tmp_path / "a")
    assert (ours["file"], ours["label"]) == (theirs["file"], theirs["label"])
    np.testing.assert_allclose(ours["probability"], np.array(theirs["probability"], float), atol=1e-6)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_million_rows_and_one_are_labelled_with_a_small_report(tmp_path):
    n, random = 1_000_001, np.random.default_rng(0)
    truth = np.arange(n) % 3
    (tmp_path / "data").mkdir()
    for number, rows in enumerate(np.array_split(np.arange(n), 8)):
        values = 4 * np.eye(3, 4, dtype=np.float32)[truth[rows]] + random.standard_normal((len(rows), 4), np.float32)
        given = ["abc"[truth[i]] if i < 30 else None for i in rows]
        column = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(values.reshape(-1)), 4)
        table = pyarrow.table({"embedding": column, "label": pyarrow.array(given, pyarrow.string())})
        parquet.write_table(table, tmp_path / "data" / f"{number}.parquet")
    done = label(tmp_path / "data", LabelOptions(unknown=False), out=tmp_path / "a")
    assert (done.labels == truth).mean() > 0.9
    assert [path.name for path in sorted((tmp_path / "a" / "labels-parquet").iterdir())] == [
        "part-00000.parquet",
        "part-00001.parquet",
    ]
    ours, theirs = read_results(tmp_path / "a")
    assert ours["label"] == theirs["label"]
    assert len(ours["label"]) == n
    assert (tmp_path / "a" / "report.html").stat().st_size < 1_000_000


def test_labels_come_from_a_table_by_name_or_number(tmp_path):
    table = tmp_path / "labels.csv"
    table.write_text("name,label\n" + "".join(f"row {i},{'abc'[TRUTH[i]]}\n" for i in range(9)))
    named = label(write(tmp_path / "named", labels=False), labels=table, out=tmp_path / "a")
    table.write_text("row,label\n" + "".join(f"{i},{'abc'[TRUTH[i]]}\n" for i in range(9)))
    numbered = label(write(tmp_path / "numbered", labels=False, names=False), labels=table, out=tmp_path / "b")
    np.testing.assert_array_equal(named.labels, numbered.labels)
    with pytest.raises(DataError, match="has no labels"):
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
    path = write(tmp_path / "one", parts=1) / "0.parquet"
    with pytest.raises(ConfigError, match="write it as a Parquet dataset"):
        label(path, out=tmp_path / "a", engine=Threads())


def test_an_engine_labels_the_folder_as_it_is_now(tmp_path, own_home):
    photos, embedder = tmp_path / "photos", mean_colour_embedder()
    few_photos(photos)
    options = LabelOptions(backbone=embedder, unknown=False, class_folders="copy")
    label(photos, options, out=tmp_path / "first", engine=Threads())
    (photos / "unlabelled" / "10.png").rename(photos / "blue" / "10.png")  # as the report advises
    (photos / "unlabelled" / "12.png").unlink()
    Image.new("RGB", (20, 20), (250, 9, 9)).save(photos / "unlabelled" / "14.png")  # was blue
    Image.new("RGB", (20, 20), (9, 9, 250)).save(photos / "unlabelled" / "99.png")
    there = label(photos, options, out=tmp_path / "there", engine=Threads())
    here = label(photos, options, out=tmp_path / "here")
    assert there.task.names == here.task.names
    np.testing.assert_array_equal(there.labels, here.labels)
    assert [path.name for path in (tmp_path / "there").rglob("14.png")] == ["14.png"]
    assert there.labels[there.task.names.index("unlabelled/14.png")] == there.task.class_names.index("red")


def few_photos(folder):
    """Five red and five blue pictures with their class as a folder, and as many without."""
    for number in range(20):
        colour = (200 + number, 9, 9) if number % 2 else (9, 9, 200 + number)
        name = ("blue", "red")[number % 2] if number < 10 else "unlabelled"
        (folder / name).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 20), colour).save(folder / name / f"{number:02d}.png")
    return folder


@pytest.mark.parametrize("together", [False, True])
def test_a_saved_model_labels_a_dataset_as_the_pictures_it_is_made_of(tmp_path, own_home, together):
    embedder = mean_colour_embedder()
    embed(few_photos(tmp_path / "photos"), tmp_path / "data", backbone=embedder, block=8)
    label(tmp_path / "data", out=tmp_path / "first", save=tmp_path / "model")
    (tmp_path / "data" / "part-0000001.parquet").rename(tmp_path / "data" / "x.parquet")  # order is not what counts
    settings = {"together": together, "options": LabelOptions(n_next=0)}
    rows = label_new(tmp_path / "data", tmp_path / "model", out=tmp_path / "a", **settings)
    pictures = label_new(tmp_path / "photos", tmp_path / "model", out=tmp_path / "b", embedder=embedder, **settings)
    ours, theirs = ({record["file"]: record["label"] for record in done.records()} for done in (rows, pictures))
    assert ours == theirs
    assert len(ours) == 20
    assert rows.made_with["backbone"] == "mean colour"
    by_name = dict(zip(pictures.task.names, pictures.probability, strict=True))
    np.testing.assert_allclose(rows.probability, [by_name[name] for name in rows.task.names], atol=1e-5)


@pytest.mark.parametrize("option", [["--side", "64"], ["--backbone", "efficientnet-lite2"]], ids=str)
def test_a_backbone_for_embeddings_that_are_there_is_refused(tmp_path, option):
    write(tmp_path / "many")
    done = CliRunner().invoke(app, ["label", str(tmp_path / "many"), *option])
    assert str(done.exception).endswith("many has embeddings: leave them out")


def test_a_model_of_another_backbone_or_width_is_refused(tmp_path, own_home):
    embed(few_photos(tmp_path / "photos"), tmp_path / "data", backbone=mean_colour_embedder(), block=8)
    embed(tmp_path / "photos", tmp_path / "other", backbone=mean_colour_embedder("other"), block=8)
    label(tmp_path / "data", out=tmp_path / "first", save=tmp_path / "model")
    with pytest.raises(CheckpointError, match=r"was not made with the other at 128 pixels of .*other"):
        label_new(tmp_path / "other", tmp_path / "model", out=tmp_path / "a")
    with pytest.raises(ConfigError, match=r"has 8 numbers in a row, .* was learned from rows of 3: give"):
        label_new(write(tmp_path / "many"), tmp_path / "model", out=tmp_path / "a")
    with pytest.raises(ConfigError, match="write it as a Parquet dataset"):
        label_new(tmp_path / "many" / "0.parquet", tmp_path / "model", out=tmp_path / "a", engine=Threads())


def test_a_damaged_part_is_left_out_with_a_model_too(tmp_path):
    label(write(tmp_path / "many"), out=tmp_path / "a", save=tmp_path / "model")
    (tmp_path / "many" / "2.parquet").write_bytes(b"PAR1")
    done = label_new(tmp_path / "many", tmp_path / "model", out=tmp_path / "b")
    assert len(done.labels) == 100
    assert done.task.skipped[0][0] == "2.parquet"
    assert not done.task.is_labelled.any()


@pytest.mark.parametrize("pictures", [["0", "x", "2"], [0, -1, 2], [0.5, 1.5, 2.5e30]], ids=str)
def test_a_part_whose_hashes_are_none_is_left_out(tmp_path, pictures):
    columns = {"embedding": list(VALUES[:3]), "content": ["a", "b", "c"], "picture": pictures}
    parquet.write_table(pyarrow.table(columns), tmp_path / "x.parquet")
    found = look_through(place(tmp_path / "x.parquet"))
    assert found.rows is None
    assert "x.parquet: its hashes of files or pictures cannot be read" in found.problem


@pytest.mark.parametrize("skipped", [b"{", b"3", b"[" * 100_000, b'[["a"]]', b'[["a", 3]]', b'["ab"]'])
def test_a_part_that_says_strange_things_of_what_was_skipped_is_left_out(tmp_path, skipped):
    table = pyarrow.table({"embedding": list(VALUES[:3])}).replace_schema_metadata({b"remp.skipped": skipped})
    parquet.write_table(table, tmp_path / "x.parquet")
    assert "what was skipped cannot be read" in look_through(place(tmp_path / "x.parquet")).problem


@pytest.mark.parametrize("source", ["x" * 5000, "a\0b"], ids=["long", "zero"])
def test_a_source_that_no_system_has_is_no_folder_of_pictures(tmp_path, source):
    folder = write(tmp_path / "one", parts=1)
    (folder / "_embedding.json").write_text(json.dumps({"source": source, "kind": "folder"}))
    assert open_dataset(place(folder), Threads()).task(None).paths == ()
