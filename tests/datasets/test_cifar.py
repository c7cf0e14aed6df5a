"""CIFAR-FS and FC100 hold the images of the archive they were read from, class by class."""

import pickle
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from bounds import bounded
from raw_data import CLASSES, SPLIT_OF, png, random_pixels, write_cifar, write_tar, write_zip
from remp.datasets import ReadOptions, cifar, open_prepared, prepare
from remp.datasets.safe_pickle import get_names
from remp.errors import DataError

pytestmark = pytest.mark.usefixtures("remp_home", "four_classes")


@pytest.fixture
def four_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    superclasses = {"train": ["mammal"], "val": ["insect"], "test": ["insect"]}
    monkeypatch.setattr(cifar, "read_split_list", {"cifar-fs": SPLIT_OF, "fc100": superclasses}.__getitem__)
    monkeypatch.setattr(cifar, "_IMAGES_PER_CLASS", 4)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_each_class_has_its_rows_the_training_file_first(tmp_path: Path, protocol: int) -> None:
    rows = write_cifar(tmp_path / "cifar-100-python.tar.gz", protocol=protocol)
    prepare("cifar-fs", tmp_path / "cifar-100-python.tar.gz")
    for split, names in SPLIT_OF.items():
        images = open_prepared("cifar-fs", split)
        assert images.class_names == tuple(names)
        expected = np.concatenate([rows[CLASSES.index(name) :: 4] for name in names])
        np.testing.assert_array_equal(images.images, expected)


def test_an_unpacked_archive_gives_the_same_fingerprint(tmp_path: Path) -> None:
    write_cifar(tmp_path / "c.tar.gz")
    with tarfile.open(tmp_path / "c.tar.gz") as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    packed = prepare("cifar-fs", tmp_path / "c.tar.gz")
    unpacked = prepare("cifar-fs", tmp_path / "unpacked", save_as="again")
    assert packed["splits"] == unpacked["splits"]


def test_fc100_splits_by_superclass(tmp_path: Path) -> None:
    write_cifar(tmp_path / "c.tar.gz")
    index = prepare("fc100", tmp_path / "c.tar.gz")
    assert {split: entry["classes"] for split, entry in index["splits"].items()} == {
        "train": ["cat", "dog", "elk"],
        "val": ["bee"],
        "test": ["bee"],
    }


def r2d2_members(per_class: int = 4) -> dict[str, bytes]:
    members = {
        f"cifar100/data/{name}/{name}_{i}.png": png(random_pixels(i, 32)) for name in CLASSES for i in range(per_class)
    }
    return {
        **members,
        "cifar100/splits/bertinetto/train.txt": b"bee\ncat\n",
        "__MACOSX/cifar100/data/bee/._x.png": b"junk",
    }


def test_the_zip_with_a_folder_per_class_is_read_packed_and_unpacked(tmp_path: Path) -> None:
    write_zip(tmp_path / "cifar100.zip", r2d2_members())
    zipfile.ZipFile(tmp_path / "cifar100.zip").extractall(tmp_path / "unpacked")
    packed = prepare("cifar-fs", tmp_path / "cifar100.zip")
    unpacked = prepare("cifar-fs", tmp_path / "unpacked", save_as="again")
    assert packed["splits"] == unpacked["splits"]
    np.testing.assert_array_equal(open_prepared("cifar-fs", "val").images[1], random_pixels(1, 32))


def test_wrong_counts_name_the_class(tmp_path: Path) -> None:
    write_cifar(tmp_path / "c.tar.gz", n_train=2)
    with pytest.raises(DataError, match=r"class 'bee' .*\(train\) has 3 images, needed 4 \(1 more"):
        prepare("cifar-fs", tmp_path / "c.tar.gz")
    members = r2d2_members()
    del members["cifar100/data/dog/dog_3.png"]
    write_zip(tmp_path / "r.zip", members)
    with pytest.raises(DataError, match=r"class 'dog' .* has 3 images, needed 4"):
        prepare("cifar-fs", tmp_path / "r.zip")


