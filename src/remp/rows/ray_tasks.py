"""Passes over rows as tasks of a Ray cluster: what a lost worker was at is done again by another."""

import logging
import math
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from remp.errors import ConfigError
from remp.rows.array import JoinedRows, Rows, read_only_tensor
from remp.rows.sharding import GROUP, Block, Shard, add, blocks_of, joined_parts
from remp.system.progress import progress

Item = TypeVar("Item")
Made = TypeVar("Made")
_ASK_EVERY = 1.0  # seconds, for the size of the cluster


class RayTasks:
    """A Ray cluster. Sums are those of one process to the last bit: blocks depend on the data alone, each is computed
    with one thread, and what comes back is taken in the order of the blocks.

    address: of a running cluster, "auto" for that of this machine; None for one that is started here, with all cores.
    """

    def __init__(self, address: str | None = None) -> None:
        self._ray = _import_ray()
        if not self._ray.is_initialized():
            try:
                self._ray.init(
                    address or "local",
                    include_dashboard=None if address else False,
                    log_to_driver=False,
                    logging_level=logging.ERROR,  # lines of its own would stand between those of the progress bars
                )
            except (ConnectionError, ValueError) as error:
                raise ConfigError(
                    f"no Ray cluster at {address!r}: start one with ray start --head ({error})"
                ) from error
        # A task whose worker or machine is lost is given to another, as often as it takes; an error of ours is not.
        self._asked, self._most = -math.inf, 0
        tasks = self._ray.remote(num_cpus=1, max_retries=-1, retry_exceptions=False)
        self._run, self._add = tasks(run), tasks(_add)
        self._kept: _Kept | None = None

    def in_order(self, work: Callable[[Item], Made], items: list[Item]) -> Iterator[Made]:
        """work(item) of each, in their order. Never more than a window of results wait for one before them."""
        handle = [self._ray.put(work)]
        waiting: dict[int, Any] = {}
        next_item = 0
        try:
            for number in range(len(items)):
                while next_item < len(items) and next_item < number + self._at_once():
                    waiting[next_item] = self.begin(handle, items[next_item])
                    next_item += 1
                yield self._get(waiting.pop(number))
        finally:
            for reference in waiting.values():
                self._ray.cancel(reference)

    def total(self, work: Callable[[Item], Made], items: list[Item], finished: Callable[[int], None]) -> Made:
        """The sum of work(item) over all items, one or more, in the order of `sharding.total`: the sums of groups are
        tasks, too, so that one message for each group comes here. finished: called with the number of each item."""
        handle, whole = [self._ray.put(work)], list[Made]()
        groups = [[self.begin(handle, item) for item in items[at : at + GROUP]] for at in range(0, len(items), GROUP)]
        sums, numbers = [self.begin_sum(group) for group in groups], iter(range(len(items)))
        try:
            for group, reference in zip(groups, sums, strict=True):
                for made in group:
                    self._ray.wait([made], fetch_local=False)
                    finished(next(numbers))
                whole = [add(*whole, self._get(reference))]
                group.clear()  # not before: if the sum is lost with its machine, it is added up again
        finally:
            for reference in [made for group in groups for made in group]:  # none, if all went well
                self._ray.cancel(reference)
        return whole[0]

    def begin(self, handle: list[Any], item: Any) -> Any:
        """The reference of what a task will make of an item. handle: a list of the reference of the work."""
        return self._run.remote(handle, item)

    def begin_sum(self, made: list[Any]) -> Any:
        """The reference of the sum that a task will make of what these references are of."""
        return self._add.remote(*made)

    def blocks(self, rows: Rows, labels: np.ndarray | None = None) -> tuple[list[Any], list[int]]:
        """References of the blocks of these rows, for tasks, and how many rows each has. While labels that cannot be
        written to are in use, passes with them share the blocks: they are sent once, rather than for each layer."""
        if self._kept is not None and self._kept.labels() is labels and self._kept.rows is rows:
            return self._kept.blocks, self._kept.sizes
        blocks = blocks_of(rows, np.broadcast_to(np.int8(-1), len(rows)) if labels is None else labels)
        references, sizes = [self._ray.put(block) for block in blocks], [len(block) for block in blocks]
        if labels is not None and not labels.flags.writeable:
            self._kept = _Kept(weakref.ref(labels, self._forget), rows, references, sizes)
        return references, sizes

    def _forget(self, labels: weakref.ref[np.ndarray]) -> None:
        if self._kept is not None and self._kept.labels is labels:
            self._kept = None

    def shard(self) -> Shard:
        """All rows, read by tasks of Ray: what `propagate` takes as `shard`."""
        return RayShard(tasks=self)

    def _at_once(self) -> int:
        """Twice as many tasks as there are cores, so that none waits for this process; machines may come and go."""
        if time.monotonic() > self._asked + _ASK_EVERY:
            self._asked, cores = time.monotonic(), self._ray.cluster_resources().get("CPU", 0)
            self._most = 2 * max(2, int(cores))
        return self._most

    def _get(self, reference: Any) -> Any:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise (error.cause if isinstance(error.cause, Exception) else error) from error


