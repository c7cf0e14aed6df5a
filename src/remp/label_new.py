"""Label new pictures with a labelling that was saved: `remp label new/ --model model/`."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from remp.backbones.embedding import Embedder
from remp.errors import CheckpointError, ConfigError
from remp.label_files import embedded_by, fill_result, is_embeddings, result_folder, title_of
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

_DEFAULTS = LabelOptions()


def label_new(
    source: Path,
    model: Path,
    options: LabelOptions = _DEFAULTS,
    *,
    together: bool = False,
    out: Path | None = None,
    overwrite: bool = False,
    embedder: Embedder | None = None,
) -> Labelling:
    """Label every picture below a folder, whatever sub-folder it lies in, or every row of a file of embeddings.

    Each is looked at by itself, with the calibration of the model: new pictures change nothing in it. together: the
    classes are learned again from the examples of the model, with all that is new as the unlabelled rest. embedder:
    made by the backbone that the model names unless given. Of the options, backbone, side and propagation are those of
    the model.
    """
    learned = read_labelling(model)
    place = result_folder(source, out, overwrite)
    place.check()
    started = time.perf_counter()
    if is_embeddings(source):
        embedder = None
        task, rows, hashes = _read_rows(source, model, learned, options)
    else:
        embedder = embedder or _find(model, learned)
        if embedder.hash != learned.embedder:
            raise CheckpointError(
                f"{model} was made with another {learned.backbone} than is installed here: its features would mean "
                "nothing"
            )
        task, rows, hashes = _read_pictures(source, embedder, learned)
    seconds = {"read": time.perf_counter() - started}
    if together:
        learned = learned.with_rows(rows)
    labelling = label_rows(
        task, rows, reject=options.reject, unknown=options.unknown, n_next=options.n_next, model=learned, **hashes
    )
    assert labelling is not None  # None is for the other processes of several
    made_with = {**embedded_by(embedder), "model": str(model), "together": together}
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


def _read_rows(
    source: Path, model: Path, learned: Learned, options: LabelOptions
) -> tuple[LabellingTask, Rows, dict[str, Any]]:
    names, rows = unlabelled_rows(source)
    if options.class_folders:
        raise ConfigError(f"--{options.class_folders} is for pictures; {source} has embeddings")
    if rows.dim != learned.examples.shape[1]:
        raise ConfigError(
            f"{source} has {rows.dim} numbers in a row, {model} was learned from {learned.examples.shape[1]}"
        )
    return LabellingTask(names, np.full(len(names), -1, np.int64), learned.classes), rows, {}


def _read_pictures(source: Path, embedder: Embedder, learned: Learned) -> tuple[LabellingTask, Rows, dict[str, Any]]:
    tree = find_pictures(source)
    paths = tuple(source / name for name in tree.names)
    unlabelled = np.full(len(paths), -1, np.int64)
    task = LabellingTask(tuple(tree.names), unlabelled, learned.classes, paths, tuple(tree.skipped))
    embedded = embed_pictures(task, embedder)
    hashes = {"content_hashes": embedded.content_hashes, "picture_hashes": embedded.picture_hashes}
    return embedded.task, ArrayRows(embedded.values), hashes
