"""Embedding and propagation on a Ray cluster: bit for bit those of one process, also when a node dies in the middle."""

import errno
import gc
import os
import re
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import embedding_cases
import ray_cases
from embedding_cases import mean_colour_embedder, write_pictures
from ray_cases import NODE, Deadly, small_cluster
from remp import ReMPClassifier
from remp.engine.embed import embed
from remp.engine.parts import EmbeddingParts
from remp.engine.ray import RayEngine
from remp.errors import DataError, OutputError
from remp.label_files import label, label_new
from remp.rectification.propagate import Propagation, propagate
from remp.rows import ArrayRows, JoinedRows

pytest.importorskip("pyarrow")
ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'ray[data]' pyarrow")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

RANDOM = np.random.default_rng(0)
TRUTH = np.arange(1200) % 4
VALUES = (2 * RANDOM.normal(size=(4, 16))[TRUTH] + RANDOM.normal(size=(1200, 16))).astype(np.float32)
LABELS = np.where(np.arange(1200) < 20, TRUTH, -1)


@pytest.fixture(scope="module")
def cluster():
    """Three nodes of one core. Modules of the tests travel with the work: no worker can import them."""
    for module in (embedding_cases, ray_cases, sys.modules[__name__]):
        ray.cloudpickle.register_pickle_by_value(module)
    with small_cluster(3) as nodes:
        yield nodes


@pytest.fixture
def three(cluster):
    """The cluster, with three nodes whatever the test before has done to it."""
    while len(cluster.worker_nodes) < 2:
        cluster.add_node(**NODE)
    cluster.wait_for_nodes(timeout=120)
    return cluster


def parts(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name.startswith("part-")}


def joined():
    return JoinedRows(*(ArrayRows(part, chunk=32) for part in np.split(VALUES, 12)))


def same(one, other):
    """Whether two values with arrays in them are equal to the last bit."""
    for field in fields(one):
        ours, theirs = getattr(one, field.name), getattr(other, field.name)
        if isinstance(ours, torch.Tensor):
            assert torch.equal(ours, theirs), field.name
        elif isinstance(ours, np.ndarray):
            np.testing.assert_array_equal(ours, theirs, err_msg=field.name)
        elif is_dataclass(ours):
            same(ours, theirs)
        elif field.name not in ("seconds", "folder", "stages"):
            assert ours == theirs, field.name


def test_a_node_that_dies_while_embedding_costs_its_running_block_and_no_bit(three, tmp_path, own_home):
    write_pictures(tmp_path / "photos", 240)
    (tmp_path / "photos" / "0007.png").write_bytes(b"no picture")
    embed(tmp_path / "photos", tmp_path / "local", backbone=mean_colour_embedder(), block=10)
    engine = Deadly(three, tmp_path / "notes", in_pass=0)
    done = embed(tmp_path / "photos", tmp_path / "ray", backbone=mean_colour_embedder(), block=10, engine=engine)
    assert engine.killed
    assert (done.n, [name for name, _ in done.skipped]) == (239, ["0007.png"])
    assert parts(tmp_path / "ray") == parts(tmp_path / "local")
    assert set(engine.begun) == set(range(24))
    assert 24 <= sum(engine.begun.values()) <= 25  # a node has one core: one block was running there
    again = embed(tmp_path / "photos", tmp_path / "ray", backbone=mean_colour_embedder(), block=10, engine=RayEngine())
    assert again.n_before == 239


def test_a_node_that_dies_while_propagating_costs_its_running_block_and_no_bit(three, tmp_path):
    engine = Deadly(three, tmp_path / "notes", in_pass=5)
    there = propagate(joined(), LABELS, 4, shard=engine.shard())
    assert engine.killed
    same(there, propagate(joined(), LABELS, 4))
    assert set(engine.begun) == set(range(12))
    assert 12 <= sum(engine.begun.values()) <= 13


