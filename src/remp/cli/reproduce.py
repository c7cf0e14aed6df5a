"""`remp reproduce`: the paper's tables and figures."""

from pathlib import Path
from typing import Annotated, Any

import typer

from remp.errors import ConfigError


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="Tables and figures (see --list), all, or check.")] = None,
    list_items: Annotated[bool, typer.Option("--list", help="Show every item with its cost, and stop.")] = False,
    scale: Annotated[float, typer.Option(help="Share of each training's length; 0.01 is a quick trial.")] = 1.0,
    seeds: Annotated[int | None, typer.Option(help="Number of trainings per row; default: as in the manifest.")] = None,
    workers: Annotated[int, typer.Option(help="Number of trainings at the same time, one thread each.")] = 2,
    data: Annotated[str | None, typer.Option(help="A prepared data set to use instead of that of each item.")] = None,
    train: Annotated[bool, typer.Option(help="Train what is missing; otherwise those cells stay empty.")] = True,
    again: Annotated[
        bool, typer.Option("--again", help="Score again what was scored before with the same weights.")
    ] = False,
    manifest: Annotated[Path, typer.Option(help="The list of trainings and rows.")] = Path("results/manifest.yaml"),
    runs: Annotated[Path, typer.Option(help="Folder of the trainings.")] = Path("runs/reproduce"),
    out: Annotated[Path | None, typer.Option(help="Folder for tables and figures; default: results/.")] = None,
) -> None:
    """Repeat tables and figures of the paper: train what is missing, score all rows on the same episodes.

    check: score the published checkpoints again on ten episodes each; fails if answers differ from the published ones.
    """
    from remp import reproduce as package

    if list_items:
        _show(package.listing(manifest=manifest, runs=runs))
        return
    if not 0 < scale <= 1:
        raise ConfigError(f"--scale is {scale}; needed a share of the full training, above 0 and at most 1")
    if names == ["check"]:
        n_checked = package.check(manifest=manifest)
        print(f"{n_checked} published rows were scored again: none has drifted")
        return
    folder = package.reproduce(
        names or [],
        manifest=manifest,
        scale=scale,
        seeds=seeds,
        workers=workers,
        data=data,
        runs=runs,
        out=out,
        train=train,
        again=again,
    )
    print(f"tables and figures: {folder}/")


def _show(items: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("item", "what it shows", box=None, header_style="bold")
    for column in ("trainings", "missing", "time for the missing trainings, one core"):
        table.add_column(column, justify="right")
    for item in items:
        hours = f"{item['minutes'] / 60:.1f} h" if item["minutes"] else "not measured"
        cost = hours if item["missing"] else "none"
        table.add_row(item["item"], item["title"], str(item["trainings"]), str(item["missing"]), cost)
    Console().print(table)
