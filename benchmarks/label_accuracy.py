"""Five labels per class, the other images unlabelled: ReMPClassifier against classifiers of scikit-learn.

    remp data prepare cifar-fs
    python benchmarks/label_accuracy.py --features-cache features --split val --draws 2 --choose
    python benchmarks/label_accuracy.py --features-cache features --split test

Classes of CIFAR-FS, EfficientNet-Lite0 features at 128 x 128, draws of the labelled images, all others unlabelled; once
with 600 images of each class, once with 600 … 60 in a geometric row, classes in random order. The score is the share of
unlabelled images with the right label. `--choose` scores every candidate of every rival; what was best there, over both
proportions, is in CHOSEN and is scored without it. Differences are paired: over the same draws.
"""

import argparse
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid, NearestNeighbors
from sklearn.semi_supervised import LabelSpreading

from remp import ReMPClassifier, open_data
from remp.backbones import PRETRAINED
from remp.evaluation.statistics import mean_interval, paired_difference
from remp.rectification.transform import FeatureTransform, fit_transform
from remp.rows import ArrayRows
from remp.rows.sharding import Shard

N_SHOT, LARGEST, RATIO, SIDE = 5, 600, 10, 128
N_NEIGHBOURS = 2500  # kept of each image: enough to find the nearest 200 in any draw
TRANSFORMS = ("none", "l2", "power+l2+centre")
CHOSEN = {
    "LogisticRegression": ("power+l2+centre", 10),
    "NearestCentroid": ("power+l2+centre",),
    "KNeighborsClassifier": ("power+l2+centre", 5),
    "LabelSpreading": ("power+l2+centre", "rbf", 10, 0.8),
}


@dataclass(frozen=True)
class Task:
    """rows: (n,) numbers of the images that take part. labels: (n,) with -1 for unlabelled. truth: (n,)."""

    rows: np.ndarray
    labels: np.ndarray
    truth: np.ndarray


def draw(truth: np.ndarray, seed: int, *, is_balanced: bool) -> Task:
    random = np.random.default_rng(seed)
    n_classes = truth.max() + 1
    rows, labels = [], []
    for place, number in enumerate(random.permutation(n_classes)):
        size = LARGEST if is_balanced else round(LARGEST * RATIO ** (-place / (n_classes - 1)))
        rows.append(random.permutation(np.flatnonzero(truth == number))[:size])
        labels.append(np.where(np.arange(size) < N_SHOT, number, -1))
    chosen = np.concatenate(rows)
    return Task(chosen, np.concatenate(labels), truth[chosen])


