"""The command line: thin calls of the library."""

import io
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from remp.cli import data as cli_data
from remp.cli import doctor as cli_doctor
from remp.cli import evaluate as cli_evaluate
from remp.cli import label as cli_label
from remp.cli import reproduce as cli_reproduce
from remp.cli import train as cli_train
from remp.cli.options import Command, SeveralCommand
from remp.errors import Interrupted, RempError
from remp.system.progress import is_first_process
from remp.version import __version__

_EXTRA = {"allow_extra_args": True, "ignore_unknown_options": True}  # settings of a method as flags

app = typer.Typer(
    help="Few-shot image classification: label pictures, train networks, evaluate and compare methods.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(cli_data.app, name="data", help="Prepare data sets and look at them.")
app.command(context_settings=_EXTRA, cls=cli_train.TrainCommand)(cli_train.train)
app.command(cls=Command)(cli_label.label)
app.command(cls=Command)(cli_label.embed)
app.command(cls=Command)(cli_doctor.doctor)
app.command(cls=Command)(cli_label.studio)
app.command(cls=Command)(cli_label.export)
app.command(cls=Command)(cli_evaluate.audit)
app.command(cls=Command)(cli_reproduce.reproduce)
app.command(cls=SeveralCommand)(cli_evaluate.compare)
app.command(context_settings=_EXTRA, cls=SeveralCommand)(cli_evaluate.evaluate)
app.command(cls=Command)(cli_evaluate.episodes)


@app.command(cls=Command)
def demo(
    out: Annotated[Path, typer.Option(help="Folder of the run.")] = Path("runs/demo"),
) -> None:
    """Learn to recognise characters never seen before: train ReMP, compare it with ProtoNet, write a report."""
    from remp.demo import run_demo

    run_demo(out)


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    if show:
        print(f"remp {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line; an error that the user can mend is one line, not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what a terminal cannot show becomes an escape
    try:
        try:
            app()
        except SystemExit as stop:
            if isinstance(stop.__context__, BrokenPipeError):  # which click takes for a failure
                raise stop.__context__ from None
            sys.stdout.flush()  # here, where a reader that is gone does no harm
            raise
    except Interrupted as error:
        if is_first_process():
            _tell(error)
        sys.exit(130)
    except BrokenPipeError:  # the reader is gone, as head is when it has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still to be flushed at the end
        sys.exit(0)
    except (RempError, OSError) as error:
        _tell(error)
        sys.exit(1)


def _tell(error: Exception) -> None:
    """Print an error. Names in a stranger's file must not move the cursor or change the terminal."""
    text = "".join(letter if letter.isprintable() or letter == "\n" else repr(letter)[1:-1] for letter in str(error))
    print(f"remp: {text}", file=sys.stderr)
