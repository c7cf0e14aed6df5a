"""Ctrl-C and SIGTERM as a flag that the training loop looks at between steps."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AT_ONCE = 0.5  # seconds; a launcher passes on the Ctrl-C that the terminal has sent already


class Interruption:
    """Becomes true when the user or the system asks the run to stop."""

    def __init__(self) -> None:
        self.requested = False
        self._time = 0.0

    def __bool__(self) -> bool:
        return self.requested

    def _request(self, number: int, frame: FrameType | None) -> None:
        if not self.requested:
            self.requested, self._time = True, time.monotonic()
        elif number == signal.SIGINT and time.monotonic() - self._time > AT_ONCE:
            raise KeyboardInterrupt


@contextmanager
def watch_interruptions() -> Iterator[Interruption]:
    """Within it, the first Ctrl-C or SIGTERM sets the flag; a second Ctrl-C stops at once."""
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, interruption._request) for number in signals}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
