"""Ray as the engine: blocks are tasks, and what a lost worker was at is done again by another."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import torch

from remp.errors import ConfigError


class RayEngine:
    """A Ray cluster. Sums are those of one process to the last bit: blocks depend on the data alone, each is computed
    with one thread, and what comes back is taken in the order of the blocks.

    address: of a running cluster, "auto" for that of this machine; None for one that is started here, with all cores.
    """

    def __init__(self, address: str | None = None) -> None:
        self._ray = _import_ray()
        if not self._ray.is_initialized():
            try:
                self._ray.init(address=address, include_dashboard=None if address else False, log_to_driver=False)
            except (ConnectionError, ValueError) as error:
                raise ConfigError(
                    f"no Ray cluster at {address!r}: start one with ray start --head ({error})"
                ) from error
        # A task whose worker or machine is lost is given to another, as often as it takes; an error of ours is not.
        self._run = self._ray.remote(num_cpus=1, max_retries=-1, retry_exceptions=False)(_run)

    def finished(self, work: Callable[[Any], Any], items: list[Any]) -> Iterator[tuple[int, Any]]:
        """(number of the item, work(item)) of each, in any order, as they are done."""
        handle, waiting = [self._ray.put(work)], {}
        numbers = iter(range(len(items)))
        try:
            while True:
                for number in numbers:
                    waiting[self._run.remote(handle, items[number])] = number
                    if len(waiting) >= self._at_once():
                        break
                if not waiting:
                    return
                done, _ = self._ray.wait(list(waiting), num_returns=1)
                number = waiting.pop(done[0])
                yield number, self._get(done[0])
        finally:
            for reference in waiting:
                self._ray.cancel(reference, force=True)

    def in_order(self, work: Callable[[Any], Any], items: list[Any]) -> Iterator[Any]:
        """work(item) of each, in their order. Never more than a window of results wait for one before them."""
        handle = [self._ray.put(work)]
        waiting: dict[int, Any] = {}
        next_item = 0
        try:
            for number in range(len(items)):
                while next_item < len(items) and next_item < number + self._at_once():
                    waiting[next_item] = self._run.remote(handle, items[next_item])
                    next_item += 1
                yield self._get(waiting.pop(number))
        finally:
            for reference in waiting.values():
                self._ray.cancel(reference, force=True)

    def _at_once(self) -> int:
        """Twice as many tasks as there are cores, so that none waits for this process; machines may come and go."""
        return 2 * max(2, int(self._ray.cluster_resources().get("CPU", 0)))

    def _get(self, reference: Any) -> Any:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise (error.cause if isinstance(error.cause, Exception) else error) from error


_works: dict[str, Callable[[Any], Any]] = {}


def _run(handle: list[Any], item: Any) -> Any:
    """In a worker: work(item), with one thread. The work, as a network with its weights, is read once in a process."""
    import warnings

    import ray

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", module=r"PIL\.")
    key = handle[0].hex()
    if key not in _works:
        _works.clear()
        _works[key] = ray.get(handle[0])
    return _works[key](item)


def _import_ray() -> Any:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        raise ConfigError("--engine ray needs Ray: pip install 'remp[ray]'") from error
    return ray
