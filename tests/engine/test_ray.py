"""Embedding and propagation on a Ray cluster: bit for bit those of one process, also when a node dies in the middle."""

import gc
import sys
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
import torch

import embedding_cases
import ray_cases
from embedding_cases import mean_colour_embedder, write_pictures
from ray_cases import NODE, Deadly, small_cluster
from remp import ReMPClassifier
from remp.engine.embed import embed
from remp.engine.ray import RayEngine
from remp.errors import DataError
from remp.label_files import label
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


def test_a_labelling_is_that_of_one_process_to_the_last_bit(three, tmp_path):
    import pyarrow
    import pyarrow.parquet as parquet

    (tmp_path / "data").mkdir()
    for number, rows in enumerate(np.split(np.arange(1200), 12)):
        names, given = [f"row {i}" for i in rows], ["abcd"[TRUTH[i]] if i % 100 < 4 else None for i in rows]
        table = pyarrow.table({"embedding": VALUES[rows].tolist(), "name": names, "label": given})
        parquet.write_table(table, tmp_path / "data" / f"{number:02d}.parquet")
    (tmp_path / "data" / "05.parquet").write_bytes(b"no parquet")
    one = label(tmp_path / "data", out=tmp_path / "local")
    there = label(tmp_path / "data", out=tmp_path / "ray", engine=RayEngine())
    same(there, one)
    assert len(there.labels) == 1100
    assert (tmp_path / "ray" / "labels.csv").read_bytes() == (tmp_path / "local" / "labels.csv").read_bytes()


def test_a_folder_of_pictures_is_embedded_and_labelled(three, tmp_path, own_home):
    for number, name in enumerate(["a", "b", "unlabelled"]):
        write_pictures(tmp_path / "photos" / name, 3 + 9 * number)
    done = label(tmp_path / "photos", options(), out=tmp_path / "ray", engine=RayEngine())
    assert len(done.labels) == 3 + 12 + 21
    assert done.task.class_names == ("a", "b")
    assert all(path.exists() for path in done.task.paths)


def options():
    from remp.labelling.options import LabelOptions

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
    fitted = ReMPClassifier().fit(data, LABELS)
    assert (fitted.transduction_ == TRUTH).mean() > 0.9


def test_an_error_in_a_task_is_the_error_itself(three):
    values = VALUES.copy()
    values[777, 3] = np.nan
    rows = JoinedRows(*(ArrayRows(part, chunk=32) for part in np.split(values, 12)))
    with pytest.raises(DataError, match="row 777 holds a number that is not finite"):
        propagate(rows, LABELS, 4, shard=RayEngine().shard())
