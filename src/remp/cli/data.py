"""`remp data`: list, prepare and look at data sets."""

from pathlib import Path
from typing import Annotated

import typer

from remp.cli.options import Command
from remp.datasets import DATASETS, ReadOptions, make_ready, prepare, read_index
from remp.datasets.base import list_prepared, prepared_folder
from remp.datasets.contact_sheet import write_contact_sheet

app = typer.Typer(help="Prepare data sets and look at them.", no_args_is_help=True)


@app.command("list", cls=Command)
def list_sets() -> None:
    """Every data set remp knows, whether it is prepared, and what it is prepared from."""
    ready = list_prepared()
    for name, dataset in DATASETS.items():
        typer.echo(f"{name:<16} {'prepared' if name in ready else 'not prepared':<13} {dataset.description}")
        typer.echo(f"{'':<30} from {dataset.sources}{'; or --download' if dataset.downloads else ''}")
    for name in ready:
        if name not in DATASETS:
            typer.echo(f"{name:<16} {'prepared':<13} {read_index(name)['source']}")


@app.command("prepare", cls=Command)
def prepare_set(
    name: Annotated[str, typer.Argument(help="a name from `remp data list`")],
    source: Annotated[Path | None, typer.Option("--from", help="the raw archive or folder")] = None,
    download: Annotated[bool, typer.Option("--download", help="fetch it from its official address")] = False,
    size: Annotated[int | None, typer.Option(help="pixels per side; default: that of the data set")] = None,
    rotations: Annotated[
        bool, typer.Option("--rotations", help="omniglot: add rotated characters as further classes")
    ] = False,
    save_as: Annotated[str | None, typer.Option("--name", help="prepare it under this name")] = None,
    seed: Annotated[int, typer.Option(help="folder: seed for splitting the classes")] = 0,
    force: Annotated[bool, typer.Option("--force", help="prepare it again even if it is prepared already")] = False,
) -> None:
    """Turn raw data into a prepared set."""
    options = ReadOptions(size=size, rotations=rotations, seed=seed)
    index = prepare(name, source, options=options, save_as=save_as, download=download, force=force, say=typer.echo)
    typer.echo(f"Prepared {index['name']!r} in {prepared_folder(index['name'])}")


@app.command("info", cls=Command)
def show_info(
    name: Annotated[str, typer.Argument(help="a prepared set")],
    sheet: Annotated[Path | None, typer.Option(help="PNG file to write examples to")] = None,
) -> None:
    """Classes, images, split and fingerprint of a prepared set, with a sheet of examples."""
    make_ready(name)
    index = read_index(name)
    typer.echo(f"{name}: {index['source']}; images {' x '.join(str(n) for n in index['image_size'])}")
    for split, entry in index["splits"].items():
        counts = entry["counts"]
        per_class = str(min(counts)) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
        typer.echo(f"{split:<6} {len(counts):>5} classes {sum(counts):>8} images, {per_class} per class")
        typer.echo(f"       fingerprint {entry['fingerprint']}")
    default = prepared_folder(name) / "examples.png"
    typer.echo(f"Examples: {write_contact_sheet(name, sheet or default, overwrite=sheet is None)}")
