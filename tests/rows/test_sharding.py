"""Several processes that pass over a share of the rows each give what one gives that passes over all."""

import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from remp.rectification.propagate import Propagation, propagate
from remp.rows import ArrayRows
from remp.rows.sharding import Shard, current_shard

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


def propagated_by_threads(case, n, world):
    rows, labels = table(n)
    meeting, results = Meeting(threading.Barrier(world, timeout=60), {}), {}

    def work(rank):
        results[rank] = propagate(ArrayRows(rows), labels, 3, case, shard=ThreadShard(rank, world, meeting))

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(world)]
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
    one, several = propagate(ArrayRows(rows), labels, 3, case), propagated_by_threads(case, n, world)
    for rank in range(world):
        torch.testing.assert_close(several[rank].prototypes, one.prototypes, rtol=1e-5, atol=1e-5)
        assert torch.equal(several[rank].prototypes, several[0].prototypes)
        assert several[rank].moves == pytest.approx(one.moves, abs=1e-5)


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
