"""Progress bars for long work on a terminal; plain lines elsewhere."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

EVERY = 10.0  # seconds between two lines where no bar can be shown
_bar_is_shown = False


def is_first_process() -> bool:
    """Whether this is the only process or the first of those that torchrun started: the one that talks."""
    return os.environ.get("RANK", "0") == "0"


class Progress:
    """What long work reports to. This one shows nothing: another bar is running, or another process talks."""

    def advance(self, amount: int = 1, note: str = "") -> None:
        """So much more is done; `note` says how it goes."""

    def say(self, line: str) -> None:
        """Print a line without disturbing the bar."""
        if is_first_process():
            print(line, flush=True)


class _Lines(Progress):
    """A line on standard error every ten seconds, for files and pipes."""

    def __init__(self, title: str, total: int, unit: str, done: int) -> None:
        self._title, self._total, self._unit = title, total, unit
        self._first = self._done = done
        self._started = self._told = time.monotonic()

    def advance(self, amount: int = 1, note: str = "") -> None:
        self._done += amount
        now = time.monotonic()
        if now - self._told < EVERY:
            return
        self._told = now
        rate = (self._done - self._first) / (now - self._started)
        left = f", {_duration((self._total - self._done) / rate)} left" if rate and self._done < self._total else ""
        count = f"{self._done:,} of {self._total:,} {self._unit}".rstrip()
        note = f", {note}" if note else ""
        print(f"{self._title}: {count}, {rate:,.1f} a second{note}{left}", file=sys.stderr, flush=True)


def _duration(seconds: float) -> str:
    """75 as 1 min 15 s, 7300 as 2 h 2 min."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


class _Bar(Progress):
    def __init__(self, bar: Any, task: Any) -> None:
        self._bar, self._task = bar, task

    def advance(self, amount: int = 1, note: str = "") -> None:
        self._bar.update(self._task, advance=amount, **({"note": note} if note else {}))

    def say(self, line: str) -> None:
        self._bar.console.print(line, highlight=False, markup=False)


@contextmanager
def progress(title: str, total: int, *, unit: str = "", done: int = 0, is_passing: bool = False) -> Iterator[Progress]:
    """A bar with rate, note and time left, on standard error, unless another one is running. Where that is no terminal
    but a file or a pipe, there is a line every ten seconds instead. is_passing: the bar goes when it is full, for work
    that is done many times over."""
    global _bar_is_shown
    if _bar_is_shown or not is_first_process():
        yield Progress()
        return
    _bar_is_shown = True
    try:
        if sys.stderr.isatty():
            with _bar(title, total, unit, done, is_passing) as bar:
                yield bar
        else:
            yield _Lines(title, total, unit, done)
    finally:
        _bar_is_shown = False


@contextmanager
def _bar(title: str, total: int, unit: str, done: int, is_passing: bool) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress
    from rich.text import Text

    class Rate(TextColumn):
        def render(self, task: Any) -> Any:
            speed = task.finished_speed or task.speed
            return Text(f"{speed:,.1f} {unit}/s" if speed else "", style="cyan")

    note = TextColumn("{task.fields[note]}")
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(""),
        note,
        TimeRemainingColumn(),
    )
    with RichProgress(*columns, console=Console(stderr=True), transient=is_passing) as bar:
        yield _Bar(bar, bar.add_task(title, total=total, completed=done, note=""))
