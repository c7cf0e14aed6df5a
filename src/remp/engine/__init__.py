"""What an engine can do, and this process as the engine; in `ray.py` it is a cluster. An engine embeds pictures into a
Parquet dataset of many parts, and passes over its rows."""

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from remp.rows import JoinedRows, Rows, Shard, current_shard
from remp.system.threads import on_all_cores

Item = TypeVar("Item")
Made = TypeVar("Made")


class Engine(Protocol):
    """Who does pieces of work. `work` is a function, or an object that is called, and holds no rows: it may be sent to
    other machines."""

    def finished(self, work: Callable[[Item], Made], items: list[Item]) -> Iterator[tuple[int, Made]]:
        """(number of the item, work(item)) of each, in any order, as they are done. When nobody asks for more, as after
        Ctrl-C, what is being worked on is broken off; where that cannot be done, work.stop() is called, if there is
        such a method, and the work ends early."""

    def in_order(self, work: Callable[[Item], Made], items: list[Item]) -> Iterator[Made]:
        """work(item) of each, in their order."""

    def shard(self) -> Shard:
        """The shard that `fit_rows` and others pass over rows by."""

    def rows(self, rows: JoinedRows) -> Rows:
        """The same rows, read where this engine works."""


class Threads:
    """This process: as many items at once as torch has threads, each with one."""

    def finished(self, work: Callable[[Item], Made], items: list[Item]) -> Iterator[tuple[int, Made]]:
        return enumerate(on_all_cores(work, items, stop=getattr(work, "stop", None)))

    def in_order(self, work: Callable[[Item], Made], items: list[Item]) -> Iterator[Made]:
        return on_all_cores(work, items)

    def shard(self) -> Shard:
        return current_shard() or Shard()

    def rows(self, rows: JoinedRows) -> Rows:
        return rows
