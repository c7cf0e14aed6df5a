"""Label a few, have the rest labelled: from the user's files to files for the user."""

import os
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from remp.backbones.embedding import Embedder
from remp.engine.dataset import open_dataset
from remp.engine.embed import embed
from remp.engine.local import Engine, Threads
from remp.errors import ConfigError
from remp.labelling.embedding.embed import Stage, embed_pictures
from remp.labelling.embedding.record_files import digest
from remp.labelling.options import LabelOptions
from remp.labelling.outcome import FOLDERS, Labelling
from remp.labelling.output.class_folders import write_class_folders
from remp.labelling.output.result_folder import ResultFolder
from remp.labelling.output.tables import write_labels
from remp.labelling.pipeline import label_rows
from remp.labelling.tasks.embeddings import EMBEDDING_SUFFIXES, embedding_task
from remp.labelling.tasks.folder import folder_task
from remp.labelling.tasks.listed import listed_task
from remp.labelling.tasks.task import LabellingTask, checked
from remp.models import find_embedder
from remp.propagation.adaptive import Adaptive
from remp.propagation.learned import Learned
from remp.propagation.saved import FILE, save_labelling
from remp.report.label.report import write_label_report
from remp.rows import ArrayRows, Rows, Shard
from remp.rows.dataset import is_part
from remp.system.files import home
from remp.system.places import Place

_DEFAULTS = LabelOptions()


def label(
    source: str | Path,
    options: LabelOptions = _DEFAULTS,
    *,
    labels: str | Path | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    save: str | Path | None = None,
    engine: Engine | None = None,
) -> Labelling | None:
    """Label the rest of a folder of pictures, of a file or of a Parquet dataset of embeddings: some have a label.

    Files are only read; the results go to a folder of their own. Under torchrun each process does its share; the first
    one writes and returns, the others get None.

    Parameters
    ----------
    source : str or Path
        A folder of pictures, in which sub-folders with examples are the classes, or embeddings: a file (.npy, .npz,
        .parquet) or a Parquet dataset.
    options : LabelOptions
        Backbone, threshold for rejection and so on.
    labels : str or Path, optional
        A CSV file of labels. Without one, sub-folders are classes.
    out : str or Path, optional
        The folder for the results. Default: SOURCE-labelled beside the source, with a number if that is taken.
    overwrite : bool
        Replace a result that is there.
    save : str or Path, optional
        A folder for the model, to label other pictures with: `remp label new/ --model FOLDER`, `load_labelling`.
    engine : Engine, optional
        Who computes, by default this process. With a `remp.engine.ray.RayEngine`, what is to be labelled is a dataset
        (also an address such as s3://bucket/folder) or a folder of pictures, which is embedded into one first.

    Returns
    -------
    Labelling
        Labels, probabilities and findings, with `records()` and `to_pandas()`; `folder` holds the files.

    Examples
    --------
    Six rows of two numbers, of which two have a label:

    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import remp
    >>> with tempfile.TemporaryDirectory() as name:
    ...     folder = Path(name)
    ...     np.save(folder / "X.npy", [[1.0, 0.1], [0.1, 1.0], [0.9, 0.2], [0.8, 0.1], [0.2, 0.9], [0.3, 0.8]])
    ...     _ = (folder / "y.csv").write_text("row,label\\n0,cat\\n1,dog\\n")
    ...     done = remp.label(folder / "X.npy", remp.LabelOptions(unknown=False), labels=folder / "y.csv")
    ...     sorted(path.name for path in done.folder.iterdir() if not path.name.startswith("."))
    ['labels.csv', 'labels.json', 'report.html']
    >>> [record["label"] for record in done.records()]
    ['cat', 'dog', 'cat', 'cat', 'dog', 'dog']
    """
    origin, labels = str(source), None if labels is None else Path(labels)
    source = local_name(source)
    place = result_folder(source, None if out is None else Path(out), overwrite)
    shard = (engine or Threads()).shard()
    model_place = None if save is None else ResultFolder(Path(os.path.abspath(save)), overwrite, option="--save")
    if shard.rank == 0:
        place.check()
        if model_place:
            model_place.check()
    if is_dataset(origin):
        found = _read_dataset(Place(origin), labels, options, engine or Threads())
    elif is_embeddings(source):
        refuse_engine(source, engine)
        found = _read_embeddings(source, labels, options)
    elif engine is not None:
        embedded = embedded_folder(source, options.backbone, options.side, engine)
        found = _read_dataset(embedded, labels, options, engine)
    else:
        found = _read_pictures(source, labels, options, shard)
    labelling = _label(found, options, shard)
    if labelling is None:
        return None
    given = str(labels) if labels else FOLDERS if found.task.paths else "a column"
    made_with = {**found.made_by, "labels": given, **_said(options)}
    labelling = replace(labelling, made_with=made_with)
    started = time.perf_counter()
    folder = place.write(lambda folder: fill_result(folder, labelling, title_of(source), options))
    if model_place:
        model_place.write(lambda folder: save_labelling(folder / FILE, _learned(labelling, found)))
    seconds = {**labelling.seconds, "write": time.perf_counter() - started}
    return replace(labelling, seconds=seconds, folder=folder, stages=found.stages)


