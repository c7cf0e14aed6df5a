"""Labelling tasks of real pictures whose truth is known, for the benchmarks and tests of the judgement."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from label_accuracy import embedded

from remp.datasets import open_prepared
from remp.labelling.outcome import Labelling
from remp.labelling.pipeline import LabelOptions, label_rows
from remp.labelling.tasks import Items
from remp.models import DEFAULT_EMBEDDER, find_embedder
from remp.rows import ArrayRows


@dataclass(frozen=True)
class Pictures:
    """Embeddings (n, d) of pictures and their classes (n,)."""

    rows: np.ndarray
    classes: np.ndarray


@dataclass(frozen=True)
class TrueTask:
    """A task, its rows (n, d), and the true class of each item (n,), -1 for one of no class of the task."""

    task: Items
    rows: np.ndarray
    truth: np.ndarray

    def labelled(self, reject: float | None = None) -> Labelling:
        outcome = label_rows(self.task, ArrayRows(self.rows), LabelOptions(reject=reject, n_next=0))
        assert outcome is not None
        return outcome

    def with_labels(self, labels: np.ndarray) -> "TrueTask":
        return TrueTask(Items(self.task.names, labels, self.task.class_names), self.rows, self.truth)


def draw_task(
    pictures: Pictures,
    random: np.random.Generator,
    *,
    ways: tuple[int, ...] = (2, 3, 5, 10, 15, 20),
    shots: tuple[int, ...] = (1, 2, 3, 5, 10, 20),
    sizes: tuple[int, ...] = (15, 40, 80),
    strangers: float = 0.0,
) -> TrueTask:
    """strangers: items of other classes, as a share of the unlabelled ones of the classes."""
    available = np.unique(pictures.classes)
    n_way = int(random.choice([way for way in ways if way <= len(available)]))
    n_shot, size = int(random.choice(shots)), int(random.choice(sizes))
    labels_of, sizes_of = np.full(n_way, n_shot), np.full(n_way, size)
    if random.random() < 0.5:
        labels_of = np.maximum(1, np.rint(n_shot * random.uniform(0.3, 1.7, n_way)).astype(int))
        sizes_of = np.clip(np.rint(random.dirichlet(np.full(n_way, 2.0)) * size * n_way).astype(int), 1, 500)
    chosen = random.permutation(available)
    members, labels, truth = [], [], []
    for number in range(n_way):
        own = np.flatnonzero(pictures.classes == chosen[number])
        own = random.permutation(own)[: labels_of[number] + sizes_of[number]]
        members.append(own)
        labels.append(np.where(np.arange(len(own)) < labels_of[number], number, -1))
        truth.append(np.full(len(own), number))
    others = np.flatnonzero(np.isin(pictures.classes, chosen[n_way : n_way + 3]))
    members.append(random.permutation(others)[: int(strangers * sizes_of.sum())])
    labels.append(np.full(len(members[-1]), -1))
    truth.append(labels[-1])
    items = np.concatenate(members)
    names = tuple(map(str, items))
    task = Items(names, np.concatenate(labels), tuple(str(name) for name in chosen[:n_way]))
    return TrueTask(task, pictures.rows[items], np.concatenate(truth))


def load(split: str, backbone: str, folder: Path) -> Pictures:
    """The pictures of a split of CIFAR-FS in the features of a backbone, kept as FOLDER/SPLIT.npy.

    Those of EfficientNet-Lite0 are made by label_accuracy.py, at 128 x 128 pixels.
    """
    images, path = open_prepared("cifar-fs", split), folder / f"{split}.npy"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        embed = embedded if backbone == DEFAULT_EMBEDDER else find_embedder(backbone).embed
        np.save(path, embed(images.images))
    return Pictures(np.load(path), np.asarray(images.labels))
