"""CIFAR-FS and FC100 hold the images of the archive they were read from, class by class."""

import pickle
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from raw_data import CLASSES, SPLIT_OF, png, random_pixels, write_cifar, write_tar, write_zip
from remp.datasets import ReadOptions, cifar, open_prepared, prepare
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
        archive.extractall(tmp_path / "unpacked")
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
    with pytest.raises(DataError, match=r"holds a list|not laid out"):
        prepare("cifar-fs", tmp_path / "c.tar.gz")


def test_options_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="prepared at 32 pixels, got --size 84"):
        prepare("cifar-fs", tmp_path, options=ReadOptions(size=84))
    with pytest.raises(DataError, match="--rotations is for omniglot"):
        prepare("fc100", tmp_path, options=ReadOptions(rotations=True))
