"""Progress where there is no terminal: a line now and then."""

import sys
from io import StringIO

import pytest

from remp.system import progress as module
from remp.system.progress import progress


@pytest.fixture
def clock(monkeypatch):
    """The time that the module sees, in a list of one number."""
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_a_line_every_ten_seconds_says_how_far_it_is(capsys, clock):
    with progress("embedding", 1000, unit="images") as bar:
        for _ in range(100):
            clock[0] += 0.25
            bar.advance()
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "embedding: 40 of 1,000 images, 4.0 a second, 4 min 0 s left",
        "embedding: 80 of 1,000 images, 4.0 a second, 3 min 50 s left",
    ]


def test_what_was_done_before_counts_but_not_for_the_speed(capsys, clock):
    with progress("training", 20_000, done=9_990) as bar:
        clock[0] += 10
        bar.advance(10, note="loss 1.2")
    assert capsys.readouterr().err == "training: 10,000 of 20,000, 1.0 a second, loss 1.2, 2 h 46 min left\n"


def test_work_inside_other_work_is_silent_and_so_is_quick_work(capsys, clock):
    with progress("outer", 2) as outer, progress("inner", 2) as inner:
        inner.advance()
        clock[0] += 20
        inner.advance()
        clock[0] -= 20
        outer.advance()
    with progress("next", 1) as bar:
        bar.advance()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("is_passing", [True, False])
def test_on_a_terminal_the_bar_of_a_pass_goes_when_it_is_full(monkeypatch, is_passing):
    class Terminal(StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with progress("reading the rows", 2, unit="rows", is_passing=is_passing) as bar:
        bar.advance(2)
    erased = "\x1b[2K"  # what stands in the line that the cursor is in
    left = screen.getvalue().rpartition(erased)[2]
    assert "reading the rows" in screen.getvalue()
    assert ("reading the rows" in left) != is_passing
