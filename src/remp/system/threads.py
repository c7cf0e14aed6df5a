"""Independent pieces of work: each on a core of its own, or done ahead of whoever needs the results."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Made = TypeVar("Made")


def on_all_cores(
    work: Callable[[Item], Made], parts: Iterable[Item], *, stop: Callable[[], None] | None = None
) -> Iterator[Made]:
    """`work(part)` for each part, in their order, as many at once as torch has threads.

    For parts whose tensors are too small to be shared among cores: there, threads inside an operation wait for each
    other more than they help, and the more so on a busy machine. `work` has to enter modes of torch itself. stop: told
    when nobody asks for more, before the parts that are being worked on are waited for.
    """
    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(threads, "remp", initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield from pool.map(work, parts)
    finally:
        if stop:
            stop()
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # what a thread sets, threads made later inherit


def read_ahead(make: Callable[[Item], Made], items: Iterable[Item], *, ahead: int = 64) -> Generator[Made, None, None]:
    """make(item) of each item in order, made by a few threads, at most `ahead` before they are asked for. Whoever stops
    asking stops the threads."""
    waiting: deque[Future[Made]] = deque()
    pool = ThreadPoolExecutor(min(8, os.cpu_count() or 1))
    try:
        for item in items:
            waiting.append(pool.submit(make, item))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
