"""Omniglot: ink on nothing, one channel, turned characters as classes of their own where asked for."""

from pathlib import Path

import numpy as np
import pytest

from raw_data import png, write_zip
from remp.datasets import ReadOptions, omniglot, open_prepared, prepare
from remp.errors import DataError

pytestmark = pytest.mark.usefixtures("remp_home", "three_characters")

SPLIT_OF = {"train": ["Greek/character01"], "val": ["Greek/character02"], "test": ["Angelic/character01"]}


@pytest.fixture
def three_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(omniglot, "read_split_list", {"omniglot": SPLIT_OF}.__getitem__)


def drawing() -> np.ndarray:
    """Black ink in the upper left quarter of white paper."""
    paper = np.ones((28, 28), bool)
    paper[:14, :14] = False
    return paper


@pytest.fixture
def source(tmp_path: Path) -> Path:
    def files(folder: str) -> dict[str, bytes]:
        return {f"{folder}/{i:04d}.png": png(drawing()) for i in range(20)}

    greek = {**files("images_background/Greek/character01"), **files("images_background/Greek/character02")}
    write_zip(tmp_path / "images_background.zip", greek)
    write_zip(tmp_path / "images_evaluation.zip", files("images_evaluation/Angelic/character01"))
    return tmp_path


def test_ink_is_white_on_black_in_one_channel(source: Path) -> None:
    prepare("omniglot", source)
    images = open_prepared("omniglot", "test")
    assert images.images.shape == (20, 28, 28, 1)
    np.testing.assert_array_equal(images.images[0, :, :, 0], np.where(drawing(), 0, 255))


def test_rotations_are_classes_of_their_own(source: Path) -> None:
    prepare("omniglot", source, options=ReadOptions(rotations=True))
    images = open_prepared("omniglot", "train")
    assert images.class_names == ("Greek/character01", *(f"Greek/character01/{turn}" for turn in (90, 180, 270)))
    corners = [images.images[20 * turn, [0, 0, -1, -1], [0, -1, -1, 0], 0].argmax() for turn in range(4)]
    assert corners == [0, 3, 2, 1]  # upper left, then counter-clockwise


def test_the_size_is_28_or_32(source: Path) -> None:
    assert prepare("omniglot", source, options=ReadOptions(size=32))["image_size"] == [32, 32, 1]
    with pytest.raises(DataError, match="28 or 32 pixels, got --size 84"):
        prepare("omniglot", source, options=ReadOptions(size=84), save_as="large")


def test_either_zip_stands_for_both(source: Path) -> None:
    assert len(prepare("omniglot", source / "images_background.zip")["splits"]) == 3


def test_a_missing_zip_and_a_missing_drawing_are_told(source: Path) -> None:
    files = {f"Angelic/character01/{i}.png": png(drawing()) for i in range(19)}
    write_zip(source / "images_evaluation.zip", files)
    with pytest.raises(DataError, match=r"class 'Angelic/character01' .*\(test\) has 19 images, needed 20"):
        prepare("omniglot", source)
    (source / "images_evaluation.zip").unlink()
    with pytest.raises(DataError, match=r"neither images_evaluation\.zip nor"):
        prepare("omniglot", source)
