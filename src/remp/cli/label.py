"""`remp label`, `studio`, `embed` and `export`: label a few pictures, have the rest labelled, use the labels."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from remp.cli.options import Address, EngineName, PictureBackbone, PictureSide, make_engine
from remp.errors import ConfigError, Interrupted

if TYPE_CHECKING:
    from remp.export import LabelledPictures

_SKIPPED_SHOWN = 10  # names of pictures
_FORMATS = "folders, imagefolder, huggingface, labelstudio, fiftyone, labels, model"


def label(
    folder: Annotated[
        str | None,
        typer.Argument(
            help="Pictures: sub-folders are classes, all others and unlabelled/ get labels. Or a dataset of remp embed."
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
        bool, typer.Option("--together", help="With --model: also learn from all the new pictures together.")
    ] = False,
    save: Annotated[
        Path | None,
        typer.Option(help="Save the labelling as a model in this folder, to label new pictures with --model."),
    ] = None,
    reject: Annotated[float | None, typer.Option(help="Give no label below this probability, e.g. 0.9.")] = None,
    unknown: Annotated[bool, typer.Option(help="Mark items that resemble no class as unknown.")] = True,
    n_next: Annotated[int, typer.Option("--next", help="How many items to propose for labelling next.")] = 10,
    copy: Annotated[bool, typer.Option("--copy", help="Also copy the pictures into one folder per class.")] = False,
    link: Annotated[bool, typer.Option("--link", help="Also link to the pictures from one folder per class.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results; default: FOLDER-labelled beside it.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a result that exists.")] = False,
    engine: EngineName = "local",
    address: Address = None,
) -> None:
    """Label the rest of your pictures from a few examples. Your files are only read."""
    from remp.label_files import label as run
    from remp.label_files import label_new
    from remp.labelling.outcome import Labelling
    from remp.labelling.pipeline import LabelOptions
    from remp.models import DEFAULT_EMBEDDER
    from remp.report.label.summary import stages_line, summary

    if model is not None and (labels or backbone or side or save):
        raise ConfigError(
            "--model has its own examples and backbone: leave --labels, --backbone, --side and --save out"
        )
    if together and model is None:
        raise ConfigError("--together is for --model: give both or none")
    if copy and link:
        raise ConfigError("--copy and --link were both given: give one of them")
    source = _source(folder, embeddings, backbone or side)
    options = LabelOptions(
        backbone=DEFAULT_EMBEDDER if backbone is None else backbone,
        side=side,
        reject=reject,
        unknown=unknown,
        n_next=n_next,
        class_folders="copy" if copy else "link" if link else None,
    )
    done: Labelling | None
    try:
        engines = make_engine(engine, address)
        if model is not None:
            done = label_new(source, model, options, together=together, out=out, overwrite=overwrite, engine=engines)
        else:
            done = run(source, options, labels=labels, out=out, overwrite=overwrite, save=save, engine=engines)
    except KeyboardInterrupt as error:
        raise Interrupted("stopped; no result was written. Run the same command again to continue") from error
    if done is not None and done.folder:
        written = sorted(path.name for path in done.folder.iterdir() if not path.name.startswith("."))
        speed = [stages_line(done.stages)] if done.stages else []
        rows = "backbone" not in done.made_with
        what = "rows with remp label --embeddings NEW" if rows else "pictures with remp label NEW/"
        saved = [f"{save}: the model; label new {what} --model {save}"] if save else []
        print("\n".join([summary(done), *speed, f"{done.folder}: {', '.join(written)}", *saved]))


def _source(folder: str | None, embeddings: Path | None, backbone: str | int | None) -> str | Path:
    from remp.label_sources import is_dataset, is_embeddings

    if (folder is None) == (embeddings is None) or folder == "":
        raise ConfigError("give what to label: either a folder of pictures or --embeddings FILE")
    if embeddings is None:
        return str(folder)
    if backbone is not None:
        raise ConfigError("--backbone and --side are for pictures; --embeddings are features already: leave them out")
    if not is_embeddings(embeddings) and not is_dataset(embeddings):
        raise ConfigError(
            f"--embeddings {embeddings} is not a file of features; needed .npy, .npz or .parquet, or a folder of "
            "Parquet files. A folder of pictures is given without --embeddings"
        )
    return embeddings


def studio(
    folder: Annotated[
        Path | None, typer.Argument(help="Pictures; sub-folders, if any, are classes. The files are only read.")
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="A CSV file of labels: file,label.")] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Write 1,797 handwritten digits to FOLDER (digits-sample) and open them.")
    ] = False,
    backbone: PictureBackbone = None,
    side: PictureSide = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results; default: FOLDER-labelled. The journal is beside it.")
    ] = None,
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 0,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    anyone: Annotated[
        bool, typer.Option("--anyone", help="With --host: other machines may reach your pictures, unencrypted.")
    ] = False,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
) -> None:
    """Label pictures in the browser, with or without labels to start from, on your own machine."""
    from remp.models import DEFAULT_EMBEDDER
    from remp.studio.run import SIDE_FOR_NETWORK, StudioOptions, run_studio, write_sample

    if sample:
        folder, side = write_sample(folder or Path("digits-sample")), side or SIDE_FOR_NETWORK
    if folder is None:
        raise ConfigError("which pictures? Give a folder, or --sample to try it with handwritten digits")
    backbone = DEFAULT_EMBEDDER if backbone is None else backbone
    options = StudioOptions(labels, out, backbone, side, host, port, anyone, browser, say=typer.echo)
    run_studio(folder, options)
    sys.stdout.flush()
    os._exit(0)  # threads may still compute; everything is written, and nobody waits for the rest


def embed(
    source: Annotated[
        str, typer.Argument(help="A folder of pictures, or Parquet with a column image or path; s3:// and gs:// too.")
    ],
    out: Annotated[str, typer.Option(help="Folder for the dataset; give that of a stopped run to continue it.")],
    backbone: PictureBackbone = None,
    side: PictureSide = None,
    block: Annotated[int, typer.Option(help="Pictures per part.")] = 1024,
    engine: EngineName = "local",
    address: Address = None,
) -> None:
    """Embed pictures into a Parquet dataset, part by part. A second run continues where the first stopped."""
    from remp.engine.embed import embed as run
    from remp.models import DEFAULT_EMBEDDER

    try:
        chosen = backbone or DEFAULT_EMBEDDER
        done = run(source, out, backbone=chosen, side=side, block=block, engine=make_engine(engine, address))
    except KeyboardInterrupt as error:
        raise Interrupted(
            "stopped. The parts that are finished are kept; the same command goes on from there"
        ) from error
    new, rate = done.n - done.n_before, (done.n - done.n_before) / done.seconds
    print(f"{done.folder}: {done.n} embeddings, {new} of them new ({rate:.1f} pictures/s)")
    for name, reason in done.skipped[:_SKIPPED_SHOWN]:
        print(f"skipped {name}: {reason}")
    if len(done.skipped) > _SKIPPED_SHOWN:
        print(f"… {len(done.skipped)} skipped in all; _skipped.csv in the folder names them")
    if done.problems:
        print(f"{len(done.problems)} blocks could not be read, see above; run the same command to try again")


def export(
    results: Annotated[
        Path, typer.Argument(help="A folder that remp label or remp studio has written, or the journal of a studio.")
    ],
    to: Annotated[str, typer.Option("--to", help=f"The format: {_FORMATS}.")],
    out: Annotated[Path | None, typer.Option(help="The new folder; default: PICTURES-FORMAT.")] = None,
    pictures: Annotated[
        Path | None, typer.Option(help="The folder that was labelled; default: RESULTS without -labelled.")
    ] = None,
    link: Annotated[bool, typer.Option("--link", help="Link to the pictures instead of copying them.")] = False,
    validation: Annotated[
        float | None, typer.Option(help="imagefolder: the share of each class in val/; default: 0.2.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="imagefolder: seed for choosing the pictures of val/; default: 0.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an export that exists.")] = False,
) -> None:
    """Write labels for other tools: class folders, training folders, Hugging Face, Label Studio, FiftyOne, a model."""
    from remp.export import (
        FORMATS,
        WITH_SESSION,
        ExportOptions,
        check_options,
        is_of_label,
        label_again,
        later_journal,
        of_labelling,
        pictures_of,
        read_results,
        said_with,
    )
    from remp.labelling.output.result_folder import ResultFolder

    check_options(to, link=link, validation=validation, seed=seed)
    options = ExportOptions(
        way="link" if link else "copy",
        validation=ExportOptions.validation if validation is None else validation,
        seed=ExportOptions.seed if seed is None else seed,
    )
    source = pictures or pictures_of(results.with_suffix("") if results.suffix == ".journal" else results)
    name = f"{source.absolute().name}-{'labelled' if to == 'labels' else to}"
    result = ResultFolder(out or source.absolute().with_name(name), overwrite=overwrite, numbered=out is None)
    if to == "labels" and is_of_label(said_with(results)):
        raise ConfigError(
            f"{results} has its labels already; if you have corrected them, label again: {label_again(results, source)}"
        )
    result.check()
    journal = later_journal(results)
    if journal:
        typer.echo(
            f"{journal} has later labels, of remp studio; to export those, give it in place of {results}", err=True
        )
    if (results / "labels.json").is_file() and to not in WITH_SESSION:
        labelled = read_results(results, pictures)
        folder = result.write(lambda new: FORMATS[to](labelled, new, options))
        typer.echo(_labelled(folder, labelled))
        return
    from remp.studio.exports import fill, session_of_results

    session = session_of_results(results, pictures)
    for notice in session.notices:
        typer.echo(notice, err=True)
    prediction = session.final()
    folder = result.write(lambda new: fill(new, session, prediction, source, to, options))
    if to == "model":
        examples = prediction.labelling.task.is_labelled
        typer.echo(f"{folder}: learned from {examples.sum():,} labelled and {(~examples).sum():,} other pictures")
    else:
        typer.echo(_labelled(folder, of_labelling(prediction.labelling, source)))


def _labelled(folder: Path, labelled: "LabelledPictures") -> str:
    return f"{folder}: {len(labelled.labelled):,} of {len(labelled.names):,} pictures have a label"
