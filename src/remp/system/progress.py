"""Progress bars for long work on a terminal; plain lines elsewhere."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_bar_is_shown = False


def is_first_process() -> bool:
    """Whether this is the only process or the first of those that torchrun started: the one that talks."""
    return os.environ.get("RANK", "0") == "0"


class Progress:
    """What long work reports to. This one shows no bar: output is not a terminal, or another bar is running."""

    def advance(self, amount: int = 1, note: str = "") -> None:
        """So much more is done; `note` says how it goes."""

    def say(self, line: str) -> None:
        """Print a line without disturbing the bar."""
        if is_first_process():
            print(line, flush=True)


class _Bar(Progress):
    def __init__(self, bar: Any, task: Any) -> None:
        self._bar, self._task = bar, task

    def advance(self, amount: int = 1, note: str = "") -> None:
        self._bar.update(self._task, advance=amount, **({"note": note} if note else {}))

    def say(self, line: str) -> None:
        self._bar.console.print(line, highlight=False, markup=False)


@contextmanager
def progress(title: str, total: int, *, unit: str = "", done: int = 0) -> Iterator[Progress]:
    """A bar with rate, note and time left, on standard error, if that is a terminal and no other bar is running."""
    global _bar_is_shown
    if _bar_is_shown or not is_first_process() or not sys.stderr.isatty():
        yield Progress()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress
    from rich.text import Text

    class Rate(TextColumn):
        def render(self, task: Any) -> Any:
            speed = task.finished_speed or task.speed
            return Text(f"{speed:,.1f} {unit}/s" if speed else "", style="cyan")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(""),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
    )
    _bar_is_shown = True
    try:
        with RichProgress(*columns, console=Console(stderr=True)) as bar:
            yield _Bar(bar, bar.add_task(title, total=total, completed=done, note=""))
    finally:
        _bar_is_shown = False
