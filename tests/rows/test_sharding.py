"""Several processes that pass over a share of the rows each, or over rows in parts, give what one gives that passes
over all; sums are over blocks, in an order that depends on their number alone."""

import os
import pickle
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from remp.errors import DataError
from remp.propagation.fit import fit_rows
from remp.rectification.propagate import Propagation, propagate
from remp.rows import ArrayRows, JoinedRows
from remp.rows.sharding import GROUP, MOST_BLOCKS, Shard, add, blocks_of, current_shard, total

CASES = [
    Propagation(),
    Propagation(transform="power+centre", layers=4, scale=0.1, repulsion="none", balanced=True),
    Propagation(
        transform="none", layers=3, scale=0.01, similarity="cosine", residual=True, row_norm="signed", repulsion="zero"
    ),
]


def table(n=300):
    """Rows of three classes; all labelled ones are in the first tenth."""
    random = np.random.default_rng(0)
    truth = np.arange(n) % 3
    labels = np.where(np.arange(n) < n // 10, truth, -1)
    return (random.normal(size=(3, 8))[truth] + random.normal(size=(n, 8)) + 1).astype(np.float32), labels


@pytest.mark.parametrize(("n", "world"), [(0, 1), (5, 2), (7, 3), (2, 5), (10**12 + 1, 7)])
def test_shares_cover_all_rows_in_order_and_differ_by_one_at_most(n, world):
    spans = [Shard(rank, world).span(n) for rank in range(world)]
    assert [first for first, _ in spans[1:]] == [stop for _, stop in spans[:-1]]
    assert (spans[0][0], spans[-1][1]) == (0, n)
    sizes = {stop - first for first, stop in spans}
    assert max(sizes) - min(sizes) <= 1


@dataclass(frozen=True)
class Meeting:
    """Where threads that play processes add up their tensors."""

    barrier: threading.Barrier
    brought: dict


@dataclass(frozen=True)
class ThreadShard(Shard):
    meeting: Meeting | None = None

    def sums(self, *tensors):
        self.meeting.brought[self.rank] = tensors
        self.meeting.barrier.wait()
        parts = [self.meeting.brought[rank] for rank in range(self.world)]
        self.meeting.barrier.wait()
        return tuple(torch.stack(same).sum(0) for same in zip(*parts, strict=True))


def in_threads(work, world):
    """What `work` makes with the shard of each rank, one thread for each."""
    meeting, results = Meeting(threading.Barrier(world, timeout=60), {}), {}

    def run(rank):
        results[rank] = work(ThreadShard(rank, world, meeting))

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.parametrize(("n", "world"), [(300, 2), (300, 5), (30, 31)])
@pytest.mark.parametrize("case", CASES, ids=["defaults", "balanced", "residual"])
def test_shares_give_the_prototypes_of_one_process(case, n, world):
    """With 31 shares of 30 rows, some are all labelled, most have no labelled row, and one has no row."""
    rows, labels = table(n)
    one = propagate(ArrayRows(rows), labels, 3, case)
    several = in_threads(lambda shard: propagate(ArrayRows(rows), labels, 3, case, shard=shard), world)
    for rank in range(world):
        torch.testing.assert_close(several[rank].prototypes, one.prototypes, rtol=1e-5, atol=1e-5)
        assert torch.equal(several[rank].prototypes, several[0].prototypes)
        assert several[rank].moves == pytest.approx(one.moves, abs=1e-5)


@pytest.mark.parametrize("world", [2, 3])
def test_what_hidden_labels_tell_is_the_same_in_every_process(world):
    """There are more rows than are looked around among: only the first process has seen which."""
    rows, labels = table(4000)
    labels = np.where(np.arange(len(labels)) < 60, labels, -1)
    one = fit_rows(ArrayRows(rows), labels, 3)
    several = in_threads(lambda shard: fit_rows(ArrayRows(rows), labels, 3, shard=shard), world)
    for fitted in several.values():
        assert fitted.evidence == several[0].evidence == pytest.approx(one.evidence, abs=1e-3)
        np.testing.assert_array_equal(fitted.calibration.weights, several[0].calibration.weights)
        assert torch.equal(fitted.model.log_shares, several[0].model.log_shares)
        torch.testing.assert_close(fitted.model.log_shares, one.model.log_shares, rtol=1e-3, atol=1e-3)


def test_an_ordinary_process_has_no_shard(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    assert current_shard() is None


def test_one_process_gathers_what_it_has():
    own = np.arange(5)
    assert Shard().gather(own, 5) is own
    with pytest.raises(ValueError, match="got results of 5 rows; needed those of the 6"):
        Shard().gather(own, 6)


CHILD = """
import sys
from pathlib import Path
import numpy as np, torch
import remp.rows.sharding
from remp.rows import ArrayRows
from remp.rectification.propagate import propagate
from test_sharding import CASES, table
remp.rows.sharding._PIECE = 100  # so that results travel in several messages
shard, (rows, labels) = remp.rows.sharding.current_shard(), table()
assert remp.rows.sharding.current_shard() == shard and shard.world == 2
first, stop = shard.span(len(rows))
for number, case in enumerate(CASES):
    result = propagate(ArrayRows(rows), labels, 3, case, shard=shard)
    logits = result.logits(torch.from_numpy(rows[first:stop])).numpy()
    everything = shard.gather(logits, len(rows)), shard.gather(logits.argmax(1) == 1, len(rows))
    assert (everything[0] is None) == (shard.rank == 1)
    if shard.rank == 0:
        found = {"prototypes": result.prototypes, "logits": everything[0], "is_one": everything[1]}
        np.savez(f"{sys.argv[1]}/{number}.npz", **found)
"""


@pytest.mark.slow
def test_two_processes_of_torchrun_give_the_result_of_one(tmp_path):
    (tmp_path / "child.py").write_text(CHILD)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launcher, tmp_path / "child.py", tmp_path]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "OMP_NUM_THREADS": "1"}
    finished = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    assert finished.returncode == 0, finished.stderr
    assert "Warning" not in finished.stderr
    rows, labels = table()
    for number, case in enumerate(CASES):
        one, both = propagate(ArrayRows(rows), labels, 3, case), np.load(tmp_path / f"{number}.npz")
        logits = one.logits(torch.from_numpy(rows))
        np.testing.assert_allclose(both["prototypes"], one.prototypes, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(both["logits"], logits, rtol=1e-4, atol=1e-4)
        assert np.array_equal(both["logits"].argmax(1), logits.argmax(1))
        assert np.array_equal(both["is_one"], logits.argmax(1) == 1)


VALUES = (np.random.default_rng(0).normal(size=(60, 5)) + np.arange(60)[:, None] % 3).astype(np.float32)
LABELS = np.where(np.arange(60) < 9, np.arange(60) % 3, -1)


def joined(*ends, values=VALUES):
    """The values, cut at these places."""
    return JoinedRows(*(ArrayRows(part, chunk=4) for part in np.split(values, ends)))


def test_parts_give_the_rows_of_the_whole():
    rows = joined(0, 7, 7, 31)
    np.testing.assert_array_equal(torch.cat(list(rows.chunks())), VALUES)
    np.testing.assert_array_equal(torch.cat(list(rows.chunks(5, 33))), VALUES[5:33])
    np.testing.assert_array_equal(rows.take([59, 0, 7, 7, 30]), VALUES[[59, 0, 7, 7, 30]])
    with pytest.raises(IndexError, match="needed 0 … 59"):
        rows.take([60])


def test_parts_of_different_dimensions_are_refused():
    with pytest.raises(DataError, match=r"\[2, 3\] dimensions"):
        JoinedRows(ArrayRows(np.zeros((1, 2))), ArrayRows(np.zeros((1, 3))))


def test_blocks_cover_the_rows_in_order_and_are_not_too_many():
    rows = JoinedRows(*(ArrayRows(np.full((2, 1), number)) for number in range(MOST_BLOCKS + 3)))
    blocks = blocks_of(rows, np.arange(len(rows)))
    assert len(blocks) <= MOST_BLOCKS
    chunks = [chunk for block in blocks for chunk in block.chunks()]
    np.testing.assert_array_equal(torch.cat(chunks)[:, 0], np.repeat(np.arange(MOST_BLOCKS + 3), 2))
    np.testing.assert_array_equal(np.concatenate([block.labels for block in blocks]), np.arange(len(rows)))
    assert all(block.labels[0] == block.first for block in blocks)


def test_a_block_tells_labelled_rows_from_others():
    block = blocks_of(joined(20), LABELS)[0]
    ((rows, labels),) = block.labelled()
    np.testing.assert_array_equal(rows, VALUES[:9])
    np.testing.assert_array_equal(labels, LABELS[:9])
    np.testing.assert_array_equal(torch.cat(list(block.unlabelled())), VALUES[9:20])


@pytest.mark.parametrize("labels", [LABELS, np.broadcast_to(np.int8(-1), 60), np.arange(60)])
def test_a_block_is_sent_with_its_few_labels(labels):
    block = blocks_of(joined(20), labels)[1]
    sent = pickle.loads(pickle.dumps(block))
    assert (sent.start, sent.stop, sent.first) == (block.start, block.stop, block.first)
    np.testing.assert_array_equal(sent.labels, block.labels)
    np.testing.assert_array_equal(torch.cat(list(sent.chunks())), VALUES[20:])
    many = blocks_of(ArrayRows(np.zeros((10_000, 1), np.int8)), np.full(10_000, -1))[0]
    assert len(pickle.dumps(many)) < 20_000  # 10,000 bytes of rows, and no labels


def test_parts_give_the_prototypes_of_the_whole():
    whole, parted = (propagate(rows, LABELS, 3) for rows in (ArrayRows(VALUES), joined(0, 7, 31)))
    torch.testing.assert_close(parted.prototypes, whole.prototypes, rtol=1e-5, atol=1e-5)


def test_the_number_of_threads_changes_no_bit():
    values = np.random.default_rng(1).normal(size=(6000, 40)).astype(np.float32)
    labels = np.where(np.arange(6000) < 50, np.arange(6000) % 10, -1)
    rows, before, results = joined(*range(500, 6000, 500), values=values), torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(propagate(rows, labels, 10).prototypes)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_a_row_that_is_not_finite_is_named_by_its_number_among_all():
    values = VALUES.copy()
    values[41, 2] = np.nan
    with pytest.raises(DataError, match="row 41 holds a number that is not finite"):
        propagate(joined(10, 20, 30, values=values), LABELS, 3)


def test_a_process_of_several_has_its_share_as_one_block():
    (block,) = Shard(1, 3).each(lambda block: block, joined(10, 50), LABELS)
    assert (block.first, len(block)) == (20, 20)
    np.testing.assert_array_equal(torch.cat(list(block.chunks())), VALUES[20:40])


NUMBERS = 10.0 ** np.random.default_rng(0).integers(-8, 9, size=600)  # whose sum depends on the order


def by_hand(numbers):
    """Groups of sixteen by two loops."""
    sums = []
    for at in range(0, len(numbers), 16):
        here = numbers[at]
        for number in numbers[at + 1 : at + 16]:
            here = here + number
        sums.append(here)
    whole = sums[0]
    for here in sums[1:]:
        whole = whole + here
    return whole


@pytest.mark.parametrize("n", [1, 15, 16, 17, 32, 33, 512, 600])
def test_blocks_are_added_in_groups_and_then_the_groups(n):
    assert total(NUMBERS[:n]) == by_hand(NUMBERS[:n])
    groups = [add(*NUMBERS[at : min(at + GROUP, n)]) for at in range(0, n, GROUP)]  # as tasks do it elsewhere
    assert add(*groups) == by_hand(NUMBERS[:n])


def test_the_order_can_be_seen_in_the_last_bits():
    assert total(NUMBERS) != sum(NUMBERS)
    assert total(NUMBERS) == pytest.approx(sum(NUMBERS))


def test_tuples_are_added_element_by_element():
    assert add((1, (2, 3.5)), (10, (20, 0.5)), (100, (200, 1.0))) == (111, (222, 5.0))


def test_a_pass_adds_up_what_its_blocks_make():
    rows = JoinedRows(*(ArrayRows(np.full((2, 1), number)) for number in NUMBERS[:40]))
    assert Shard().total(lambda block: float(next(block.chunks())[0, 0]), rows) == by_hand(
        np.float32(NUMBERS[:40]).tolist()
    )
