"""The table of data sets (a new one is a reader in a file of its own and an entry here), and the one way from raw data
to a prepared set."""

import math
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remp.checks import nearest
from remp.datasets.base import check_not_prepared, prepared_folder, read_index, write_prepared
from remp.datasets.cifar import read_cifar_fs, read_fc100
from remp.datasets.download import Download, fetch
from remp.datasets.folder import read_folder
from remp.datasets.mini_imagenet import read_mini_imagenet
from remp.datasets.omniglot import read_omniglot
from remp.datasets.raw import RawSet, ReadOptions, check_size
from remp.datasets.tiered_imagenet import read_tiered_imagenet
from remp.errors import DataError
from remp.system.files import home
from remp.system.progress import progress

DEFAULT_OPTIONS = ReadOptions()


@dataclass(frozen=True)
class Dataset:
    """A data set remp knows: either `read` from a raw source, or `draw`n at run time and prepared by itself.

    sizes: pixels per side that it can be prepared at, none for any. rotations: whether a turned image is another class.
    """

    description: str
    sources: str
    read: Callable[[Path, ReadOptions], RawSet] | None = None
    draw: Callable[[str, bool], object] | None = None  # (name to prepare it under, overwrite)
    downloads: tuple[Download, ...] = ()
    sizes: tuple[int, ...] = ()
    rotations: bool = False


def _draw_glyphs(name: str, overwrite: bool) -> object:
    from remp.datasets.glyphs import prepare_glyphs  # needs matplotlib's fonts, which `import remp` does not

    return prepare_glyphs(name, overwrite=overwrite)


_CIFAR_100 = Download("https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85")
_OMNIGLOT = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python/"

DATASETS: dict[str, Dataset] = {
    "glyphs": Dataset(
        "characters of many scripts drawn from fonts, 32x32 grey: the demo's data",
        "nothing: it is drawn when first used",
        draw=_draw_glyphs,
    ),
    "cifar-fs": Dataset(
        "CIFAR-100 split 64/16/20 by class, 32x32 colour (Bertinetto et al. 2019)",
        "cifar-100-python.tar.gz, or the R2D2 authors' zip with a folder per class",
        read_cifar_fs,
        downloads=(_CIFAR_100,),
        sizes=(32,),
    ),
    "fc100": Dataset(
        "CIFAR-100 split 60/20/20 by superclass, 32x32 colour (Oreshkin et al. 2018)",
        "cifar-100-python.tar.gz",
        read_fc100,
        downloads=(_CIFAR_100,),
        sizes=(32,),
    ),
    "omniglot": Dataset(
        "1,623 handwritten characters of 20 drawings, 28x28 grey (Lake et al. 2015, split of Vinyals et al. 2016)",
        "a folder with images_background.zip and images_evaluation.zip",
        read_omniglot,
        downloads=(
            Download(_OMNIGLOT + "images_background.zip", "68d2efa1b9178cc56df9314c21c6e718"),
            Download(_OMNIGLOT + "images_evaluation.zip", "6b91aef0f799c5bb55b94e3f2daec811"),
        ),
        sizes=(28, 32),
        rotations=True,
    ),
    "mini-imagenet": Dataset(
        "100 classes of ImageNet, 84x84 colour (Vinyals et al. 2016, split of Ravi and Larochelle 2017)",
        "a folder with images/ and train.csv, val.csv, test.csv, or with mini-imagenet-cache-{train,val,test}.pkl",
        read_mini_imagenet,
    ),
    "tiered-imagenet": Dataset(
        "608 classes of ImageNet split by category, 84x84 colour (Ren et al. 2018)",
        "a folder with {train,val,test}_images_png.pkl and {train,val,test}_labels.pkl",
        read_tiered_imagenet,
    ),
    "folder": Dataset(
        "your own pictures, 84x84 colour or any --size",
        "a folder train|val|test/class/image, or class/image (classes are split by --seed)",
        read_folder,
    ),
}


