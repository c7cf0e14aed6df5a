"""Preparing is whole or not at all, and says what it needs."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from raw_data import random_pixels, write_tree
from remp.datasets import DATASETS, ImageSet, ReadOptions, open_data, open_prepared, prepare, read_index
from remp.datasets.base import SplitWriter, list_prepared, prepared_folder
from remp.errors import DataError

SMALL = ReadOptions(size=12)


@pytest.fixture
def source(tmp_path: Path, remp_home: Path) -> Path:
    write_tree(tmp_path / "raw", [f"kind{i}" for i in range(10)], per_class=3)
    return tmp_path / "raw"


def test_a_prepared_set_holds_the_pictures_sorted_by_class_in_a_memory_map(source: Path) -> None:
    prepare("folder", source, options=SMALL)
    images = open_prepared("folder", "train")
    assert isinstance(images.images, np.memmap)
    np.testing.assert_array_equal(images.labels, np.repeat(np.arange(6), 3))
    np.testing.assert_array_equal(images.images, np.stack([random_pixels(i, 12) for _ in range(6) for i in range(3)]))


def test_mean_and_std_are_those_of_the_training_images_for_every_split(source: Path) -> None:
    prepare("folder", source, options=SMALL)
    pixels = open_prepared("folder", "train").images.reshape(-1, 3) / 255
    for split in ("train", "val", "test"):
        images = open_prepared("folder", split)
        np.testing.assert_allclose(images.mean, pixels.mean(axis=0), atol=1e-6)
        np.testing.assert_allclose(images.std, pixels.std(axis=0), atol=1e-6)


def test_one_changed_pixel_changes_the_fingerprint_of_its_split_only(source: Path) -> None:
    before = prepare("folder", source, options=SMALL)["splits"]
    changed = before["val"]["classes"][0]
    shutil.copy(source / changed / "1.png", source / changed / "0.png")
    after = prepare("folder", source, options=SMALL, force=True)["splits"]
    assert [before[split]["fingerprint"] == after[split]["fingerprint"] for split in before] == [True, False, True]


def test_it_says_what_it_found(source: Path) -> None:
    said: list[str] = []
    prepare("folder", source, options=SMALL, say=said.append)
    assert said == [
        "Found folder raw, classes split with seed 0: train 6 classes, 18 images; val 2 classes, 6 images; "
        "test 2 classes, 6 images; each 12 x 12 x 3"
    ]


def test_what_is_prepared_is_not_overwritten_unasked(source: Path) -> None:
    prepare("folder", source, options=SMALL)
    with pytest.raises(DataError, match=r"prepared already .*--force"):
        prepare("folder", source, options=SMALL)
    assert prepare("folder", source, options=ReadOptions(size=16), force=True)["image_size"] == [16, 16, 3]
    assert open_prepared("folder", "test").image_size == (16, 16, 3)


def test_too_little_disk_space_is_told_before_anything_is_written(
    source: Path, remp_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(DataError, match=r"no disk space: 'folder' needs .* GB .*REMP_HOME"):
        prepare("folder", source, options=SMALL)
    assert not remp_home.exists()


def test_a_disk_that_fills_up_in_the_middle_leaves_nothing_behind(
    source: Path, remp_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(writer: SplitWriter, images: np.ndarray) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(SplitWriter, "add", fail)
    with pytest.raises(DataError, match="No space left on device"):
        prepare("folder", source, options=SMALL)
    assert list((remp_home / "data").iterdir()) == []


def test_a_failed_prepare_keeps_the_set_that_was_there(source: Path) -> None:
    before = prepare("folder", source, options=SMALL)
    (source / "kind3" / "1.png").write_bytes(b"broken")
    with pytest.raises(DataError, match="kind3"):
        prepare("folder", source, options=SMALL, force=True)
    assert read_index("folder") == before


KILLED = """
import os, signal, sys
from pathlib import Path
from remp.datasets import prepare
from remp.datasets.base import SplitWriter
add, seen = SplitWriter.add, []
def die_at_the_eighth(writer, images):
    seen.append(add(writer, images))
    if len(seen) == 8:
        os.kill(os.getpid(), signal.SIGKILL)
