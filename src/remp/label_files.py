"""Label a few, have the rest labelled, or new ones by a saved labelling: from files of the user to files for them."""

import os
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from remp.backbones.embedding import Embedder
from remp.engine import Engine, Threads
from remp.errors import ConfigError
from remp.label_sources import Found, SavedModel, is_embeddings, local_name, read_source
from remp.labelling.outcome import FOLDERS, Labelling
from remp.labelling.output.class_folders import write_class_folders
from remp.labelling.output.result_folder import ResultFolder, check_outside
from remp.labelling.output.tables import write_labels
from remp.labelling.pipeline import LabelOptions, label_rows
from remp.labelling.tasks import check_not_empty
from remp.propagation.adaptive import Adaptive
from remp.propagation.fit import Learned
from remp.propagation.saved import FILE, read_labelling, save_labelling
from remp.report.label import write_label_report

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
    """Label the rest of a folder of pictures, or of a file or dataset of embeddings, of which some have a label.

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
        Replace a result that exists.
    save : str or Path, optional
        A folder for the model, to label other pictures with: `remp label new/ --model FOLDER`, `load_labelling`.
    engine : Engine, optional
        What computes; by default this process. With a `remp.engine.ray.RayEngine`, what is to be labelled is a dataset
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
    for what, value in (("source", source), ("labels", labels)):
        if not isinstance(value, str | os.PathLike | None):
            raise ConfigError(
                f"{what} is of the type {type(value).__name__}; needed a path. For arrays: ReMPClassifier().fit(X, y)"
            )
    name = local_name(source)
    place = result_folder(name, None if out is None else Path(out), overwrite)
    shard = (engine or Threads()).shard()
    model_place = None if save is None else _model_folder(Path(save), name, place, overwrite)
    if shard.rank == 0:
        place.check()
        if model_place:
            model_place.check()
    given = None if labels is None else Path(labels)
    found = read_source(source, options, labels=given, engine=engine, shard=shard)
    labelling = label_rows(found.task, found.rows, options, **found.hashes, shard=shard)
    if labelling is None:
        return None
    said = str(given) if given else FOLDERS if found.task.paths else "a column"
    rule = "adaptive" if isinstance(options.propagation, Adaptive) else "paper"
    made_with = {
        "labels": said,
        "reject": options.reject,
        "unknown": options.unknown,
        "propagation": {**asdict(options.propagation), "rule": rule},
    }
    labelling = _written(labelling, place, found, options, name, made_with)
    if model_place:
        assert labelling.fitted is not None  # for mypy: label_rows gives what it learned
        learned = Learned.of(labelling.fitted, found.rows, labelling.task.labels, labelling.task.class_names)
        learned = replace(learned, **found.made_by)
        model_place.write(lambda folder: save_labelling(folder / FILE, learned))
    return labelling


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
) -> Labelling | None:
    """Label every picture below a folder, whatever sub-folder it lies in, or every row of a file or of a Parquet
    dataset of embeddings, by a labelling that was saved.

    Each is looked at by itself, with the calibration of the model: new pictures change nothing in it. together: the
    classes are learned again from the examples of the model, with all that is new as the unlabelled rest. embedder:
    made by the backbone that the model names unless given. engine: as in `label`. Of the options, backbone, side and
    propagation are those of the model. Under torchrun, as in `label`: None is for all processes but the first.
    """
    learned, name = read_labelling(model), local_name(source)
    place = result_folder(name, out, overwrite)
    shard = (engine or Threads()).shard()
    if shard.rank == 0:
        place.check()
    found = read_source(source, options, model=SavedModel(model, learned, embedder), engine=engine, shard=shard)
    check_not_empty(found.task, str(source))
    started = time.perf_counter()
    learned = learned.with_rows(found.rows, shard) if together else learned
    learning = {"learn": time.perf_counter() - started} if together else {}
    labelling = label_rows(found.task, found.rows, options, **found.hashes, shard=shard, model=learned)
    if labelling is None:
        return None
    labelling = replace(labelling, seconds={**learning, **labelling.seconds})
    made_with = {"model": str(model), "together": together, "reject": options.reject, "unknown": options.unknown}
    return _written(labelling, place, found, options, name, made_with)


def _written(
    labelling: Labelling,
    place: ResultFolder,
    found: Found,
    options: LabelOptions,
    source: Path,
    made_with: dict[str, Any],
) -> Labelling:
    """Write the files of a labelling; returns it with their folder and all that it was made with."""
    seconds = {**found.seconds, **labelling.seconds}
    labelling = replace(labelling, seconds=seconds, made_with={**found.made_by, **made_with})

    def fill(folder: Path) -> None:
        write_labels(labelling, folder)
        write_label_report(folder / "report.html", labelling, title=_title(source))
        if options.class_folders:
            write_class_folders(labelling, folder, options.class_folders)

    started = time.perf_counter()
    folder = place.write(fill)
    seconds = {**labelling.seconds, "write": time.perf_counter() - started}
    return replace(labelling, seconds=seconds, folder=folder, stages=found.stages)


def result_folder(source: Path, out: Path | None, overwrite: bool) -> ResultFolder:
    """Where results go: beside the source unless said otherwise, and never inside it."""
    here = Path(os.path.abspath(source))
    if out is None:
        if not here.name:
            raise ConfigError(f"the results cannot be put beside {source}: give --out FOLDER")
        return ResultFolder(here.with_name(f"{_title(source)}-labelled"), overwrite, numbered=True)
    check_outside(out, source, "--out")
    return ResultFolder(Path(os.path.abspath(out)), overwrite)


def _model_folder(save: Path, source: Path, results: ResultFolder, overwrite: bool) -> ResultFolder:
    """Where the model goes: outside of the source, too, and not where the results go."""
    check_outside(save, source, "--save")
    if os.path.realpath(save) == os.path.realpath(results.path):
        raise ConfigError(f"--save {save} is where the results go: give the model a folder of its own")
    return ResultFolder(Path(os.path.abspath(save)), overwrite, option="--save")


def _title(source: Path) -> str:
    here = Path(os.path.abspath(source))
    return here.stem if is_embeddings(source) else here.name
