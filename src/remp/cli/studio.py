"""`remp studio`: label a collection in the browser."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from remp.cli.options import PictureBackbone, PictureSide
from remp.errors import ConfigError


def studio(
    folder: Annotated[
        Path | None, typer.Argument(help="Pictures: sub-folders are classes, if there are any. Only read.")
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="A CSV file of labels: file,label.")] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Write 1,797 handwritten digits to FOLDER (digits-sample) and open them.")
    ] = False,
    backbone: PictureBackbone = None,
    side: PictureSide = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results; default FOLDER-labelled. The journal lies beside it.")
    ] = None,
    port: Annotated[int, typer.Option(help="Port to listen at; by default a free one.")] = 0,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    anyone: Annotated[
        bool, typer.Option("--anyone", help="With --host: other machines may reach your pictures, unencrypted.")
    ] = False,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
) -> None:
    """Label pictures in the browser, from nothing to finished, on your own machine."""
    from remp.studio.run import StudioOptions, run_studio
    from remp.studio.sample import SIDE_FOR_NETWORK, write_sample

    if sample:
        folder, side = write_sample(folder or Path("digits-sample")), side or SIDE_FOR_NETWORK
    if folder is None:
        raise ConfigError("which pictures? Give a folder, or --sample to try it with handwritten digits")
    chosen = {} if backbone is None else {"backbone": backbone}
    run_studio(
        folder,
        StudioOptions(
            labels=labels, out=out, side=side, port=port, host=host, anyone=anyone, browser=browser, say=_say, **chosen
        ),
    )
    sys.stdout.flush()
    os._exit(0)  # threads may still compute; everything is written, and nobody waits for the rest


def _say(text: str) -> None:
    typer.echo(text)
