"""miniImageNet reads the same from its images and from its cache pickles."""

import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from bounds import bounded
from raw_data import SPLIT_OF, random_pixels, write_mini_cache, write_mini_images
from remp.datasets import ReadOptions, mini_imagenet, open_prepared, prepare
from remp.errors import DataError

pytestmark = pytest.mark.usefixtures("remp_home", "four_classes")


@pytest.fixture
def four_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mini_imagenet, "read_split_list", {"mini-imagenet": SPLIT_OF}.__getitem__)
    monkeypatch.setattr(mini_imagenet, "_IMAGES_PER_CLASS", 2)


def test_images_with_csv_files_are_read_in_the_order_of_the_csv(tmp_path: Path) -> None:
    write_mini_images(tmp_path / "raw")
    prepare("mini-imagenet", tmp_path / "raw")
    images = open_prepared("mini-imagenet", "train")
    assert images.class_names == ("bee", "cat")
    np.testing.assert_array_equal(images.images, np.stack([random_pixels(i, 84) for i in (0, 1, 0, 1)]))


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_cache_pickles_give_the_same_set_as_the_images(tmp_path: Path, protocol: int) -> None:
    write_mini_images(tmp_path / "images")
    write_mini_cache(tmp_path / "cache", protocol=protocol)
    from_images = prepare("mini-imagenet", tmp_path / "images", save_as="a")
    from_cache = prepare("mini-imagenet", tmp_path / "cache", save_as="b")
    assert from_images["splits"] == from_cache["splits"]


def test_images_of_another_size_are_scaled(tmp_path: Path) -> None:
    write_mini_images(tmp_path / "raw", size=100)
    assert prepare("mini-imagenet", tmp_path / "raw")["image_size"] == [84, 84, 3]
    assert prepare("mini-imagenet", tmp_path / "raw", options=ReadOptions(size=32), save_as="s")["image_size"] == [
        32,
        32,
        3,
    ]


def test_a_missing_image_names_its_class(tmp_path: Path) -> None:
    write_mini_images(tmp_path / "raw")
    (tmp_path / "raw/images/dog1.png").unlink()
    with pytest.raises(DataError, match=r"class 'dog' of .*images has 1 images, needed 2"):
        prepare("mini-imagenet", tmp_path / "raw")


def test_wrong_counts_in_a_csv_or_a_cache_name_the_class(tmp_path: Path) -> None:
    write_mini_images(tmp_path / "raw", per_class=3)
    with pytest.raises(DataError, match=r"class 'bee' of train\.csv has 3 images, needed 2"):
        prepare("mini-imagenet", tmp_path / "raw")
    write_mini_cache(tmp_path / "cache", per_class=1)
    with pytest.raises(DataError, match=r"class 'bee' of .*train\.pkl has 1 images, needed 2"):
        prepare("mini-imagenet", tmp_path / "cache")


def test_a_missing_split_is_told(tmp_path: Path) -> None:
    write_mini_images(tmp_path / "raw")
    (tmp_path / "raw/val.csv").unlink()
    with pytest.raises(DataError, match=r"has 0 val\.csv, needed one"):
        prepare("mini-imagenet", tmp_path / "raw")
    write_mini_cache(tmp_path / "cache")
    (tmp_path / "cache/mini-imagenet-cache-val.pkl").unlink()
    with pytest.raises(DataError, match=r"cache-val\.pkl is missing"):
        prepare("mini-imagenet", tmp_path / "cache")


def test_another_pickle_or_csv_is_told(tmp_path: Path) -> None:
    write_mini_images(tmp_path / "raw")
    (tmp_path / "raw/train.csv").write_text("name,kind\na,b\n")
    with pytest.raises(DataError, match="needed filename and label"):
        prepare("mini-imagenet", tmp_path / "raw")
    write_mini_cache(tmp_path / "cache")
    (tmp_path / "cache/mini-imagenet-cache-train.pkl").write_bytes(pickle.dumps({"image_data": np.zeros(3)}))
    with pytest.raises(DataError, match="not a mini-imagenet cache"):
        prepare("mini-imagenet", tmp_path / "cache")


@pytest.mark.parametrize("rows", [7, None, [0, 99], [-1, 0], ["a", "b"], [[0], [1]], [0.5, 1.5]], ids=str)
def test_a_cache_whose_rows_are_none_is_told(tmp_path: Path, rows: object) -> None:
    write_mini_cache(tmp_path)
    path = tmp_path / "mini-imagenet-cache-train.pkl"
    content = pickle.loads(path.read_bytes())
    content["class_dict"]["cat"] = rows
    path.write_bytes(pickle.dumps(content))
    with pytest.raises(DataError, match=r"cache-train\.pkl .*get it again"):
        prepare("mini-imagenet", tmp_path)


def test_a_csv_that_is_none_is_told(tmp_path: Path) -> None:
    write_mini_images(tmp_path)
    (tmp_path / "val.csv").write_text('filename,label\n"' + "x" * 200_000)
    with pytest.raises(DataError, match=r"val\.csv is not CSV \(Error: field larger"):
        prepare("mini-imagenet", tmp_path)


@pytest.mark.parametrize("line", ["a\n", ","])
def test_a_small_archive_with_a_large_csv_takes_no_gigabytes(tmp_path: Path, line: str) -> None:
    with zipfile.ZipFile(tmp_path / "raw.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("train.csv", "filename,label\n" + line * 2_000_000)
    outcome = bounded(lambda: mini_imagenet.read_mini_imagenet(tmp_path / "raw.zip", ReadOptions()))
    assert outcome.kind == "DataError", outcome
