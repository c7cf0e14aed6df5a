"""`remp embed`: pictures to a Parquet dataset of embeddings."""

from typing import Annotated

import typer

from remp.cli.options import Address, EngineName, PictureSide, make_engine
from remp.errors import Interrupted
from remp.models import DEFAULT_EMBEDDER

_SHOWN = 10  # names of skipped pictures


def embed(
    source: Annotated[
        str, typer.Argument(help="A folder of pictures, or Parquet with a column image or path; s3:// and gs:// too.")
    ],
    out: Annotated[str, typer.Option(help="Folder for the dataset; that of a run that was stopped goes on.")],
    backbone: Annotated[
        str, typer.Option(help="Makes the features: a checkpoint of ours, timm:NAME, or the default.")
    ] = DEFAULT_EMBEDDER,
    side: PictureSide = None,
    block: Annotated[int, typer.Option(help="Pictures in a part.")] = 1024,
    engine: EngineName = "local",
    address: Address = None,
) -> None:
    """Embed pictures into a Parquet dataset, part by part. Run again, it goes on where it stopped."""
    from remp.engine.embed import embed as run

    try:
        done = run(source, out, backbone=backbone, side=side, block=block, engine=make_engine(engine, address))
    except KeyboardInterrupt as error:
        raise Interrupted(
            "stopped. The parts that are finished are kept; the same command goes on from there"
        ) from error
    new, rate = done.n - done.n_before, (done.n - done.n_before) / done.seconds
    print(f"{done.folder}: {done.n} embeddings, {new} of them new ({rate:.1f} pictures/s)")
    for name, reason in done.skipped[:_SHOWN]:
        print(f"skipped {name}: {reason}")
    if len(done.skipped) > _SHOWN:
        print(f"… {len(done.skipped)} skipped in all; _skipped.csv in the folder names them")
    if done.problems:
        print(f"{len(done.problems)} blocks could not be read, see above; run again, they are tried again")
