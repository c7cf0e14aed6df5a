"""Label new pictures with a labelling that was saved: `remp label new/ --model model/`."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from remp.backbones.embedding import Embedder
from remp.engine.dataset import open_unlabelled
from remp.engine.local import Engine, Threads
from remp.errors import CheckpointError, ConfigError
from remp.label_files import (
    Found,
    check_class_folders,
    embedded_by,
    embedded_folder,
    fill_result,
    is_dataset,
    is_embeddings,
    local_name,
    refuse_engine,
    result_folder,
    title_of,
)
from remp.labelling.embedding.embed import embed_pictures
from remp.labelling.options import LabelOptions
from remp.labelling.outcome import Labelling
from remp.labelling.pipeline import label_rows
from remp.labelling.tasks.embeddings import unlabelled_rows
from remp.labelling.tasks.folder import find_pictures
from remp.labelling.tasks.task import LabellingTask
from remp.models import find_embedder
from remp.propagation.learned import Learned
from remp.propagation.saved import read_labelling
from remp.rows import ArrayRows, Rows
from remp.system.places import Place

_DEFAULTS = LabelOptions()


def label_new(
    source: str | Path,
    model: Path,
    options: LabelOptions = _DEFAULTS,
    *,
    together: bool = False,
    out: Path | None = None,
    overwrite: bool = False,
    embedder: Embedder | None = None,
    engine: Engine | None = None,
) -> Labelling:
    """Label every picture below a folder, whatever sub-folder it lies in, or every row of a file or of a Parquet
    dataset of embeddings.

    Each is looked at by itself, with the calibration of the model: new pictures change nothing in it. together: the
    classes are learned again from the examples of the model, with all that is new as the unlabelled rest. embedder:
    made by the backbone that the model names unless given. engine: as in `label`. Of the options, backbone, side and
    propagation are those of the model.
    """
    learned, origin, source = read_labelling(model), str(source), local_name(source)
    place, workers = result_folder(source, out, overwrite), engine or Threads()
    place.check()
    started = time.perf_counter()
    if is_dataset(origin):
        found = _read_dataset(Place(origin), model, learned, options, workers)
    elif is_embeddings(source):
        refuse_engine(source, engine)
        found = _read_rows(source, model, learned, options)
    else:
        embedder = embedder or _find(model, learned)
        _check_embedder(f"{learned.backbone} that is installed here", embedder.hash, model, learned)
        if engine is None:
            found = _read_pictures(source, embedder, learned)
        else:
            embedded = embedded_folder(source, embedder, None, engine)
            found = _read_dataset(embedded, model, learned, options, engine)
    seconds = {"read": time.perf_counter() - started}
    shard = engine.shard() if engine else None
    if together:
        learned = learned.with_rows(found.rows, shard)
    labelling = label_rows(
        found.task,
        found.rows,
        reject=options.reject,
        unknown=options.unknown,
        n_next=options.n_next,
        model=learned,
        shard=shard,
        **found.hashes,
    )
    assert labelling is not None  # None is for the other processes of several
    made_with = {**found.made_by, "model": str(model), "together": together}
    made_with |= {"reject": options.reject, "unknown": options.unknown}
    labelling = replace(labelling, seconds={**seconds, **labelling.seconds}, made_with=made_with)
    folder = place.write(lambda folder: fill_result(folder, labelling, title_of(source), options))
    return replace(labelling, folder=folder)


def _find(model: Path, learned: Learned) -> Embedder:
    if learned.backbone is None:
        raise ConfigError(
            f"{model} was learned from features of your own: give features made the same way, --embeddings FILE"
        )
    return find_embedder(learned.backbone, side=learned.side)


def _check_embedder(what: str, embedder: str, model: Path, learned: Learned) -> None:
    """Raise a CheckpointError if the hash of the embedder is not that of the model."""
    if embedder != learned.embedder:
        raise CheckpointError(f"{model} was made with another backbone than the {what}: features would mean nothing")


def _check_dim(rows: Rows, source: Path | Place, model: Path, learned: Learned) -> None:
    if rows.dim != learned.examples.shape[1]:
        raise ConfigError(
            f"{source} has {rows.dim} numbers in a row, {model} was learned from {learned.examples.shape[1]}"
        )


def _read_rows(source: Path, model: Path, learned: Learned, options: LabelOptions) -> Found:
    names, rows = unlabelled_rows(source)
    if options.class_folders:
        raise ConfigError(f"--{options.class_folders} is for pictures; {source} has embeddings")
    _check_dim(rows, source, model, learned)
    return Found(LabellingTask(names, np.full(len(names), -1, np.int64), learned.classes), rows, {})


def _read_dataset(folder: Place, model: Path, learned: Learned, options: LabelOptions, engine: Engine) -> Found:
    found = open_unlabelled(folder, learned.classes, engine)
    check_class_folders(options, found.task, folder)
    _check_dim(found.rows, folder, model, learned)
    if found.made_by and learned.embedder:  # of other features, nobody knows what made them
        backbone = f"{found.made_by['backbone']} at {found.made_by['side']} pixels of {folder}"
        _check_embedder(backbone, found.made_by["embedder"], model, learned)
    return Found(found.task, engine.rows(found.rows), {}, found.hashes, made_by=found.made_by)


def _read_pictures(source: Path, embedder: Embedder, learned: Learned) -> Found:
    tree = find_pictures(source)
    paths = tuple(source / name for name in tree.names)
    unlabelled = np.full(len(paths), -1, np.int64)
    task = LabellingTask(tuple(tree.names), unlabelled, learned.classes, paths, tuple(tree.skipped))
    embedded = embed_pictures(task, embedder)
    hashes = {"content_hashes": embedded.content_hashes, "picture_hashes": embedded.picture_hashes}
    return Found(embedded.task, ArrayRows(embedded.values), {}, hashes, made_by=embedded_by(embedder))
