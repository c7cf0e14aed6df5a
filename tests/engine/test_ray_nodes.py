"""Embedding and labelling on three Ray nodes: bit for bit those of one process, also when a node dies in the middle."""

import sys

import numpy as np
import pytest

import embedding_cases
import ray_cases
from embedding_cases import mean_colour_embedder, write_pictures
from ray_cases import LABELS, NODE, TRUTH, Deadly, joined, parts, same, small_cluster, without_seconds, write_dataset
from remp.engine.embed import embed
from remp.engine.ray import RayEngine
from remp.label_files import label, label_new
from remp.rectification.propagate import Propagation, propagate
from remp.rows import ArrayRows, JoinedRows

pytest.importorskip("pyarrow")
ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'ray[data]' pyarrow")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # ray.data says what it will not have some day
]


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
