"""Ctrl-C and SIGTERM as a flag that the training loop looks at between steps."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interruption:
    """Becomes true when the user or the system asks the run to stop."""

    def __init__(self) -> None:
        self.requested = False

    def __bool__(self) -> bool:
        return self.requested

    def _request(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True


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
