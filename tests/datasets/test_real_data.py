"""The real data sets in their official layouts; minutes long, so run with `-m slow`."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from remp.datasets import ReadOptions, open_prepared, prepare

MAKE_ARCHIVES = Path(__file__).resolve().parents[3] / "shared" / "data" / "make_archives.py"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real_data,
    pytest.mark.usefixtures("remp_home"),
    pytest.mark.skipif(not MAKE_ARCHIVES.is_file(), reason=f"the real data is not here: no {MAKE_ARCHIVES}"),
]


@pytest.fixture(scope="session")
def raw(request: pytest.FixtureRequest) -> Path:
    """The archives, made once and kept in pytest's cache."""
    folder = request.config.cache.mkdir("real_data")
    command = [sys.executable, str(MAKE_ARCHIVES), str(folder), "cifar100", "omniglot", "miniimagenet"]
    subprocess.run(command, check=True)
    return folder


def sizes(index: dict) -> dict[str, tuple[int, set[int]]]:
    """split -> number of classes, the different numbers of images per class."""
    return {split: (len(entry["classes"]), set(entry["counts"])) for split, entry in index["splits"].items()}


def test_cifar_fs_has_64_16_and_20_classes_of_600(raw: Path) -> None:
    index = prepare("cifar-fs", raw / "cifar-100-python.tar.gz")
    assert sizes(index) == {"train": (64, {600}), "val": (16, {600}), "test": (20, {600})}
    # the statistics that the field publishes for CIFAR-100
    np.testing.assert_allclose(index["mean"], [0.507, 0.487, 0.441], atol=0.01)
    np.testing.assert_allclose(index["std"], [0.267, 0.256, 0.276], atol=0.01)


def test_fc100_has_60_20_and_20_classes_of_600_that_share_no_superclass(raw: Path) -> None:
    index = prepare("fc100", raw / "cifar-100-python.tar.gz")
    assert sizes(index) == {"train": (60, {600}), "val": (20, {600}), "test": (20, {600})}
    assert {"baby", "boy", "girl", "man", "woman"} <= set(index["splits"]["test"]["classes"])


def test_omniglot_has_1028_172_and_423_characters_of_20(raw: Path) -> None:
    index = prepare("omniglot", raw / "omniglot")
    assert sizes(index) == {"train": (1028, {20}), "val": (172, {20}), "test": (423, {20})}
    assert 0.05 < index["mean"][0] < 0.12  # ink is rare, and white


def test_omniglot_with_rotations_has_four_times_the_classes(raw: Path) -> None:
    index = prepare("omniglot", raw / "omniglot", options=ReadOptions(size=32, rotations=True))
    assert sizes(index) == {"train": (4112, {20}), "val": (688, {20}), "test": (1692, {20})}


def test_mini_imagenet_has_64_16_and_20_classes_of_600(raw: Path) -> None:
    index = prepare("mini-imagenet", raw / "miniImageNet")
    assert sizes(index) == {"train": (64, {600}), "val": (16, {600}), "test": (20, {600})}
    assert open_prepared("mini-imagenet", "val").image_size == (84, 84, 3)
    np.testing.assert_allclose(index["mean"], [0.472, 0.453, 0.410], atol=0.02)
