"""tieredImageNet: the pictures are found inside the pickles without unpickling them."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from bounds import bounded
from raw_data import SPLIT_OF, png, random_pixels, write_tiered
from remp.datasets import open_prepared, prepare, tiered_imagenet
from remp.datasets.tiered_imagenet import find_pickled_pngs
from remp.errors import DataError

pytestmark = pytest.mark.usefixtures("remp_home", "four_classes")


@pytest.fixture
def four_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiered_imagenet, "_N_CLASSES", {split: len(names) for split, names in SPLIT_OF.items()})


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_every_picture_comes_back_in_its_class(tmp_path: Path, protocol: int) -> None:
    write_tiered(tmp_path, protocol=protocol)
    prepare("tiered-imagenet", tmp_path)
    images = open_prepared("tiered-imagenet", "train")
    assert images.class_names == ("bee", "cat")
    np.testing.assert_array_equal(images.images, np.stack([random_pixels(i, 84) for i in (0, 1, 0, 1)]))


@pytest.mark.parametrize("size", [4, 84])
def test_pickles_of_python_2_hold_pictures_as_strings(tmp_path: Path, size: int) -> None:
    pictures = [png(np.full((size, size, 3), 7, np.uint8)), png(random_pixels(1, size))]
    pushed = [b"U" + bytes([len(p)]) + p if len(p) < 256 else b"T" + len(p).to_bytes(4, "little") + p for p in pictures]
    (tmp_path / "x.pkl").write_bytes(b"\x80\x02](" + b"".join(pushed) + b"e.")
    assert [found.read() for found in find_pickled_pngs(tmp_path / "x.pkl")] == pictures


def test_a_missing_split_and_wrong_counts_are_told(tmp_path: Path) -> None:
    write_tiered(tmp_path)
    (tmp_path / "train_images_png.pkl").write_bytes(pickle.dumps([np.frombuffer(png(random_pixels(0, 84)), np.uint8)]))
    with pytest.raises(DataError, match=r"holds 1 PNG pictures, train_labels\.pkl 4 labels"):
        prepare("tiered-imagenet", tmp_path)
    write_tiered(tmp_path)
    (tmp_path / "val_labels.pkl").unlink()
    with pytest.raises(DataError, match=r"val_labels\.pkl is missing"):
        prepare("tiered-imagenet", tmp_path)


def test_the_number_of_classes_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tiered(tmp_path)
    monkeypatch.setitem(tiered_imagenet._N_CLASSES, "val", 97)
    with pytest.raises(DataError, match="names 1 classes, needed 97"):
        prepare("tiered-imagenet", tmp_path)


def test_a_truncated_pickle_of_pictures_is_told(tmp_path: Path) -> None:
    write_tiered(tmp_path)
    path = tmp_path / "train_images_png.pkl"
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(DataError, match="truncated"):
        prepare("tiered-imagenet", tmp_path)


def test_two_classes_of_one_name_stay_apart(tmp_path: Path) -> None:
    write_tiered(tmp_path)
    labels = {"label_specific": np.array([0, 0, 1, 1]), "label_specific_str": ["crane", "crane"]}
    (tmp_path / "train_labels.pkl").write_bytes(pickle.dumps(labels))
    assert prepare("tiered-imagenet", tmp_path)["splits"]["train"]["classes"] == ["crane (0)", "crane (1)"]


@pytest.mark.parametrize(
    "change",
    [
        {"label_specific": None},
        {"label_specific": 7},
        {"label_specific": np.zeros((4, 1), np.int64)},
        {"label_specific": [0, 0, 1, 9]},
        {"label_specific": [0, 0, 1, -1]},
        {"label_specific_str": 7},
        {"label_specific_str": [1, 2]},
    ],
    ids=str,
)
def test_labels_that_are_none_are_told(tmp_path: Path, change: dict) -> None:
    write_tiered(tmp_path)
    path = tmp_path / "train_labels.pkl"
    content = {**pickle.loads(path.read_bytes()), **{name.encode(): value for name, value in change.items()}}
    path.write_bytes(pickle.dumps(content))
    with pytest.raises(DataError, match=r"train_labels\.pkl .*get it again"):
        prepare("tiered-imagenet", tmp_path)


def test_a_pickle_of_steps_without_pictures_is_refused_in_time(tmp_path: Path) -> None:
    (tmp_path / "x.pkl").write_bytes(b"\x80\x04]" + b"N0" * 20_000_000 + b".")
    outcome = bounded(lambda: find_pickled_pngs(tmp_path / "x.pkl"))
    assert outcome.kind == "DataError", outcome