def test_sums_that_lie_on_a_node_that_dies_are_made_again(three, tmp_path):
    """Sums of more than 100 KB stay where they were made, and groups of them are added by tasks."""
    random = np.random.default_rng(1)
    values = (random.normal(size=(4, 4096))[TRUTH] + random.normal(size=(1200, 4096))).astype(np.float32)
    rows = JoinedRows(*(ArrayRows(part) for part in np.split(values, 40)))
    engine = Deadly(three, tmp_path / "notes", in_pass=4, seconds=0.1)
    there = propagate(rows, LABELS, 4, Propagation(layers=3), shard=engine.shard())
    assert engine.killed
    same(there, propagate(rows, LABELS, 4, Propagation(layers=3)))
    assert set(engine.begun) == set(range(40))


def test_the_blocks_of_a_call_are_sent_once_and_forgotten_after_it(three):
    engine, labels, rows = RayEngine(), LABELS.copy(), joined()
    first = propagate(rows, labels, 4, shard=engine.shard())
    gc.collect()
    assert engine._kept is None
    labels[:8] = TRUTH[1:9]  # the same array, with other labels in it
    second = propagate(rows, labels, 4, shard=engine.shard())
    same(second, propagate(rows, labels, 4))
    assert not torch.equal(first.prototypes, second.prototypes)


def write_dataset(folder):
    """The values in twelve parts, of which one is damaged; the first four rows of each have a label."""
    import pyarrow
    import pyarrow.parquet as parquet

    folder.mkdir()
    for number, rows in enumerate(np.split(np.arange(1200), 12)):
        names, given = [f"row {i}" for i in rows], ["abcd"[TRUTH[i]] if i % 100 < 4 else None for i in rows]
        table = pyarrow.table({"embedding": VALUES[rows].tolist(), "name": names, "label": given})
        parquet.write_table(table, folder / f"{number:02d}.parquet")
    (folder / "05.parquet").write_bytes(b"no parquet")
    return folder


def without_seconds(folder):
    """The files of a result by their names, without what says how long it took."""
    files = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    files = {name: content for name, content in files.items() if not name.name.startswith(".")}
    for name in map(Path, ("labels.json", "report.html")):
        files[name] = re.sub(rb"<p>Seconds: [^<]*</p>|\"seconds\": {[^}]*}", b"", files[name])
    return files


def test_a_labelling_is_that_of_one_process_to_the_last_bit(three, tmp_path, monkeypatch):
    """With its files, among them the Parquet dataset that a large one has."""
    monkeypatch.setattr("remp.labelling.output.tables.LARGE", 500)
    data = write_dataset(tmp_path / "data")
    one = label(data, out=tmp_path / "local", save=tmp_path / "model")
    there = label(data, out=tmp_path / "ray", engine=RayEngine())
    same(there, one)
    assert len(there.labels) == 1100
    assert there.task.skipped[0][0] == "05.parquet"
    ours, theirs = without_seconds(tmp_path / "ray"), without_seconds(tmp_path / "local")
    assert ours == theirs
    assert {str(name) for name in ours} == {
        "labels.csv",
        "labels.json",
        "report.html",
        *(f"labels-parquet/part-{number:05d}.parquet" for number in range(3)),
    }


@pytest.mark.parametrize("together", [False, True])
def test_a_saved_model_labels_a_dataset_as_in_one_process(three, tmp_path, together):
    data = write_dataset(tmp_path / "data")
    label(data, out=tmp_path / "first", save=tmp_path / "model")
    one = label_new(data, tmp_path / "model", out=tmp_path / "local", together=together)
    there = label_new(data, tmp_path / "model", out=tmp_path / "ray", together=together, engine=RayEngine())
    same(there, one)
    assert without_seconds(tmp_path / "ray") == without_seconds(tmp_path / "local")


def test_a_folder_of_pictures_is_embedded_and_labelled(three, tmp_path, own_home):
    for number, name in enumerate(["a", "b", "unlabelled"]):
        write_pictures(tmp_path / "photos" / name, 3 + 9 * number)
    done = label(tmp_path / "photos", options(), out=tmp_path / "ray", engine=RayEngine())
    assert len(done.labels) == 3 + 12 + 21
    assert done.task.class_names == ("a", "b")
    assert all(path.exists() for path in done.task.paths)


def options():
    from remp.labelling.pipeline import LabelOptions

    return LabelOptions(backbone=mean_colour_embedder())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # ray.data says when it is imported what it will not have
