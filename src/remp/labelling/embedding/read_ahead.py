"""Threads that work ahead of whoever needs their results, but never far."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")


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
