"""What is to be labelled, read: pictures, a file or a Parquet dataset of embeddings; with labels, or for a model."""

import os
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from remp.backbones.embedding import Embedder
from remp.engine import Engine, Threads
from remp.engine.dataset import open_dataset
from remp.engine.embed import embed
from remp.engine.parts import EmbeddingParts
from remp.errors import CheckpointError, ConfigError
from remp.labelling.embedding import Stage, embed_pictures
from remp.labelling.embedding.cache import digest
from remp.labelling.pipeline import LabelOptions
from remp.labelling.tasks import Items, checked, unlabelled_task
from remp.labelling.tasks.embeddings import EMBEDDING_SUFFIXES, embedding_task, unlabelled_rows
from remp.labelling.tasks.folder import find_pictures, folder_task, listed_task
from remp.labelling.tasks.label_table import label_or_none
from remp.models import DEFAULT_EMBEDDER, find_embedder
from remp.propagation.fit import Learned
from remp.rows import ArrayRows, Rows, Shard
from remp.rows.dataset import is_part
from remp.system.files import Place, home, place


@dataclass(frozen=True)
class Found:
    """What is to be labelled, with features. seconds: what reading and embedding took. hashes: of files and of
    pictures, to find duplicates by. made_by: what made the features, for those who want to know later; nothing of
    features that came ready-made."""

    task: Items
    rows: Rows
    seconds: dict[str, float]
    hashes: dict[str, Any] = field(default_factory=dict)
    stages: dict[str, Stage] = field(default_factory=dict)
    made_by: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SavedModel:
    """A labelling that was saved to `path`, by which new items get their labels, whatever their folder or file says.
    given: an embedder in place of the backbone that the model names."""

    path: Path
    learned: Learned
    given: Embedder | None = None

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes as text: those of `ReMPClassifier` may be numbers."""
        return tuple(name if isinstance(name, str) else str(label_or_none(name)) for name in self.learned.classes)

    def embedder(self) -> Embedder:
        """The embedder that the features of the model were made with."""
        name = self.learned.backbone
        if self.given is None and name is None:
            raise ConfigError(
                f"{self.path} was learned from features of your own: give features made the same way, --embeddings FILE"
            )
        embedder = self.given or find_embedder(str(name), side=self.learned.side)
        self.check_embedder(f"{name} installed here", embedder.hash)
        return embedder

    def check_embedder(self, what: str, embedder: str) -> None:
        """Raise a CheckpointError if this hash of an embedder is not that of the model."""
        if embedder != self.learned.embedder:
            raise CheckpointError(f"{self.path} was not made with the {what}: use the one it was made with")

    def check_rows(self, rows: Rows, source: Path | Place) -> None:
        """Raise a ConfigError if the rows are of another length than those that the model was learned from."""
        if rows.dim != self.learned.examples.shape[1]:
            needed = self.learned.examples.shape[1]
            raise ConfigError(
                f"{source} has {rows.dim} numbers in a row, {self.path} was learned from rows of {needed}: give "
                "features made the same way, or another model"
            )


def read_source(
    source: str | Path,
    options: LabelOptions,
    *,
    labels: Path | None = None,
    model: SavedModel | None = None,
    engine: Engine | None = None,
    shard: Shard | None = None,
) -> Found:
    """Read what is to be labelled, and embed pictures. labels: a file of labels; without one, sub-folders or a column
    say them. model: the labels come from there instead. engine: who computes, by default this process."""
    path = local_name(source)
    is_chosen = options.side is not None or options.backbone != DEFAULT_EMBEDDER
    if is_chosen and not model and (is_dataset(source) or is_embeddings(path)):
        raise ConfigError(f"backbone and side are for pictures; {source} has embeddings: leave them out")
    if is_dataset(source):
        return _read_dataset(Place(str(source)), options, labels, model, engine or Threads())
    if is_embeddings(path):
        if engine is not None:
            raise ConfigError(f"an engine takes a folder; {path} is one file: write it as a Parquet dataset of several")
        return _read_embeddings(path, options, labels, model)
    if engine is not None:
        embedder = model.embedder() if model else find_embedder(options.backbone, side=options.side)
        key = digest(os.path.abspath(path).encode("utf-8", "surrogateescape"), embedder.hash.encode()).hex()
        kept = home() / "datasets" / key  # kept, so that the next run embeds only what is new
        if EmbeddingParts(place(kept)).is_outdated():
            shutil.rmtree(kept)
        folder = embed(path, kept, backbone=embedder, engine=engine).folder
        return _read_dataset(folder, options, labels, model, engine)
    return _read_pictures(path, options, labels, model, shard)


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


def _read_embeddings(source: Path, options: LabelOptions, labels: Path | None, model: SavedModel | None) -> Found:
    if options.class_folders:
        raise ConfigError(f"--{options.class_folders} is for pictures; {source} has embeddings")
    started = time.perf_counter()
    if model:
        names, rows = unlabelled_rows(source)
        model.check_rows(rows, source)
        task = unlabelled_task(names, model.class_names)
    else:
        task, rows = embedding_task(source, labels)
        task = checked(task, str(source), "give the label of some rows, and leave that of the others empty")
    return Found(task, rows, {"read": time.perf_counter() - started})


def _read_dataset(
    folder: Place, options: LabelOptions, labels: Path | None, model: SavedModel | None, engine: Engine
) -> Found:
    started = time.perf_counter()
    found = open_dataset(folder, engine)
    task = found.unlabelled_task(model.class_names) if model else found.task(labels)
    if options.class_folders and not task.paths:
        raise ConfigError(
            f"--{options.class_folders} needs the pictures, and those of {folder} are not on this machine"
        )
    if model:
        model.check_rows(found.rows, folder)
        if found.made_by and model.learned.embedder:  # features of others do not say what made them
            backbone = f"{found.made_by['backbone']} at {found.made_by['side']} pixels of {folder}"
            model.check_embedder(backbone, found.made_by["embedder"])
    else:
        task = checked(task, str(folder), "give the label of some rows with --labels, not of all")
    seconds = {"read": time.perf_counter() - started}
    return Found(task, engine.rows(found.rows), seconds, found.hashes, made_by=found.made_by)


def _read_pictures(
    source: Path, options: LabelOptions, labels: Path | None, model: SavedModel | None, shard: Shard | None
) -> Found:
    started = time.perf_counter()
    if model:
        embedder, tree = model.embedder(), find_pictures(source)
        paths = tuple(source / name for name in tree.names)
        task = unlabelled_task(tree.names, model.class_names, paths, tuple(tree.skipped))
    else:
        task = listed_task(source, labels) if labels else folder_task(source)
        how = _how_to_label(task, source, labels)
        task = checked(task, str(source), how)
        embedder = find_embedder(options.backbone, side=options.side)
    read = time.perf_counter() - started
    embedded = embed_pictures(task, embedder, shard=shard)
    task = embedded.task if model else checked(embedded.task, str(source), how)
    return Found(
        task,
        ArrayRows(embedded.values),
        {"read": read, "embed": embedded.seconds},
        {"content_hashes": embedded.content_hashes, "picture_hashes": embedded.picture_hashes},
        embedded.stages,
        {"backbone": embedder.name, "side": embedder.side, "embedder": embedder.hash},
    )


def _how_to_label(task: Items, source: Path, labels: Path | None) -> str:
    if labels:
        return (
            f"give the label of some files in {labels}, not of all (in a labels.csv of remp, the column status says "
            "which labels are yours: given)"
        )
    how = (
        "put examples into sub-folders named by their class and the others loose or into unlabelled/, or give --labels"
    )
    if len(task.class_names) == 1 and task.is_labelled.all():  # an archive often unpacks to one folder that has all
        inner = source / task.class_names[0]
        how = f"all lie in one folder; if that is the one with the class folders, label {str(inner)!r}. Else {how}"
    return how
