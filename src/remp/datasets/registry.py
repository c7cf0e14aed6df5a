"""The table of data sets: a new one is a file with a reader, a line here and a test."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from remp.datasets.cifar import read_cifar_fs, read_fc100
from remp.datasets.download import Download
from remp.datasets.folder import read_folder
from remp.datasets.mini_imagenet import read_mini_imagenet
from remp.datasets.omniglot import read_omniglot
from remp.datasets.raw import RawSet, ReadOptions
from remp.datasets.tiered_imagenet import read_tiered_imagenet


@dataclass(frozen=True)
class Dataset:
    """A data set remp knows: either `read` from a raw source, or `draw`n at run time and prepared by itself."""

    description: str
    sources: str
    read: Callable[[Path, ReadOptions], RawSet] | None = None
    draw: Callable[[str, bool], object] | None = None  # (name to prepare it under, overwrite)
    downloads: tuple[Download, ...] = ()


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
    ),
    "fc100": Dataset(
        "CIFAR-100 split 60/20/20 by superclass, 32x32 colour (Oreshkin et al. 2018)",
        "cifar-100-python.tar.gz",
        read_fc100,
        downloads=(_CIFAR_100,),
    ),
    "omniglot": Dataset(
        "1,623 handwritten characters of 20 drawings, 28x28 grey (Lake et al. 2015, split of Vinyals et al. 2016)",
        "a folder with images_background.zip and images_evaluation.zip",
        read_omniglot,
        downloads=(
            Download(_OMNIGLOT + "images_background.zip", "68d2efa1b9178cc56df9314c21c6e718"),
            Download(_OMNIGLOT + "images_evaluation.zip", "6b91aef0f799c5bb55b94e3f2daec811"),
        ),
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