def prepare(
    name: str,
    source: str | Path | None = None,
    *,
    options: ReadOptions = DEFAULT_OPTIONS,
    save_as: str | None = None,
    download: bool = False,
    force: bool = False,
    say: Callable[[str], None] = lambda message: None,
) -> dict[str, Any]:
    """Read raw data and write it as a prepared set: memory-mapped arrays that open in milliseconds.

    Parameters
    ----------
    name : str
        A data set of `DATASETS`; "folder" for pictures of your own.
    source : str or Path, optional
        The raw data: an archive or a folder.
    options : ReadOptions
        Size of the images, seed of the split of a folder, and what else a data set can be read with.
    save_as : str, optional
        The name of the prepared set; default `name`.
    download : bool
        Fetch the raw data from its official address.
    force : bool
        Replace a set of that name, once the new one is complete.
    say : callable
        Called with messages about what was found.

    Returns
    -------
    dict
        The index of the prepared set: classes, counts, image size, fingerprints.

    Raises
    ------
    DataError
        If anything is not as it should be. Nothing that looks prepared is left behind.

    Examples
    --------
    Pictures of your own, one folder per class:

    >>> import tempfile
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> import remp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for number in range(8):
    ...         (Path(folder) / f"class {number}").mkdir()
    ...         Image.new("RGB", (40, 30), (30 * number, 0, 0)).save(Path(folder) / f"class {number}" / "picture.png")
    ...     index = remp.prepare("folder", Path(folder), save_as="mine")
    >>> index["image_size"], {split: len(entry["classes"]) for split, entry in index["splits"].items()}
    ([84, 84, 3], {'train': 4, 'val': 2, 'test': 2})
    """
    if name not in DATASETS:
        raise DataError(f"no data set is called {name!r}; {nearest(name, DATASETS)}")
    dataset, target = DATASETS[name], save_as or name
    if not re.fullmatch(r"\w[\w.+-]*", target):
        raise DataError(f"{target!r} cannot name a data set: use letters, digits, '-', '_', '.' and '+'")
    if target in DATASETS and target != name:
        raise DataError(
            f"{target!r} is the name of another data set, and results on {name!r} would be taken for results on it: "
            "give another --name"
        )
    if dataset.read is None:
        if source is not None or download or options != ReadOptions():
            raise DataError(
                f"{name} is generated and takes no options: leave out --from, --download, --size, --rotations, --seed"
            )
        assert dataset.draw is not None
        if force or not prepared_folder(target).exists():
            dataset.draw(target, force)
        return read_index(target)
    if options.rotations and not dataset.rotations:
        raise DataError(f"--rotations is for omniglot: a turned image of {name} is still the same class; leave it out")
    if dataset.sizes:
        check_size(options, dataset.sizes, name)
    check_not_prepared(target, overwrite=force)
    raw = dataset.read(_locate(name, dataset, Path(source) if source is not None else None, download), options)
    for line in (describe(raw), *raw.notes):
        say(line)
    _check_space(raw, target)
    return _write(raw, target, force)


def describe(raw: RawSet) -> str:
    """One line on what was found."""
    splits = [
        f"{split} {len(classes)} classes, {_n_images(raw, split)} images" for split, classes in raw.splits.items()
    ]
    return f"Found {raw.source}: {'; '.join(splits)}; each {' x '.join(str(n) for n in raw.image_size)}"


def _locate(name: str, dataset: Dataset, source: Path | None, download: bool) -> Path:
    """Where the raw data is, fetched first if need be."""
    if not download:
        if source is None:
            also = ", or --download" if dataset.downloads else ""
            raise DataError(f"{name} needs its raw data: give the path (--from PATH{also}) of {dataset.sources}")
        return source
    if not dataset.downloads:
        raise DataError(
            f"{name} has no address to download from: get it yourself and "
            f"give the path (--from PATH) of {dataset.sources}"
        )
    folder = source or home() / "downloads"
    paths = [fetch(file, folder) for file in dataset.downloads]
    return paths[0] if len(paths) == 1 else folder


def _n_images(raw: RawSet, split: str) -> int:
    return sum(found.count for found in raw.splits[split].values())


def _check_space(raw: RawSet, target: str) -> None:
    folder = prepared_folder(target)
    while not folder.exists():
        folder = folder.parent
    needed = sum(_n_images(raw, split) for split in raw.splits) * math.prod(raw.image_size)
    free = shutil.disk_usage(folder).free
    if needed + 2**20 > free:
        raise DataError(
            f"no disk space: {target!r} needs {needed / 1e9:.2f} GB in {folder}, {free / 1e9:.2f} GB are free. "
            "Make room, or set REMP_HOME to a folder on another disk"
        )


def _write(raw: RawSet, target: str, force: bool) -> dict[str, Any]:
    n_classes = sum(len(classes) for classes in raw.splits.values())
    try:
        with progress(f"preparing {target}", n_classes, unit="classes") as bar:
            return write_prepared(
                target,
                raw,
                overwrite=force,
                on_class=lambda split, class_name: bar.advance(1, f"{split}: {class_name}"),
            )
    except OSError as error:
        raise DataError(
            f"{target!r} cannot be written to {prepared_folder(target)}: {error}. Nothing was left behind; make room, "
            "or set REMP_HOME to another folder"
        ) from error
