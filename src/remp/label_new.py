"""Label new pictures with a classifier that was saved: `remp label --model`."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from remp.backbones.embedding import Embedder
from remp.errors import CheckpointError
from remp.estimator.saved import SavedClassifier, load_classifier
from remp.label_files import result_folder
from remp.labelling.embedding.embed import embed_pictures
from remp.labelling.outcome import STATUSES, Labelling
from remp.labelling.output.tables import write_labels
from remp.labelling.tasks.folder import find_pictures
from remp.labelling.tasks.task import LabellingTask
from remp.models import find_embedder


def label_new(
    source: Path,
    model: Path,
    *,
    reject: float | None = None,
    out: Path | None = None,
    overwrite: bool = False,
    embedder: Embedder | None = None,
) -> Labelling:
    """Label every picture below a folder, whatever sub-folder it lies in. Each is looked at by itself: new pictures
    change nothing in the classifier. embedder: made by the backbone that the classifier names unless given."""
    saved = load_classifier(model)
    place = result_folder(source, out, overwrite)
    place.check()
    embedder = embedder or find_embedder(saved.backbone, side=saved.side)
    if embedder.hash != saved.embedder:
        raise CheckpointError(
            f"{model} was made with another {saved.backbone} than is installed here: its features would mean nothing"
        )
    tree = find_pictures(source)
    paths = tuple(source / name for name in tree.names)
    unlabelled = np.full(len(paths), -1, np.int64)
    classes = saved.class_names
    task = LabellingTask(tuple(tree.names), unlabelled, classes, paths, tuple(tree.skipped))
    embedded = embed_pictures(task, embedder)
    labelling = _labelling(embedded.task, embedded.values, saved, reject)
    return replace(labelling, folder=place.write(lambda folder: write_labels(labelling, folder)))


def _labelling(task: LabellingTask, values: np.ndarray, saved: SavedClassifier, reject: float | None) -> Labelling:
    n_classes = len(task.class_names)
    classifier = saved.fit()
    shares = classifier.predict_proba(values) if len(values) else np.empty((0, n_classes))
    order = np.argsort(-shares, axis=1, kind="stable")
    rows = np.arange(len(shares))
    best, second = order[:, 0], order[:, 1] if n_classes > 1 else np.full(len(shares), -1)
    probability = shares[rows, best].astype(np.float32)
    margin = probability - (shares[rows, second].astype(np.float32) if n_classes > 1 else 0)
    is_uncertain = probability < (reject or 0)
    status = np.where(is_uncertain, STATUSES.index("uncertain"), STATUSES.index("labelled")).astype(np.int8)
    confusion = np.zeros((n_classes, n_classes))
    np.add.at(confusion.T, best, shares)
    nothing = np.empty((0, values.shape[1]), np.float32)
    return Labelling(
        task=task,
        labels=np.where(is_uncertain, -1, best),
        best=best,
        runner_up=second,
        probability=probability,
        margin=margin,
        status=status,
        before=best,
        confusion=confusion,
        expected_sizes=confusion.sum(1),
        sample=np.empty(0, np.int64),
        sample_features=nothing,
        prototypes_before=nothing,
        prototypes=classifier.prototypes_,
        estimate=None,
        findings=(),
        label_next=(),
        seconds={},
    )
