"""The command line: thin calls of the library."""

import io
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from remp.cli import audit as cli_audit
from remp.cli import compare as cli_compare
from remp.cli import data as cli_data
from remp.cli import doctor as cli_doctor
from remp.cli import embed as cli_embed
from remp.cli import export as cli_export
from remp.cli import label as cli_label
from remp.cli import reproduce as cli_reproduce
from remp.cli import studio as cli_studio
from remp.cli import train as cli_train
from remp.cli.options import Distribution, SeveralShots, Shots, file_and_settings, make_protocol
from remp.errors import Interrupted, RempError
from remp.system.progress import is_first_process
from remp.version import __version__

EXTRA = {"allow_extra_args": True, "ignore_unknown_options": True}

app = typer.Typer(
    help="Few-shot image classification: train, evaluate and look at what happens.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(cli_data.app, name="data", help="Prepare data sets and look at them.")

app.command(context_settings=EXTRA, cls=cli_train.TrainCommand)(cli_train.train)
app.command()(cli_label.label)
app.command()(cli_embed.embed)
app.command()(cli_doctor.doctor)
app.command()(cli_studio.studio)
app.command()(cli_export.export)
app.command()(cli_audit.audit)
app.command()(cli_reproduce.reproduce)
app.command(context_settings=cli_compare.SEVERAL_SHOTS)(cli_compare.compare)


@app.command(context_settings=EXTRA)
def evaluate(
    context: typer.Context,
    checkpoint: Annotated[str, typer.Argument(help="A checkpoint, the folder of a run, or a shipped model.")],
    data: Annotated[str | None, typer.Option(help="A prepared data set; default the one trained on.")] = None,
    split: Annotated[str, typer.Option(help="Whose classes.")] = "test",
    n_way: int = 5,
    n_shot: SeveralShots = ["1"],
    n_query: int = 15,
    n_episodes: int = 600,
    seed: int = 0,
    distribution: Distribution = "balanced",
    transform: Annotated[
        str | None, typer.Option(help="Parts of mirror+zoom+power+l2+centre, all, or none; default the model's.")
    ] = None,
    episodes: Annotated[Path | None, typer.Option(help="A file of episodes instead of drawing them.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where to save the result; default runs/evaluations/.")] = None,
) -> None:
    """Score a trained method on episodes. Settings of the method can be changed: --layers 0 …"""
    from remp.datasets import open_data
    from remp.episodes.files import load_episodes
    from remp.evaluation.evaluate import evaluate as run
    from remp.models import load

    file, overrides = file_and_settings(checkpoint, context.args)
    if file is None:
        raise RempError("which checkpoint? Give a file, the folder of a run, or the name of a shipped model")
    trained = load(file, **overrides)
    images = open_data(data or trained.config.data, split)
    tasks: list[tuple[Any, Any, int | None]] = [
        (make_protocol(n_way, shots, n_query, distribution), None, seed) for shots in n_shot
    ]
    if episodes:
        saved_episodes = load_episodes(episodes, images)
        tasks = [(saved_episodes.protocol, saved_episodes.episodes, saved_episodes.seed)]
    for protocol, drawn, drawn_from in tasks:
        result = run(
            trained, images, protocol, n_episodes=n_episodes, seed=drawn_from, transform=transform, episodes=drawn
        )
        stem = trained.name.removesuffix(".safetensors")
        shown = f"{stem}-{images.name}-{protocol.n_way}way-{result.episode_hash[:8]}"
        saved = result.save(out or Path("runs/evaluations") / f"{shown}.json")
        print(f"{result.card()}\n  every episode's accuracy: {saved}")


@app.command()
def episodes(
    data: Annotated[str, typer.Argument(help="A prepared data set.")],
    out: Annotated[Path, typer.Argument(help="The file to write.")],
    split: str = "test",
    n_way: int = 5,
    n_shot: Shots = "1",
    n_query: int = 15,
    n_episodes: int = 600,
    seed: int = 0,
    distribution: Distribution = "balanced",
) -> None:
    """Draw episodes and write them to a file, so that others can score the very same ones."""
    from remp.datasets import open_data
    from remp.episodes.files import save_episodes
    from remp.evaluation.evaluate import draw_episodes

    images = open_data(data, split)
    protocol = make_protocol(n_way, n_shot, n_query, distribution)
    drawn = draw_episodes(images, protocol, n_episodes=n_episodes, seed=seed)
    digest = save_episodes(out, drawn, protocol=protocol, images=images, seed=seed)
    print(f"{out}: {n_episodes} episodes, {n_way}-way {n_shot}-shot, seed {seed}, hash {digest}")


@app.command()
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
    except BrokenPipeError:  # head has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still to be flushed at the end
        sys.exit(0)
    except (RempError, OSError) as error:
        _tell(error)
        sys.exit(1)


def _tell(error: Exception) -> None:
    """Print an error. Names in a stranger's file must not move the cursor or change the terminal."""
    text = "".join(letter if letter.isprintable() or letter == "\n" else repr(letter)[1:-1] for letter in str(error))
    print(f"remp: {text}", file=sys.stderr)


if __name__ == "__main__":
    main()
