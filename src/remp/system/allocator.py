"""Keep freed memory instead of handing it back: on Linux CPUs, page faults of fresh blocks cost as much as sums."""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_BYTES = 512 * 2**20
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
    return reuses and bool(mallopt(_M_TRIM_THRESHOLD, _BYTES))
