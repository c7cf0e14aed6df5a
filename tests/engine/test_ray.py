"""Embedding and passes over rows on Ray, with two workers: bit for bit those of one process."""

import errno
import gc
import os
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

import embedding_cases
import ray_cases
from embedding_cases import mean_colour_embedder, write_pictures
from ray_cases import (
    LABELS,
    TRUTH,
    VALUES,
    Killing,
    joined,
    parts,
    same,
    two_workers,
    without_seconds,
    write_dataset,
)
from remp import ReMPClassifier
from remp.engine.embed import embed
from remp.engine.parts import EmbeddingParts
from remp.engine.ray import RayEngine
from remp.errors import ConfigError, DataError, OutputError
from remp.label_files import label
from remp.rectification.propagate import propagate
from remp.rows import ArrayRows, JoinedRows, Shard
from remp.rows.dataset import as_rows

pytest.importorskip("pyarrow")
ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'ray[data]' pyarrow")

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # ray.data says what it will not have some day
]


@pytest.fixture(scope="module")
def engine():
    """Modules of the tests travel with the work: no worker can import them."""
    for module in (embedding_cases, ray_cases, sys.modules[__name__]):
        ray.cloudpickle.register_pickle_by_value(module)
    with two_workers() as engine:
        yield engine


def test_a_worker_that_is_killed_while_embedding_costs_its_running_block_and_no_bit(engine, tmp_path, own_home):
    write_pictures(tmp_path / "photos", 60)
    (tmp_path / "photos" / "0007.png").write_bytes(b"no picture")
    settings = {"backbone": mean_colour_embedder(), "block": 10}
    embed(tmp_path / "photos", tmp_path / "local", **settings)
    killing = Killing(tmp_path / "notes")
    done = embed(tmp_path / "photos", tmp_path / "ray", engine=killing, **settings)
    assert killing.begun == {0: 1, 1: 1, 2: 2, 3: 1, 4: 1, 5: 1}
    assert (done.n, [name for name, _ in done.skipped]) == (59, ["0007.png"])
    assert parts(tmp_path / "ray") == parts(tmp_path / "local")
    assert embed(tmp_path / "photos", tmp_path / "ray", engine=engine, **settings).n_before == 59


def test_blocks_of_pictures_go_through_ray_data_without_a_word_of_it(engine, capfd, monkeypatch):
    real, seen = ray.data.from_items, []
    monkeypatch.setattr(ray.data, "from_items", lambda items, **how: seen.append(len(items)) or real(items, **how))
    assert sorted(engine.finished(str, list(range(20)))) == [(number, str(number)) for number in range(20)]
    assert seen == [20]
    assert "".join(capfd.readouterr()) == ""


def test_a_finished_block_does_not_wait_for_the_others(engine):
    """Nor for the next one: it is there before that is made."""
    times = []
    for _, ended in engine.finished(nap, [0.0, 3.0]):
        times.append((ended, time.time()))
    assert times[0][1] < times[1][0]


def nap(seconds):
    time.sleep(seconds)
    return time.time()


def test_an_error_in_a_block_of_pictures_is_the_error_itself(engine):
    with pytest.raises(DataError, match="of block 3"):
        list(engine.finished(fail_at_3, [1, 2, 3, 4]))


def fail_at_3(number):
    if number == 3:
        raise DataError("of block 3")


def test_a_worker_that_is_killed_while_propagating_costs_its_running_block_and_no_bit(engine, tmp_path):
    killing = Killing(tmp_path / "notes")
    same(propagate(joined(), LABELS, 4, shard=killing.shard()), propagate(joined(), LABELS, 4))
    assert killing.begun == {**dict.fromkeys(range(12), 1), 2: 2}


@pytest.fixture
def dataset(engine):
    """The values in a Ray dataset of three blocks."""
    return ray.data.from_numpy(list(np.split(VALUES, 3)))


def thirds():
    return JoinedRows(*(ArrayRows(part) for part in np.split(VALUES, 3)))


def test_rows_of_a_ray_dataset_are_passed_over_by_tasks(dataset, monkeypatch):
    with pytest.raises(DataError, match=r"give data.materialize\(\)"):
        propagate(dataset.map_batches(lambda batch: batch), LABELS, 4)
    here = propagate(thirds(), LABELS, 4)
    same(propagate(dataset, LABELS, 4, shard=Shard()), here)  # told to, this process does it
    monkeypatch.setattr("remp.rows.dataset._RayBlock.chunks", not_here)
    same(propagate(dataset, LABELS, 4), here)
    np.testing.assert_array_equal(as_rows(dataset).take([1199, 3, 500]), VALUES[[1199, 3, 500]])


