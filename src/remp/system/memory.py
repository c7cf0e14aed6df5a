"""Memory of the C library and of threads: freed blocks kept where they are reused (on Linux CPUs, page faults of fresh
ones cost as much as sums), handed back where they are not, and room for so many bytes at once."""

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_BYTES = 512 * 2**20
# Free memory at the end of the heap beyond which glibc gives it back: the most that fits, since a training step on
# large images frees more than 1 GiB, and would fault it in again in the next step.
_MOST_KEPT = 2**31 - 1
_BYTES_OLD = 32 * 2**20  # the most that glibc before 2.35 takes as a threshold of mmap


def keep_freed_memory() -> bool:
    """Tell glibc to reuse big freed blocks; returns whether it was understood (False on other C libraries)."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    reuses = any(mallopt(_M_MMAP_THRESHOLD, size) for size in (_BYTES, _BYTES_OLD))
    return reuses and bool(mallopt(_M_TRIM_THRESHOLD, _MOST_KEPT))


def hand_back_freed_memory() -> None:
    """Have glibc give freed blocks to the system: it keeps those that a thread has freed for this thread alone."""
    if sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):
            ctypes.CDLL("libc.so.6").malloc_trim(0)


class Room:
    """Room for so many bytes. What is larger than all of it gets in alone."""

    def __init__(self, n_bytes: int) -> None:
        self._size = self._free = n_bytes
        self._change = threading.Condition()

    @contextmanager
    def take(self, n_bytes: int) -> Iterator[None]:
        """Hold so many bytes while the block runs. A thread that holds some must not ask for more."""
        n_bytes = min(n_bytes, self._size)
        with self._change:
            self._change.wait_for(lambda: self._free >= n_bytes)
            self._free -= n_bytes
        try:
            yield
        finally:
            with self._change:
                self._free += n_bytes
                self._change.notify_all()
