"""`remp label`: label a few pictures, have the rest labelled."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from remp.cli.options import Address, EngineName, PictureBackbone, PictureSide, make_engine
from remp.errors import ConfigError, Interrupted


def label(
    folder: Annotated[
        str | None,
        typer.Argument(
            help="Pictures: sub-folders are classes, loose ones and unlabelled/ get labels. Or a dataset of remp embed."
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="A CSV file: file,label for pictures, row,label for rows; or a JSON export of Label Studio."),
    ] = None,
    embeddings: Annotated[
        Path | None, typer.Option(help="Features of your own instead of pictures: .npy, .npz or .parquet.")
    ] = None,
    backbone: PictureBackbone = None,
    side: PictureSide = None,
    model: Annotated[
        Path | None, typer.Option(help="What --save or remp studio wrote: labels new pictures without any example.")
    ] = None,
    together: Annotated[
        bool, typer.Option("--together", help="With --model: learn from all the new pictures together, too.")
    ] = False,
    save: Annotated[
        Path | None, typer.Option(help="Folder for the labelling as a model, to label new pictures with --model.")
    ] = None,
    reject: Annotated[float | None, typer.Option(help="Leave unlabelled what is less probable than this: 0.9.")] = None,
    unknown: Annotated[bool, typer.Option(help="Call what resembles no class unknown.")] = True,
    n_next: Annotated[int, typer.Option("--next", help="How many to propose for labelling next.")] = 10,
    copy: Annotated[bool, typer.Option("--copy", help="Also copy the pictures into a folder per class.")] = False,
    link: Annotated[bool, typer.Option("--link", help="Also link to the pictures from a folder per class.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for the results; default FOLDER-labelled beside it.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a result that is there.")] = False,
    engine: EngineName = "local",
    address: Address = None,
) -> None:
    """Label the rest of your pictures from a few examples. Your files are only read."""
    from remp.label_files import label as run
    from remp.label_files import label_new
    from remp.labelling.options import LabelOptions
    from remp.labelling.outcome import Labelling
    from remp.report.label.summary import stages_line, summary

    if model is not None and (labels or backbone or side or save):
        raise ConfigError(
            "--model has its own examples and backbone: leave --labels, --backbone, --side and --save out"
        )
    if together and model is None:
        raise ConfigError("--together is for --model: give both or none")
    if copy and link:
        raise ConfigError("--copy and --link were both given: give one of them")
    source, way = _source(folder, embeddings, backbone or side), "copy" if copy else "link" if link else None
    given: dict[str, Any] = {
        "reject": reject,
        "unknown": unknown,
        "n_next": n_next,
        "class_folders": way,
        "backbone": backbone,
        "side": side,
    }
    options = LabelOptions(**{name: value for name, value in given.items() if value is not None})
    done: Labelling | None
    try:
        engines = make_engine(engine, address)
        if model is not None:
            new = {"together": together, "out": out, "overwrite": overwrite, "engine": engines}
            done = label_new(source, model, options, **new)
        else:
            done = run(source, options, labels=labels, out=out, overwrite=overwrite, save=save, engine=engines)
    except KeyboardInterrupt as error:
        raise Interrupted("stopped; no result was written. The same command goes on where this one was") from error
    if done is not None and done.folder:
        written = sorted(path.name for path in done.folder.iterdir() if not path.name.startswith("."))
        speed = [stages_line(done.stages)] if done.stages else []
        saved = [f"{save}: the model; label new pictures with remp label NEW/ --model {save}"] if save else []
        _say("\n".join([summary(done), *speed, f"{done.folder}: {', '.join(written)}", *saved]))


def _source(folder: str | None, embeddings: Path | None, backbone: str | int | None) -> str | Path:
    if (folder is None) == (embeddings is None):
        raise ConfigError("what is to be labelled? Give either a folder of pictures or --embeddings FILE")
    if embeddings is not None and backbone is not None:
        raise ConfigError("--backbone and --side are for pictures; --embeddings are features already: leave them out")
    return folder or embeddings or Path()


def _say(text: str) -> None:
    """Print, whatever the terminal can show: a character that it cannot becomes an escape."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding))