def is_embeddings(source: Path) -> bool:
    """Whether this is a file of embeddings rather than a folder of pictures."""
    return source.suffix.casefold() in EMBEDDING_SUFFIXES and not source.is_dir()


def is_dataset(source: str | Path) -> bool:
    """Whether this is a folder of Parquet files; an address always is."""
    if "://" in str(source):
        return True
    return Path(source).is_dir() and any(is_part(entry.name) for entry in Path(source).iterdir())


def local_name(source: str | Path) -> Path:
    """What results are named by: a path as it is, of an address the last part."""
    return Path(Place(str(source)).name) if "://" in str(source) else Path(source)


@dataclass(frozen=True)
class Found:
    """What is to be labelled, with features. hashes: of files and of pictures, to find duplicates by. made_by: what
    made the features, as `embedded_by` says it."""

    task: LabellingTask
    rows: Rows
    seconds: dict[str, float]
    hashes: dict[str, Any] = field(default_factory=dict)
    stages: dict[str, Stage] = field(default_factory=dict)
    made_by: dict[str, Any] = field(default_factory=dict)


def _read_embeddings(source: Path, labels: Path | None, options: LabelOptions) -> Found:
    if options.class_folders:
        raise ConfigError(f"--{options.class_folders} is for pictures; {source} has embeddings")
    started = time.perf_counter()
    task, rows = embedding_task(source, labels)
    task = checked(task, str(source), "give the label of some rows, and leave that of the others empty")
    return Found(task, rows, {"read": time.perf_counter() - started})


def _read_dataset(folder: Place, labels: Path | None, options: LabelOptions, engine: Engine) -> Found:
    started = time.perf_counter()
    found = open_dataset(folder, labels, engine)
    check_class_folders(options, found.task, folder)
    task = checked(found.task, str(folder), "give the label of some rows with --labels, not of all")
    seconds = {"read": time.perf_counter() - started}
    return Found(task, engine.rows(found.rows), seconds, found.hashes, made_by=found.made_by)


def refuse_engine(source: Path, engine: Engine | None) -> None:
    """Raise a ConfigError if an engine was asked for: one file of embeddings is not spread."""
    if engine is not None:
        raise ConfigError(f"an engine takes a folder; {source} is one file: write it as a Parquet dataset of several")


def check_class_folders(options: LabelOptions, task: LabellingTask, folder: Place) -> None:
    """Raise a ConfigError if pictures were asked for that are not here."""
    if options.class_folders and not task.paths:
        raise ConfigError(
            f"--{options.class_folders} needs the pictures, and those of {folder} are not on this machine"
        )


