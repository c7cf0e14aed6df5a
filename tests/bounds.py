"""Calls in a child process with a limit on time and memory: what must not hang or take gigabytes is tried there.

Seconds are those of the processor: a machine with much to do takes longer by the clock.
"""

import math
import os
import pickle
import resource
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remp.errors import RempError

SECONDS, MEBIBYTES = 10.0, 512
_WAITING = 6  # by the clock, times the seconds of the processor


@dataclass(frozen=True)
class Outcome:
    """How a call ended: kind is "result", the name of an error of remp, "foreign", "time" or "memory"."""

    kind: str
    text: str
    seconds: float
    mebibytes: float

    @property
    def is_promised(self) -> bool:
        """A result or an error of remp, in time and in bounds."""
        return self.kind not in ("foreign", "time", "memory")


def bounded(
    call: Callable[[], Any], *, seconds: float = SECONDS, mebibytes: float = MEBIBYTES, most_mebibytes: int = 3072
) -> Outcome:
    """Call in a forked child and say how it ended. most_mebibytes: beyond which the child gets no more memory at all;
    what it uses of it is measured."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _serve(call, writer, seconds, most_mebibytes)
    os.close(writer)
    try:
        return _outcome(child, reader, seconds, mebibytes)
    finally:
        os.close(reader)


def told_by(child: int, reader: int, end: float) -> bytes:
    """All that a child writes to its pipe; it is killed if it has not ended at `end` of the monotonic clock."""
    content = b""
    while (left := end - time.monotonic()) > 0 and select.select([reader], [], [], left)[0]:
        if not (part := os.read(reader, 2**16)):
            return content
        content += part
    os.kill(child, signal.SIGKILL)
    return content


def _outcome(child: int, reader: int, seconds: float, mebibytes: float) -> Outcome:
    end = time.monotonic() + _WAITING * seconds
    content = told_by(child, reader, end)
    _, status, usage = os.wait4(child, 0)
    taken = usage.ru_utime + usage.ru_stime
    if not content:
        is_late = taken >= seconds or time.monotonic() >= end
        return Outcome("time" if is_late else "foreign", f"the process ended with status {status}", taken, 0.0)
    kind, text, peak = pickle.loads(content)
    return Outcome("memory" if peak > mebibytes else kind, text, taken, peak)


def _serve(call: Callable[[], Any], writer: int, seconds: float, most_mebibytes: int) -> None:
    """Call, write how it ended, and leave without what a process does at its end."""
    try:
        used = _status("VmSize")
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds),) * 2)
        resource.setrlimit(resource.RLIMIT_AS, (used + most_mebibytes * 2**20,) * 2)
        kind, text, peak = measured(call)
        with os.fdopen(writer, "wb") as file:
            file.write(pickle.dumps((kind, text[:2000], peak)))
    finally:
        os._exit(0)


def measured(call: Callable[[], Any]) -> tuple[str, str, float]:
    """Kind and text of how a call ended, and by how many MiB the memory of the process grew at most meanwhile."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = _status("VmRSS")
    try:
        result = call()
        kind, text = "result", str(result) if isinstance(result, tuple) else type(result).__name__
    except RempError as error:
        kind, text = type(error).__name__, str(error)
    except BaseException as error:
        kind, text = "foreign", f"{type(error).__name__}: {error}"
    return kind, text, (_status("VmHWM") - before) / 2**20


def _status(field: str) -> int:
    """Bytes of a line of /proc/self/status."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))
