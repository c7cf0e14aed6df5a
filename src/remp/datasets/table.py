"""The table of data sets: a new one is a file with a reader, a line here and a test."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from remp.datasets.cifar import read_cifar_fs, read_fc100
from remp.datasets.raw import RawSet, ReadOptions
from remp.errors import DataError


@dataclass(frozen=True)
class Dataset:
    """A data set remp knows: what it is, and how its raw form is read."""

    description: str
    sources: str
    read: Callable[[Path, ReadOptions], RawSet]


DATASETS: dict[str, Dataset] = {
    "cifar-fs": Dataset(
        "CIFAR-100 split 64/16/20 by class, 32x32 colour (Bertinetto et al. 2019)",
        "cifar-100-python.tar.gz, or the R2D2 authors' zip (a folder per class)",
        read_cifar_fs,
    ),
    "fc100": Dataset(
        "CIFAR-100 split 60/20/20 by superclass, 32x32 colour (Oreshkin et al. 2018)",
        "cifar-100-python.tar.gz",
        read_fc100,
    ),
}


def find_dataset(name: str) -> Dataset:
    """The table's entry; raises DataError with the nearest name."""
    if name not in DATASETS:
        nearest = difflib.get_close_matches(name, DATASETS, n=1)
        hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
        raise DataError(f"no data set is called {name!r}; there are: {', '.join(DATASETS)}.{hint}")
    return DATASETS[name]
