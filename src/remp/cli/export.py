"""`remp export`: labels in the form that other tools read."""

from pathlib import Path
from typing import Annotated

import typer

FORMATS = "folders, imagefolder, huggingface, labelstudio, fiftyone"


def export(
    results: Annotated[Path, typer.Argument(help="A folder that remp label, or Export in remp studio, has written.")],
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
    """Write labels for other tools: class folders, training folders, Hugging Face, Label Studio, FiftyOne."""
    from remp.export import find_format
    from remp.export.labelled import ExportOptions, read_results
    from remp.labelling.output.result_folder import ResultFolder

    write = find_format(to)
    options = ExportOptions(way="link" if link else "copy", validation=validation, seed=seed)
    labelled = read_results(results, pictures)
    place = out or labelled.folder.absolute().with_name(f"{labelled.folder.absolute().name}-{to}")
    result = ResultFolder(place, overwrite=overwrite, numbered=out is None)
    result.check()
    folder = result.write(lambda new: write(labelled, new, options))
    typer.echo(f"{folder}: {len(labelled.labelled):,} of {len(labelled.names):,} pictures have a label")
