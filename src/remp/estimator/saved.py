"""A ReMPClassifier in a file: the features it is fitted to and the backbone that made them. Loading runs no code."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from remp.errors import CheckpointError
from remp.estimator import ReMPClassifier
from remp.system.files import write_atomically

_FORMAT = "remp-classifier-1"


@dataclass(frozen=True)
class SavedClassifier:
    """features: (n, d) float32, labels: (n,) index into class_names, or -1 for the unlabelled that it learns from, too.
    backbone, side: what made the features and from how large pictures. embedder: its hash, to tell whether a backbone
    of that name is still the same."""

    features: np.ndarray
    labels: np.ndarray
    class_names: tuple[str, ...]
    backbone: str
    side: int
    embedder: str

    def fit(self) -> ReMPClassifier:
        """The classifier; `classes_` are numbers of class_names."""
        return ReMPClassifier().fit(self.features, self.labels)


def save_classifier(path: Path, saved: SavedClassifier) -> None:
    """Write a classifier; the file is whole or not there."""
    facts = {
        "format": _FORMAT,
        "classes": saved.class_names,
        "backbone": saved.backbone,
        "side": saved.side,
        "embedder": saved.embedder,
    }
    tensors: dict[str, np.ndarray] = {
        "features": np.ascontiguousarray(saved.features, np.float32),
        "labels": saved.labels.astype(np.int64),
    }
    write_atomically(path, save(tensors, {"remp": json.dumps(facts)}))


def load_classifier(path: Path) -> SavedClassifier:
    """Raises CheckpointError for a file that is not there, damaged or something else."""
    try:
        with safe_open(path, "numpy") as file:
            facts = json.loads((file.metadata() or {}).get("remp", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read as a classifier of remp: {error}") from error
    if facts.get("format") != _FORMAT or {"features", "labels"} - tensors.keys():
        raise CheckpointError(f"{path} is no classifier of remp: needed a file that Export in remp studio wrote")
    return SavedClassifier(
        tensors["features"],
        tensors["labels"],
        tuple(facts["classes"]),
        facts["backbone"],
        facts["side"],
        facts["embedder"],
    )