def test_rows_that_an_engine_was_given_are_passed_over_by_its_tasks(engine, monkeypatch):
    passes, real = [], RayEngine.total
    monkeypatch.setattr(RayEngine, "total", lambda self, *given: passes.append(given) or real(self, *given))
    same(propagate(engine.rows(joined()), LABELS, 4), propagate(joined(), LABELS, 4))
    assert len(passes) >= 10  # layers


def not_here(*_):
    raise AssertionError("read in this process")


def test_rows_of_one_block_give_the_bits_of_the_array(engine):
    data = ray.data.from_numpy(VALUES)
    same(propagate(data, LABELS, 4), propagate(ArrayRows(VALUES), LABELS, 4))
    ours, dense = ReMPClassifier().fit(data, LABELS), ReMPClassifier().fit(VALUES, LABELS)
    assert_same_classifier(ours, dense)
    np.testing.assert_array_equal(ours.predict_proba(data), dense.predict_proba(VALUES))


@pytest.mark.parametrize("rule", ["adaptive", "paper"])
def test_a_classifier_learns_from_a_ray_dataset_by_tasks_what_it_learns_in_one_process(dataset, rule, monkeypatch):
    more = VALUES[:50] + np.float32(0.1)
    here = ReMPClassifier(rule=rule).fit(thirds(), LABELS, more)
    answers, again = here.predict_proba(thirds()), here.refit(thirds())
    monkeypatch.setattr("remp.rows.dataset._RayBlock.chunks", not_here)
    monkeypatch.setattr("remp.rows.dataset._RayBlock.take", not_here)
    there = ReMPClassifier(rule=rule).fit(dataset, LABELS, more)
    assert_same_classifier(there, here)
    assert_same_classifier(there.refit(dataset), again)
    np.testing.assert_array_equal(there.predict_proba(dataset), answers)
    assert (there.predict(dataset) == TRUTH).mean() > 0.9


def assert_same_classifier(ours, theirs):
    for name in ("transduction_", "label_distributions_", "prototypes_", "moves_"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)


def test_the_blocks_of_a_call_are_sent_once_and_forgotten_after_it(engine):
    engine, labels, rows = RayEngine(), LABELS.copy(), joined()
    first = propagate(rows, labels, 4, shard=engine.shard())
    gc.collect()
    assert engine._kept is None
    labels[:8] = TRUTH[1:9]  # the same array, with other labels in it
    second = propagate(rows, labels, 4, shard=engine.shard())
    same(second, propagate(rows, labels, 4))
    assert not torch.equal(first.prototypes, second.prototypes)


def test_a_labelling_is_that_of_one_process_to_the_last_bit(engine, tmp_path, monkeypatch):
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


def test_a_damaged_parquet_file_of_pictures_is_named_and_does_not_stop_the_rest(engine, tmp_path, own_home):
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


def test_a_full_disk_stops_with_a_sentence_and_keeps_what_is_finished(engine, tmp_path, own_home, monkeypatch):
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


def test_an_error_in_a_task_is_the_error_itself(engine):
    values = VALUES.copy()
    values[777, 3] = np.nan
    rows = JoinedRows(*(ArrayRows(part, chunk=32) for part in np.split(values, 12)))
    with pytest.raises(DataError, match="row 777 holds a number that is not finite"):
        propagate(rows, LABELS, 4, shard=RayEngine().shard())


def test_an_address_is_that_of_a_running_cluster(monkeypatch):
    asked = []
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda address, **_: asked.append(address))
    RayEngine("auto")
    RayEngine()
    assert asked == ["auto", "local"]

    def nobody_there(address, **_):
        raise ConnectionError("could not find any running Ray instance")

    monkeypatch.setattr(ray, "init", nobody_there)
    with pytest.raises(ConfigError, match="no Ray cluster at 'auto': start one with ray start --head"):
        RayEngine("auto")


def test_bars_go_on_as_parts_and_rows_are_finished(engine, tmp_path, own_home, monkeypatch):
    steps = []

    class Bar:
        def advance(self, n, **_):
            steps.append(n)

    @contextmanager
    def noted(*_, **__):
        yield Bar()

    monkeypatch.setattr("remp.rows.ray_tasks.progress", noted)
    monkeypatch.setattr("remp.engine.embed.progress", noted)
    write_pictures(tmp_path / "photos", 25)
    embed(tmp_path / "photos", tmp_path / "out", backbone=mean_colour_embedder(), block=10, engine=engine)
    assert sorted(steps) == [5, 10, 10]
    steps.clear()
    rows = engine.rows(joined())
    propagate(rows, LABELS, 4)
    assert sum(steps) % len(rows) == 0
    assert len(steps) > len(rows.parts)