def embedded_folder(source: Path, backbone: str | Embedder, side: int | None, engine: Engine) -> Place:
    """The dataset of the embeddings of a folder of pictures, kept from run to run."""
    embedder = find_embedder(backbone, side=side) if isinstance(backbone, str) else backbone
    key = digest(os.path.abspath(source).encode("utf-8", "surrogateescape"), embedder.hash.encode()).hex()
    return embed(source, home() / "datasets" / key, backbone=embedder, engine=engine).folder


def _read_pictures(source: Path, labels: Path | None, options: LabelOptions, shard: Shard) -> Found:
    started = time.perf_counter()
    task, how = _picture_task(source, labels)
    task = checked(task, str(source), how)
    seconds = {"read": time.perf_counter() - started}
    backbone = options.backbone
    embedder = find_embedder(backbone, side=options.side) if isinstance(backbone, str) else backbone
    embedded = embed_pictures(task, embedder, shard=shard)
    hashes = {"content_hashes": embedded.content_hashes, "picture_hashes": embedded.picture_hashes}
    seconds["embed"] = embedded.seconds
    task, rows = checked(embedded.task, str(source), how), ArrayRows(embedded.values)
    return Found(task, rows, seconds, hashes, embedded.stages, embedded_by(embedder))


def _picture_task(source: Path, labels: Path | None) -> tuple[LabellingTask, str]:
    """The task, and how one gives labels in it."""
    if labels:
        return listed_task(source, labels), f"give the label of some files in {labels}, not of all"
    return folder_task(source), (
        "put examples into sub-folders named by their class and the others loose or into unlabelled/, or give --labels"
    )


def _label(found: Found, options: LabelOptions, shard: Shard) -> Labelling | None:
    labelling = label_rows(
        found.task,
        found.rows,
        reject=options.reject,
        unknown=options.unknown,
        n_next=options.n_next,
        propagation=options.propagation,
        shard=shard,
        **found.hashes,
    )
    return labelling and replace(labelling, seconds={**found.seconds, **labelling.seconds})


def _learned(labelling: Labelling, found: Found) -> Learned:
    """The labelling as a model."""
    assert labelling.fitted is not None
    learned = Learned.of(labelling.fitted, found.rows, labelling.task.labels, labelling.task.class_names)
    return learned.made_by(**found.made_by) if found.made_by else learned


def embedded_by(embedder: Embedder | None) -> dict[str, Any]:
    """What made the features, for those who want to know later; nothing of features that came ready-made."""
    return {} if embedder is None else {"backbone": embedder.name, "side": embedder.side, "embedder": embedder.hash}


def _said(options: LabelOptions) -> dict[str, Any]:
    """The options that decide about labels, in plain types."""
    rule = "adaptive" if isinstance(options.propagation, Adaptive) else "paper"
    settings = {**asdict(options.propagation), "rule": rule}
    return {"reject": options.reject, "unknown": options.unknown, "propagation": settings}


def result_folder(source: Path, out: Path | None, overwrite: bool) -> ResultFolder:
    """Beside the source unless said otherwise, and never inside it."""
    here = Path(os.path.abspath(source))
    if out is None:
        if not here.name:
            raise ConfigError(f"{source} has nothing beside it: give --out FOLDER for the results")
        return ResultFolder(here.with_name(f"{title_of(source)}-labelled"), overwrite, numbered=True)
    real, inside = Path(os.path.realpath(out)), Path(os.path.realpath(source))
    if inside in (real, *real.parents):
        raise ConfigError(f"--out {out} lies in {source}, which is only read: give a folder outside of it")
    return ResultFolder(Path(os.path.abspath(out)), overwrite)


def title_of(source: Path) -> str:
    here = Path(os.path.abspath(source))
    return here.stem if is_embeddings(source) else here.name


def fill_result(folder: Path, labelling: Labelling, title: str, options: LabelOptions) -> None:
    write_labels(labelling, folder)
    write_label_report(folder / "report.html", labelling, title=title)
    if options.class_folders:
        write_class_folders(labelling, folder, options.class_folders)