class Features:
    """The features of a split under any transform, and its graphs of neighbours; made once each."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self._neighbours = values, {}
        self._last: tuple[Task, str, np.ndarray] | None = None

    def of(self, task: Task, transform: str) -> np.ndarray:
        if self._last is None or self._last[0] is not task or self._last[1] != transform:
            rows = ArrayRows(self.values[task.rows])
            made = fit_transform(rows, FeatureTransform.parse(transform), Shard())[0](rows.take(np.arange(len(rows))))
            self._last = (task, transform, made.numpy())
        return self._last[2]

    def graph(self, task: Task, transform: str, k: int) -> csr_matrix:
        """(n, n) ones for the k nearest of each row among the rows of the task, itself one of them, as LabelSpreading
        makes it for kernel="knn"; so the long search is made once, not for every draw."""
        if transform not in self._neighbours:
            everything = Task(np.arange(len(self.values)), np.empty(0), np.empty(0))
            features = self.of(everything, transform)
            search = NearestNeighbors(n_neighbors=N_NEIGHBOURS).fit(features)
            self._neighbours[transform] = search.kneighbors(features, return_distance=False)
        place = np.full(len(self.values), -1)
        place[task.rows] = np.arange(len(task.rows))
        near = place[self._neighbours[transform][task.rows]]  # (n, N_NEIGHBOURS), -1 for what takes no part
        order = np.argsort(near < 0, axis=1, kind="stable")[:, :k]
        columns = np.take_along_axis(near, order, 1)
        assert (columns >= 0).all(), "keep more neighbours"
        starts = np.arange(0, columns.size + 1, k)
        return csr_matrix((np.ones(columns.size), columns.ravel(), starts), shape=(len(near), len(near)))


def remp(features: Features, task: Task) -> np.ndarray:
    return ReMPClassifier().fit(features.values[task.rows], task.labels).transduction_


def supervised(maker: Callable[..., Any]) -> Callable[..., np.ndarray]:
    def predict(features: Features, task: Task, transform: str, *setting: Any) -> np.ndarray:
        rows, known = features.of(task, transform), task.labels >= 0
        return maker(*setting).fit(rows[known], task.labels[known]).predict(rows)

    return predict


def label_spreading(features: Features, task: Task, transform: str, *setting: Any) -> np.ndarray:
    if setting[0] == "rbf":
        model = LabelSpreading("rbf", gamma=setting[1], alpha=setting[2], max_iter=100)
        return model.fit(features.of(task, transform), task.labels).transduction_
    graph = features.graph(task, transform, setting[0])
    model = LabelSpreading(lambda *_: graph, alpha=setting[1], max_iter=100)
    return model.fit(np.zeros((len(task.rows), 1)), task.labels).transduction_


RIVALS: dict[str, tuple[Callable[..., np.ndarray], list[tuple[Any, ...]]]] = {
    "LogisticRegression": (
        supervised(lambda c: LogisticRegression(C=c, max_iter=1000)),
        list(product(TRANSFORMS, (1, 10, 100))),
    ),
    "NearestCentroid": (supervised(NearestCentroid), [(transform,) for transform in TRANSFORMS]),
    "KNeighborsClassifier": (
        supervised(lambda k: KNeighborsClassifier(k, weights="distance")),
        list(product(TRANSFORMS, (1, 3, 5, 10))),
    ),
    "LabelSpreading": (
        label_spreading,
        [
            *product(("l2", "power+l2", "power+l2+centre"), (15, 30, 50, 100, 200), (0.5, 0.8, 0.95)),
            *product(("l2", "power+l2+centre"), ("rbf",), (3, 10, 14, 30), (0.8,)),
        ],
    ),
}


def candidates(rivals: list[str], choose: bool) -> Iterator[tuple[str, Callable[[Features, Task], np.ndarray]]]:
    yield "ReMPClassifier", remp
    for name in rivals:
        predict, settings = RIVALS[name]
        for setting in settings if choose else [CHOSEN[name]]:
            yield f"{name} {setting}", lambda features, task, p=predict, s=setting: p(features, task, *s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--features-cache", type=Path, required=True, help="folder; features are made if absent")
    parser.add_argument("--split", choices=("val", "test"), default="val")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--rivals", default=",".join(RIVALS))
    parser.add_argument("--choose", action="store_true", help="score every candidate, not only those of CHOSEN")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)  # of LabelSpreading: what it has after 100 rounds counts
    features, truth = load_features(arguments.features_cache, arguments.split)
    predictors = dict(candidates(arguments.rivals.split(","), arguments.choose))
    scores: dict[bool, list[list[float]]] = {True: [], False: []}
    for seed, is_balanced in product(range(arguments.draws), scores):
        task = draw(truth, seed, is_balanced=is_balanced)
        scores[is_balanced].append([accuracy(predict(features, task), task) for predict in predictors.values()])
        print(f"draw {seed + 1} {'balanced' if is_balanced else '1:10'}", *scores[is_balanced][-1], flush=True)
    for is_balanced, of_draws in scores.items():
        sizes = "600" if is_balanced else "600 … 60"
        print(f"\n{arguments.split} classes, {sizes} images each, {N_SHOT} labels, {len(of_draws)} draws")
        print_table(list(predictors), np.array(of_draws))


def print_table(names: list[str], scores: np.ndarray) -> None:
    """scores: (n_draws, n_names), ours first."""
    print("| classifier | accuracy | ours is better by |\n|---|---|---|")
    for name, own in zip(names, scores.T, strict=True):
        print(f"| {name} | {mean_interval(own).percent()} | {paired_difference(scores[:, 0], own).percent()} |")


def accuracy(predicted: np.ndarray, task: Task) -> float:
    unlabelled = task.labels < 0
    return float((predicted == task.truth)[unlabelled].mean())


def load_features(folder: Path, split: str) -> tuple[Features, np.ndarray]:
    images = open_data("cifar-fs", split)
    path = folder / f"{split}.npy"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        np.save(path, embedded(images.images))
    return Features(np.load(path)), np.asarray(images.labels)


@torch.inference_mode()
def embedded(images: np.ndarray) -> np.ndarray:
    """uint8 (n, height, width, 3) -> float32 (n, 1280)"""
    model = PRETRAINED["efficientnet-lite0"](SIDE)
    parts = []
    for batch in torch.from_numpy(np.array(images)).split(64):
        large = F.interpolate(batch.permute(0, 3, 1, 2).float(), (SIDE, SIDE), mode="bicubic", antialias=True)
        pixels = large.round().clamp(0, 255).permute(0, 2, 3, 1)
        parts.append(model.network(model.normalisation(pixels)))
    return torch.cat(parts).numpy()


if __name__ == "__main__":
    main()