SplitWriter.add = die_at_the_eighth
prepare("folder", Path(sys.argv[1]))
"""


def test_a_killed_prepare_leaves_nothing_that_looks_prepared(source: Path, remp_home: Path) -> None:
    process = subprocess.run([sys.executable, "-c", KILLED, str(source)], check=False)
    assert process.returncode == -signal.SIGKILL
    assert list((remp_home / "data").glob(".folder.partial-*"))
    assert list_prepared() == []
    with pytest.raises(DataError, match="not prepared"):
        open_prepared("folder", "train")
    prepare("folder", source)
    assert list_prepared() == ["folder"]


def test_old_leftovers_of_a_killed_prepare_are_cleared_away(source: Path, remp_home: Path) -> None:
    for name, age in (("old", 7200), ("fresh", 0)):
        leftover = remp_home / "data" / f".folder.partial-{name}"
        leftover.mkdir(parents=True)
        os.utime(leftover, (leftover.stat().st_mtime - age,) * 2)
    prepare("folder", source, options=SMALL)
    assert sorted(path.name for path in (remp_home / "data").iterdir()) == [".folder.partial-fresh", "folder"]


def test_damage_to_a_prepared_set_is_told_when_it_is_opened(source: Path) -> None:
    prepare("folder", source, options=SMALL)
    path = prepared_folder("folder") / "val.npy"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataError, match="prepare"):
        open_prepared("folder", "val")
    with pytest.raises(DataError, match="has no split 'dev'"):
        open_prepared("folder", "dev")


def test_an_unknown_name_gets_the_nearest_one(remp_home: Path) -> None:
    with pytest.raises(DataError, match="did you mean 'cifar-fs'"):
        prepare("cifarfs")


@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", " "])
def test_a_name_that_is_no_plain_name_is_refused(source: Path, name: str) -> None:
    with pytest.raises(DataError, match="cannot name a data set"):
        prepare("folder", source, options=SMALL, save_as=name)


@pytest.mark.parametrize("name", ["cifar-fs", "glyphs"])
def test_own_pictures_do_not_get_the_name_of_a_benchmark(source: Path, name: str) -> None:
    with pytest.raises(DataError, match=f"'{name}' is the name of another data set, .* give another --name"):
        prepare("folder", source, options=SMALL, save_as=name)
    assert not prepared_folder(name).exists()


@pytest.mark.parametrize("name", [name for name, dataset in DATASETS.items() if dataset.read])
def test_every_set_says_what_it_is_prepared_from(remp_home: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=r"give the path .--from PATH"):
        prepare(name)
    with pytest.raises(DataError):
        prepare(name, tmp_path)


def test_a_set_that_is_drawn_is_prepared_on_first_use(remp_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    monkeypatch.setattr("remp.datasets.open_prepared", lambda name, split: drawn.append(split))
    monkeypatch.setitem(
        DATASETS, "glyphs", SimpleNamespace(draw=lambda name, overwrite: drawn.append("draw"), read=None)
    )
    open_data("glyphs", "train")
    assert drawn == ["draw", "train"]


def test_open_set_opens_what_was_prepared_under_any_name(source: Path) -> None:
    prepare("folder", source, options=SMALL, save_as="birds")
    images = open_data("birds", "test")
    assert isinstance(images, ImageSet)
    assert (images.name, images.n_classes) == ("birds", 2)


@pytest.mark.parametrize(
    "change",
    [
        {"image_size": [12, 12]},
        {"image_size": [12, 12, "3"]},
        {"image_size": [12, 12, 10**30]},
        {"image_size": [12, 12, 2]},
        {"image_size": [2**19, 12, 3]},
        {"mean": [0.5]},
        {"mean": [0.5, 0.5, 1e40]},
        {"std": [0.2, 0.2, 1e-300]},
        {"std": [0.2, 0.2, 0]},
        {"std": [0.2, 0.2, float("nan")]},
        {"splits": []},
        {"splits": {"train": {"classes": ["a"], "counts": [1, 2], "fingerprint": ""}}},
        {"splits": {"train": {"classes": ["a"], "counts": [-1], "fingerprint": ""}}},
        {"splits": {"train": {"classes": [1], "counts": [1], "fingerprint": ""}}},
        {"splits": {"train": None}},
    ],
    ids=str,
)
def test_an_index_that_contradicts_itself_is_told(source: Path, change: dict) -> None:
    index = prepare("folder", source, options=SMALL)
    (prepared_folder("folder") / "index.json").write_text(json.dumps({**index, **change}))
    with pytest.raises(DataError, match=r"index\.json lacks .* prepare the data set again"):
        open_prepared("folder", "train")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000], ids=lambda c: repr(c[:4]))
def test_an_index_that_is_none_is_told(source: Path, content: bytes) -> None:
    prepare("folder", source, options=SMALL)
    (prepared_folder("folder") / "index.json").write_bytes(content)
    with pytest.raises(DataError, match=r"index\.json .*prepare the data set again"):
        open_prepared("folder", "train")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_class_whose_name_is_not_utf8_is_prepared_like_any_other(source: Path) -> None:
    (source / "kind0").rename(source / os.fsdecode(b"kind\xff"))
    names = {name for entry in prepare("folder", source, options=SMALL)["splits"].values() for name in entry["classes"]}
    assert os.fsdecode(b"kind\xff") in names
    assert names == {name for entry in read_index("folder")["splits"].values() for name in entry["classes"]}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cifar-fs", "remp data prepare cifar-fs --download, or remp data prepare cifar-fs --from PATH"),
        ("mini-imagenet", "remp data prepare mini-imagenet --from PATH"),
        ("cifar-sf", "did you mean 'cifar-fs'.*remp data prepare folder --from PATH --name cifar-sf"),
    ],
)
def test_a_set_that_is_not_prepared_is_told_with_what_to_type(name, message):
    with pytest.raises(DataError, match=message):
        open_data(name, "test")
