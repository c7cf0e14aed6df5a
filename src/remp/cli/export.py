"""`remp export`: labels in the form that other tools read."""

from pathlib import Path
from typing import Annotated

import typer

FORMATS = "folders, imagefolder, huggingface, labelstudio, fiftyone, labels, model"


def export(
    results: Annotated[
        Path, typer.Argument(help="A folder that remp label or remp studio has written, or the journal of a studio.")
    ],
    to: Annotated[str, typer.Option("--to", help=f"The format: {FORMATS}.")],
    out: Annotated[Path | None, typer.Option(help="The new folder; default PICTURES-FORMAT.")] = None,
    pictures: Annotated[
        Path | None, typer.Option(help="The folder that was labelled; default RESULTS without -labelled.")
    ] = None,
    link: Annotated[bool, typer.Option("--link", help="Link to the pictures instead of copying them.")] = False,
    validation: Annotated[float, typer.Option(help="imagefolder: the share of each class in val/.")] = 0.2,
    seed: Annotated[int, typer.Option(help="imagefolder: of the draw which pictures are in val/.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an export that is there.")] = False,
) -> None:
    """Write labels for other tools: class folders, training folders, Hugging Face, Label Studio, FiftyOne, a model."""
    from remp.export import find_format
    from remp.export.labelled import ExportOptions, pictures_of, read_results
    from remp.labelling.output.result_folder import ResultFolder

    if to not in ("labels", "model"):
        find_format(to)
    options = ExportOptions(way="link" if link else "copy", validation=validation, seed=seed)
    source = pictures or pictures_of(results.with_suffix("") if results.suffix == ".journal" else results)
    name = f"{source.absolute().name}-{'labelled' if to == 'labels' else to}"
    result = ResultFolder(out or source.absolute().with_name(name), overwrite=overwrite, numbered=out is None)
    result.check()
    if (results / "labels.json").is_file() and to not in ("labels", "model"):
        labelled = read_results(results, pictures)
        folder = result.write(lambda new: find_format(to)(labelled, new, options))
        typer.echo(f"{folder}: {len(labelled.labelled):,} of {len(labelled.names):,} pictures have a label")
        return
    from remp.studio.exports import filler, session_of_results

    session = session_of_results(results, pictures)
    for notice in session.notices:
        typer.echo(notice, err=True)
    typer.echo(f"{result.write(filler(session, source, to, options))}: {len(session.task.names):,} pictures")
