"""Own pictures: given splits are kept, others are drawn from the seed; what is wrong is named."""

from itertools import chain
from pathlib import Path

import pytest

from bounds import bounded
from raw_data import write_tree, write_zip
from remp.datasets import ReadOptions, prepare
from remp.datasets.folder import read_folder
from remp.errors import DataError

pytestmark = pytest.mark.usefixtures("remp_home")
NAMES = [f"kind{i:02d}" for i in range(25)]
SMALL = ReadOptions(size=8)


def classes(index: dict) -> dict[str, list[str]]:
    return {split: entry["classes"] for split, entry in index["splits"].items()}


def test_a_given_split_is_kept(tmp_path: Path) -> None:
    for split, names in {"train": ["a", "b"], "val": ["c", "d"], "test": ["e", "f"]}.items():
        write_tree(tmp_path / "raw" / split, names)
    assert classes(prepare("folder", tmp_path / "raw")) == {"train": ["a", "b"], "val": ["c", "d"], "test": ["e", "f"]}


def test_classes_are_split_64_16_20_and_every_class_goes_somewhere(tmp_path: Path) -> None:
    write_tree(tmp_path / "raw", NAMES)
    split = classes(prepare("folder", tmp_path / "raw", options=SMALL))
    assert {name: len(members) for name, members in split.items()} == {"train": 16, "val": 4, "test": 5}
    assert sorted(list(chain(*split.values()))) == NAMES


def test_the_seed_alone_decides_the_split(tmp_path: Path) -> None:
    write_tree(tmp_path / "raw", NAMES)
    write_tree(tmp_path / "copy" / "inner", NAMES)
    first = prepare("folder", tmp_path / "raw", options=SMALL, save_as="first")
    second = prepare("folder", tmp_path / "copy", options=SMALL, save_as="second")
    other = prepare("folder", tmp_path / "raw", options=ReadOptions(size=8, seed=1), save_as="other")
    assert first["splits"] == second["splits"]
    assert classes(first) != classes(other)


def test_a_class_called_train_is_a_class_where_it_holds_pictures(tmp_path: Path) -> None:
    write_tree(tmp_path / "raw", ["train", "bus", "car", "bike", "boat", "plane"])
    split = classes(prepare("folder", tmp_path / "raw", options=SMALL))
    assert "train" in list(chain(*split.values()))


def test_too_few_classes_are_told(tmp_path: Path) -> None:
    write_tree(tmp_path / "raw", NAMES[:5])
    with pytest.raises(DataError, match=r"has 5 classes .* needed at least 6"):
        prepare("folder", tmp_path / "raw")


def test_a_missing_split_is_told(tmp_path: Path) -> None:
    for split in ("train", "test"):
        write_tree(tmp_path / "raw" / split, [f"{split}1", f"{split}2"])
    with pytest.raises(DataError, match="has 0 classes of pictures in val/"):
        prepare("folder", tmp_path / "raw")


def test_a_class_in_two_splits_is_refused(tmp_path: Path) -> None:
    for split in ("train", "val", "test"):
        write_tree(tmp_path / "raw" / split, ["cat", f"{split}1"])
    with pytest.raises(DataError, match="class 'cat' is in both train/ and val/"):
        prepare("folder", tmp_path / "raw")


def test_an_unreadable_picture_is_named(tmp_path: Path, remp_home: Path) -> None:
    write_tree(tmp_path / "raw", NAMES)
    (tmp_path / "raw/kind07/0.png").write_bytes(b"<html>not found</html>")
    with pytest.raises(DataError, match=r"kind07/0\.png is not a picture .*replace or remove"):
        prepare("folder", tmp_path / "raw")
    assert list((remp_home / "data").iterdir()) == []


def test_a_picture_outside_every_class_is_named(tmp_path: Path) -> None:
    write_tree(tmp_path / "raw", NAMES)
    (tmp_path / "raw/kind00/0.png").rename(tmp_path / "raw/stray.png")
    with pytest.raises(DataError, match=r"stray\.png lies in no class folder"):
        prepare("folder", tmp_path / "raw")


@pytest.mark.parametrize("names", [["one"], ["train"]])
def test_a_single_class_is_too_few(tmp_path: Path, names: list[str]) -> None:
    write_tree(tmp_path / "raw", names, per_class=1)
    with pytest.raises(DataError, match="has 1 classes"):
        prepare("folder", tmp_path / "raw")


def test_a_folder_without_pictures_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no pictures"):
        prepare("folder", tmp_path)


@pytest.mark.parametrize("inner", ["", "train/"])
def test_pictures_without_a_label_are_no_class_and_that_is_said(tmp_path: Path, inner: str) -> None:
    for split in ("train", "val", "test"):
        write_tree(tmp_path / "raw" / (split if inner else ""), [f"{split} a", f"{split} b"])
    write_tree(tmp_path / "raw" / inner, ["Unlabelled"], per_class=3)
    said: list[str] = []
    split = classes(prepare("folder", tmp_path / "raw", options=SMALL, say=said.append))
    assert sorted(chain(*split.values())) == ["test a", "test b", "train a", "train b", "val a", "val b"]
    assert f"{inner}Unlabelled/ is not a class: its 3 pictures are left out" in said


def test_a_folder_with_nothing_but_unlabelled_pictures_is_refused(tmp_path: Path) -> None:
    write_tree(tmp_path / "raw", ["unsorted"])
    with pytest.raises(DataError, match="no pictures with a class, only unsorted"):
        prepare("folder", tmp_path / "raw")


def test_folders_in_folders_take_no_longer_than_their_names(tmp_path: Path) -> None:
    names = [f"{'a/' * 2000}kind{i % 9}/{i}.png" for i in range(500)]
    write_zip(tmp_path / "x.zip", dict.fromkeys(names, b""))
    outcome = bounded(lambda: read_folder(tmp_path / "x.zip", ReadOptions()))
    assert outcome.kind == "result", outcome
