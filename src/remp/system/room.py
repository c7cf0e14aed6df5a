"""Memory that threads share: whoever finds no room waits until others are done."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


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
