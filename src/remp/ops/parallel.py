"""Independent pieces of work, each on a core of its own."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Part = TypeVar("Part")
Answer = TypeVar("Answer")


def on_all_cores(work: Callable[[Part], Answer], parts: Iterable[Part]) -> Iterator[Answer]:
    """`work(part)` for each part, in their order, as many at once as torch has threads.

    For parts whose tensors are too small to be shared among cores: there, threads inside an operation wait for each
    other more than they help, and the more so on a busy machine. `work` has to enter modes of torch itself.
    """
    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(threads, "remp", initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield from pool.map(work, parts)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # what a thread sets, threads made later inherit
