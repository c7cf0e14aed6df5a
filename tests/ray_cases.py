"""Ray on this machine, whose nodes and workers can be killed, work that notes who did it, and rows to pass over."""

import os
import re
import signal
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from remp.engine.ray import RayEngine
from remp.rows import ArrayRows, JoinedRows

RANDOM = np.random.default_rng(0)
TRUTH = np.arange(1200) % 4
VALUES = (2 * RANDOM.normal(size=(4, 16))[TRUTH] + RANDOM.normal(size=(1200, 16))).astype(np.float32)
LABELS = np.where(np.arange(1200) < 20, TRUTH, -1)

NODE = {"num_cpus": 1, "object_store_memory": 100 * 2**20}


@contextmanager
def small_cluster(n_nodes: int) -> Iterator[Any]:
    """Nodes of one core each; all processes are gone in the end."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    try:
        for _ in range(n_nodes - 1):
            cluster.add_node(**NODE)
        ray.init(address=cluster.address, log_to_driver=False)
        cluster.wait_for_nodes(timeout=120)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


@contextmanager
def two_workers() -> Iterator[RayEngine]:
    """Ray in this process, with two cores, which are as important as those of other programs."""
    import ray

    ray.init(
        "local",
        num_cpus=2,
        object_store_memory=200 * 2**20,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        _system_config={"worker_niceness": 0},
    )
    try:
        yield RayEngine()
    finally:
        ray.shutdown()


@dataclass(frozen=True)
class DiesOnce:
    """Work whose process is killed by the third item, the first time that it comes; and which notes what it begins."""

    work: Any
    folder: str

    def __call__(self, numbered: tuple[int, Any]) -> Any:
        import ray

        number, item = numbered
        is_first = not list(Path(self.folder).glob(f"{number}-*"))
        Path(self.folder, f"{number}-{uuid.uuid4().hex}").touch()
        if number == 2 and is_first:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.work(ray.get(item) if isinstance(item, ray.ObjectRef) else item)


class Killing(RayEngine):
    """A worker is killed while it embeds, or while it makes sums for the fifth time. begun: how often each item of that
    pass was begun."""

    def __init__(self, notes: Path) -> None:
        super().__init__()
        self.notes, self.n_passes = notes, 0

    def finished(self, work: Any, items: list[Any]) -> Iterator[tuple[int, Any]]:
        return super().finished(*self._deadly(work, items))

    def total(self, work: Any, items: list[Any], finished: Any) -> Any:
        self.n_passes += 1
        return super().total(*(self._deadly(work, items) if self.n_passes == 5 else (work, items)), finished)

    @property
    def begun(self) -> Counter[int]:
        return Counter(int(note.name.partition("-")[0]) for note in self.notes.iterdir())

    def _deadly(self, work: Any, items: list[Any]) -> tuple[Any, list[Any]]:
        self.notes.mkdir()
        return DiesOnce(work, str(self.notes)), list(enumerate(items))


@dataclass(frozen=True)
class Noted:
    """Work that leaves a file for each item that is begun, with the node it was begun on, and takes its time."""

    work: Any
    folder: str
    seconds: float

    def __call__(self, numbered: tuple[int, Any]) -> Any:
        import ray

        number, item = numbered
        node = ray.get_runtime_context().get_node_id()
        Path(self.folder, f"{number}-{node}-{uuid.uuid4().hex}").touch()
        time.sleep(self.seconds)
        return self.work(ray.get(item) if isinstance(item, ray.ObjectRef) else item)


class Deadly(RayEngine):
    """Kills a node, other than the first, that is at work: once, in the middle of the pass of this number."""

    def __init__(self, cluster: Any, notes: Path, *, in_pass: int, seconds: float = 0.3) -> None:
        super().__init__()
        self.cluster, self.notes, self.in_pass, self.seconds = cluster, notes, in_pass, seconds
        self.n_passes = 0
        self.killed = ""
        self.begun: Counter[int] = Counter()

    def finished(self, work: Any, items: list[Any]) -> Iterator[tuple[int, Any]]:
        for at, (number, made) in enumerate(super().finished(*self._noted(work, items))):
            if at == len(items) // 3:
                self._kill()
            yield number, made
        self._count()

    def in_order(self, work: Any, items: list[Any]) -> Iterator[Any]:
        self.n_passes += 1
        if self.n_passes != self.in_pass:
            yield from super().in_order(work, items)
            return
        for at, made in enumerate(super().in_order(*self._noted(work, items))):
            if at == len(items) // 3:
                self._kill()
            yield made
        self._count()

    def total(self, work: Any, items: list[Any], finished: Any) -> Any:
        self.n_passes += 1
        if self.n_passes != self.in_pass:
            return super().total(work, items, finished)

        def watched(number: int) -> None:
            if number == len(items) // 3:
                self._kill()
            finished(number)

        made = super().total(*self._noted(work, items), watched)
        self._count()
        return made

    def _noted(self, work: Any, items: list[Any]) -> tuple[Any, list[Any]]:
        self.notes.mkdir()
        return Noted(work, str(self.notes), self.seconds), list(enumerate(items))

    def _kill(self) -> None:
        """The node other than the head that has begun something last."""
        nodes = {node.node_id: node for node in self.cluster.worker_nodes}
        until = time.monotonic() + 120
        while not self.killed and time.monotonic() < until:
            notes = sorted(self.notes.iterdir(), key=lambda path: path.stat().st_mtime_ns, reverse=True)
            there = [path.name.split("-")[1] for path in notes if path.name.split("-")[1] in nodes]
            self.killed = there[0] if there else ""
            time.sleep(0.05)
        assert self.killed, "no node but the head has begun anything"
        self.cluster.remove_node(nodes[self.killed], allow_graceful=False)

    def _count(self) -> None:
        self.begun = Counter(int(path.name.partition("-")[0]) for path in self.notes.iterdir())


def parts(folder: Path) -> dict[str, bytes]:
    """The parts of a dataset by their names."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name.startswith("part-")}


def joined() -> JoinedRows:
    """The values in twelve parts."""
    return JoinedRows(*(ArrayRows(part, chunk=32) for part in np.split(VALUES, 12)))


def same(one: Any, other: Any) -> None:
    """Check that two values with arrays in them are equal to the last bit."""
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


def write_dataset(folder: Path) -> Path:
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


def without_seconds(folder: Path) -> dict[Path, bytes]:
    """The files of a result by their names, without what says how long it took."""
    files = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    files = {name: content for name, content in files.items() if not name.name.startswith(".")}
    for name in map(Path, ("labels.json", "report.html")):
        files[name] = re.sub(rb"<p>Seconds: [^<]*</p>|\"seconds\": {[^}]*}", b"", files[name])
    return files