@dataclass(frozen=True)
class _Kept:
    """References of the blocks of rows with labels, and their sizes."""

    labels: weakref.ref[np.ndarray]
    rows: Rows
    blocks: list[Any]
    sizes: list[int]


@dataclass(frozen=True)
class RayShard(Shard):
    """Passes over rows as tasks of a Ray cluster, for `propagate` and all that take a shard."""

    tasks: RayTasks = field(kw_only=True)

    def each(self, work: Callable[[Block], Made], rows: Rows, labels: np.ndarray | None = None) -> Iterator[Made]:
        blocks, sizes = self.tasks.blocks(rows, labels)
        with progress("reading the rows", len(rows), unit="rows", is_passing=True) as bar:
            for size, made in zip(sizes, self.tasks.in_order(work, blocks), strict=True):
                bar.advance(size)
                yield made

    def total(self, work: Callable[[Block], Made], rows: Rows, labels: np.ndarray | None = None) -> Made:
        blocks, sizes = self.tasks.blocks(rows, labels)
        with progress("reading the rows", len(rows), unit="rows", is_passing=True) as bar:
            return self.tasks.total(work, blocks, lambda number: bar.advance(sizes[number]))


class RayRows(JoinedRows):
    """Rows that tasks of the cluster read and pass over, rather than this process."""

    def __init__(self, *parts: Rows, tasks: RayTasks) -> None:
        super().__init__(*parts)
        self.tasks = tasks

    @property
    def shard(self) -> Shard:
        return self.tasks.shard()

    def take(self, numbers: Sequence[int] | np.ndarray) -> Tensor:
        numbers = np.asarray(numbers, dtype=np.int64)
        joined = JoinedRows(*(part for part, _ in joined_parts(self)))  # one task for each
        wanted = joined.holders(numbers)
        items = [(joined.parts[part], numbers[places] - joined.starts[part]) for part, places in wanted]
        taken = torch.empty(len(numbers), self.dim)
        for (_, places), rows in zip(wanted, self.tasks.in_order(_take, items), strict=True):
            taken[torch.from_numpy(places)] = rows
        return taken


def _take(item: tuple[Rows, np.ndarray]) -> Tensor:
    rows, numbers = item
    return rows.take(numbers)


def _add(*parts: Any) -> Any:
    """In a worker: the sum of what a group of blocks has made."""
    torch.set_num_threads(1)
    _send_tensors_whole()
    return add(*parts)


_works: dict[str, Callable[[Any], Any]] = {}


def run(handle: list[Any], item: Any) -> Any:
    """In a worker: work(item), with one thread. The work, as a network with its weights, is read once in a process."""
    import ray

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", module=r"PIL\.")
    _send_tensors_whole()
    key = handle[0].hex()
    if key not in _works:
        _works.clear()
        _works[key] = ray.get(handle[0])
    return _works[key](item)


def _send_tensors_whole() -> None:
    """A result of megabytes is then read where it lies, instead of being copied twice."""
    import ray.util

    ray.util.register_serializer(torch.Tensor, serializer=Tensor.numpy, deserializer=read_only_tensor)


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ConfigError("--engine ray needs Ray: pip install 'ray[data]' pyarrow") from error
    return ray
