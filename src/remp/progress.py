"""Progress bars for work that takes longer than two seconds; silent where output is not a terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Progress(Protocol):
    """What long work reports to: how much is done, and a short word on how it goes."""

    def advance(self, amount: int = 1, note: str = "") -> None: ...


class _Silent:
    def advance(self, amount: int = 1, note: str = "") -> None:
        pass


class _Bar:
    def __init__(self, bar: Any, task: Any) -> None:
        self._bar, self._task = bar, task

    def advance(self, amount: int = 1, note: str = "") -> None:
        self._bar.update(self._task, advance=amount, **({"note": note} if note else {}))


@contextmanager
def progress(title: str, total: int, *, unit: str = "", done: int = 0) -> Iterator[Progress]:
    """A bar with rate, note and time left on a terminal (standard error); nothing elsewhere."""
    if not sys.stderr.isatty():
        yield _Silent()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    class Rate(TextColumn):
        def render(self, task: Any) -> Any:
            from rich.text import Text

            speed = task.finished_speed or task.speed
            return Text(f"{speed:.1f} {unit}/s" if speed else "", style="cyan")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(""),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
    )
    with RichProgress(*columns, console=Console(stderr=True), transient=False) as bar:
        yield _Bar(bar, bar.add_task(title, total=total, completed=done, note=""))
