"""Ray as the engine: blocks of pictures stream through Ray Data, the sums of a layer are tasks."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from remp.rows import JoinedRows, Rows
from remp.rows.ray_tasks import RayRows, RayTasks, run

Item = TypeVar("Item")
Made = TypeVar("Made")


class RayEngine(RayTasks):
    """A Ray cluster for `embed` and `label`. The result is that of one process, bit for bit, even if machines fail.

    Parameters
    ----------
    address : str, optional
        Of a running cluster, such as "10.0.0.1:6379", or "auto" for that of this machine. By default one is started
        here, with all cores.

    Examples
    --------
    >>> import remp
    >>> remp.label("photos", engine=remp.RayEngine("auto"))  # doctest: +SKIP
    """

    def finished(self, work: Callable[[Item], Made], items: list[Item]) -> Iterator[tuple[int, Made]]:
        """Do some work with each item, on all workers.

        The items are a Ray dataset with one block each: no finished item waits for another, and if a worker is lost,
        only the item that it was working on is done again.

        Parameters
        ----------
        work : callable
            Takes an item.
        items : list
            What is to be done.

        Yields
        ------
        tuple
            (number of the item, work(item)), as they are finished, in any order.
        """
        if not items:
            return
        dumps, loads = self._ray.cloudpickle.dumps, self._ray.cloudpickle.loads
        with _quiet_ray_data() as data:
            numbered = [{"number": number, "item": dumps(item)} for number, item in enumerate(items)]
            made = data.from_items(numbered, override_num_blocks=len(items)).map(
                _made_of_row, fn_args=([self._ray.put(work)],), num_cpus=1
            )  # Ray Data gives what was lost with a worker or a machine to another, as often as it takes
            made.context.enable_progress_bars = False
            for batch in made.iter_batches(batch_size=None, prefetch_batches=0, batch_format="pyarrow"):
                for row in batch.to_pylist():
                    result = loads(row["made"])
                    if isinstance(result, _Failed):
                        raise result.error
                    yield row["number"], result

    def rows(self, rows: JoinedRows) -> Rows:
        """The same rows, read by tasks of Ray.

        Parameters
        ----------
        rows : JoinedRows
            Such as `parquet_dataset` returns.

        Returns
        -------
        Rows
            To be given to `propagate` or `ReMPClassifier.fit`.
        """
        return RayRows(*rows.parts, tasks=self)


@dataclass(frozen=True)
class _Failed:
    """An error of the work comes back like a result, and is raised here as it was there."""

    error: Exception


def _made_of_row(row: dict[str, Any], handle: list[Any]) -> dict[str, Any]:
    """In a worker: what the work makes of the item of a row."""
    from ray import cloudpickle

    try:
        made = run(handle, cloudpickle.loads(row["item"]))
    except Exception as error:
        made = _Failed(error)
    return {"number": row["number"], "made": cloudpickle.dumps(made)}


@contextmanager
def _quiet_ray_data() -> Iterator[Any]:
    """The module ray.data, which meanwhile says nothing: its lines would stand between those of the progress bar."""
    os.environ.setdefault("RAY_DATA_USAGE_DISABLED", "1")  # or Ray Data asks to report how it is used
    import ray.data

    log = logging.getLogger("ray.data")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield ray.data
    finally:
        log.setLevel(before)