def test_a_wrong_file_is_told(tmp_path: Path) -> None:
    write_tar(tmp_path / "cifar-10.tar.gz", {"cifar-10/data_batch_1": b"x"})
    with pytest.raises(DataError, match=r"not cifar-100-python\.tar\.gz"):
        prepare("cifar-fs", tmp_path / "cifar-10.tar.gz")


@pytest.mark.parametrize("content", [[1, 2], {b"data": np.zeros((2, 7), np.uint8)}, {b"data": np.zeros((2, 3072))}])
def test_a_member_with_another_content_is_told(tmp_path: Path, content: object) -> None:
    write_cifar(tmp_path / "c.tar.gz")
    blob = pickle.dumps(content)
    write_cifar(tmp_path / "c.tar.gz", members={"cifar-100-python/train": blob})
    with pytest.raises(DataError, match=r"holds a list|needed uint8|no list of"):
        prepare("cifar-fs", tmp_path / "c.tar.gz")


def test_options_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="prepared at 32 pixels, got --size 84"):
        prepare("cifar-fs", tmp_path, options=ReadOptions(size=84))
    with pytest.raises(DataError, match="--rotations is for omniglot"):
        prepare("fc100", tmp_path, options=ReadOptions(rotations=True))


def write_parts(path: Path, **changes: dict) -> None:
    """The archive of write_cifar with other values in some of its dicts."""
    write_cifar(path)
    with tarfile.open(path) as archive:
        parts = {name: archive.extractfile(name).read() for name in archive.getnames()}
    for part, change in changes.items():
        name = f"cifar-100-python/{part}"
        parts[name] = pickle.dumps({**pickle.loads(parts[name]), **change}, 2)
    write_tar(path, parts)


def test_fc100_without_a_superclass_is_no_set_of_no_classes(tmp_path: Path) -> None:
    write_parts(tmp_path / "c.tar.gz", meta={b"coarse_label_names": [b"unknown", b"names"]})
    with pytest.raises(DataError, match=r"c\.tar\.gz has no class of the superclass 'mammal'"):
        prepare("fc100", tmp_path / "c.tar.gz")


@pytest.mark.parametrize(
    "change",
    [
        {"fine_labels": [[0] * 4] * 3},
        {"fine_labels": [0, 1, 2, 99] * 3},
        {"fine_labels": "0123" * 3},
        {"fine_labels": [0.5] * 12},
        {"fine_labels": [2**70] * 12},
        {"coarse_labels": None},
        {"coarse_labels": [0] * 11},
        {"data": [[0] * 3072] * 12},
    ],
    ids=str,
)
def test_labels_that_are_none_are_told(tmp_path: Path, change: dict) -> None:
    write_parts(tmp_path / "c.tar.gz", train={name.encode(): value for name, value in change.items()})
    with pytest.raises(DataError, match=r"c\.tar\.gz .*[Gg]et (it|the file) again"):
        prepare("cifar-fs", tmp_path / "c.tar.gz")


@pytest.mark.parametrize("names", [7, [1, 2, 3, 4], {}, [b"bee"]], ids=str)
def test_names_that_are_none_are_told(tmp_path: Path, names: object) -> None:
    write_parts(tmp_path / "c.tar.gz", meta={b"fine_label_names": names})
    with pytest.raises(DataError, match=r"c\.tar\.gz.*[Gg]et it again"):
        prepare("cifar-fs", tmp_path / "c.tar.gz")


def test_labels_that_hold_themselves_do_not_hang(tmp_path: Path) -> None:
    labels: list = []
    for _ in range(40):
        labels = [labels, labels]
    write_parts(tmp_path / "c.tar.gz", train={b"fine_labels": labels})
    assert bounded(lambda: prepare("cifar-fs", tmp_path / "c.tar.gz")).kind == "DataError"


def test_an_array_of_millions_of_names_is_refused_before_it_becomes_a_list(tmp_path: Path) -> None:
    names = np.zeros(20_000_000, "S2")
    outcome = bounded(lambda: get_names({"names": names}, "names", "meta"))
    assert (outcome.kind, outcome.text[:22]) == ("DataError", "meta has no list of na"), outcome