def test_rows_of_a_ray_dataset(three):
    data = ray.data.from_numpy(list(np.split(VALUES, 3)))
    with pytest.raises(DataError, match=r"give data.materialize\(\)"):
        propagate(data.map_batches(lambda batch: batch), LABELS, 4)
    thirds = JoinedRows(*(ArrayRows(part) for part in np.split(VALUES, 3)))
    here = propagate(thirds, LABELS, 4)
    same(propagate(data, LABELS, 4), here)
    same(propagate(data, LABELS, 4, shard=RayEngine().shard()), here)
    dense = propagate(ArrayRows(VALUES), LABELS, 4)
    torch.testing.assert_close(here.prototypes, dense.prototypes, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_classifier_learns_from_a_ray_dataset_what_it_learns_from_the_array(three):
    data, dense = ray.data.from_numpy(list(np.split(VALUES, 3))), ReMPClassifier().fit(VALUES, LABELS)
    ours = ReMPClassifier().fit(data, LABELS)
    np.testing.assert_array_equal(ours.transduction_, dense.transduction_)
    np.testing.assert_allclose(ours.label_distributions_, dense.label_distributions_, atol=1e-4)
    np.testing.assert_array_equal(ours.predict(data), dense.predict(VALUES))
    assert (ours.transduction_ == TRUTH).mean() > 0.9


def test_a_damaged_parquet_file_of_pictures_is_named_and_does_not_stop_the_rest(three, tmp_path, own_home):
    import pyarrow
    import pyarrow.parquet as parquet

    write_pictures(tmp_path / "photos", 20)
    cells = [path.read_bytes() for path in sorted((tmp_path / "photos").iterdir())]
    (tmp_path / "tables").mkdir()
    for number in range(4):
        span = range(5 * number, 5 * number + 5)
        table = pyarrow.table({"id": [f"{i:04d}" for i in span], "image": [cells[i] for i in span]})
        parquet.write_table(table, tmp_path / "tables" / f"{number}.parquet", compression="none")
    whole = (tmp_path / "tables" / "1.parquet").read_bytes()
    (tmp_path / "tables" / "1.parquet").write_bytes(whole[:-10])  # no end
    (tmp_path / "tables" / "2.parquet").write_bytes(b"PAR1" + bytes(200) + whole[204:])  # no pages
    settings = {"backbone": mean_colour_embedder(), "block": 5}
    done = embed(tmp_path / "tables", tmp_path / "ray", engine=RayEngine(), **settings)
    here = embed(tmp_path / "tables", tmp_path / "local", **settings)
    assert done.n == 10
    assert [name for name, _ in done.skipped] == ["1.parquet"]
    assert "2.parquet cannot be read as Parquet" in done.problems[0]
    assert (done.skipped, done.problems) == (here.skipped, here.problems)
    assert parts(tmp_path / "ray") == parts(tmp_path / "local")


def test_a_full_disk_stops_with_a_sentence_and_keeps_what_is_finished(three, tmp_path, own_home, monkeypatch):
    write_pictures(tmp_path / "photos", 40)
    settings = {"backbone": mean_colour_embedder(), "block": 10, "engine": RayEngine()}
    real, written = EmbeddingParts._write, []

    def no_room(self, name, content):
        if name.startswith("part-"):
            written.append(name)
            if len(written) > 2:
                patch.setattr(Path, "open", raise_no_room)
        real(self, name, content)

    with monkeypatch.context() as patch:
        patch.setattr(EmbeddingParts, "_write", no_room)
        with pytest.raises(OutputError, match=r"no room is left\. What is finished is kept"):
            embed(tmp_path / "photos", tmp_path / "out", **settings)
    assert len(parts(tmp_path / "out")) == 2
    assert embed(tmp_path / "photos", tmp_path / "out", **settings).n_before == 20
    embed(tmp_path / "photos", tmp_path / "whole", backbone=mean_colour_embedder(), block=10)
    assert parts(tmp_path / "out") == parts(tmp_path / "whole")


def raise_no_room(self, *_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_error_in_a_task_is_the_error_itself(three):
    values = VALUES.copy()
    values[777, 3] = np.nan
    rows = JoinedRows(*(ArrayRows(part, chunk=32) for part in np.split(values, 12)))
    with pytest.raises(DataError, match="row 777 holds a number that is not finite"):
        propagate(rows, LABELS, 4, shard=RayEngine().shard())
