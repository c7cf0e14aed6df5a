"""A Ray cluster on this machine, whose nodes can be killed, and work that notes who did it."""

import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remp.engine.ray import RayEngine

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
