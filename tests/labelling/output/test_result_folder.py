"""A folder of results: whole or absent, and never in place of what is not ours."""

import errno
import os
import resource
import time

import pytest

from remp.errors import ConfigError, OutputError
from remp.labelling.output.result_folder import ResultFolder


def fill(folder):
    (folder / "labels.csv").write_text("file,label\n")
    (folder / "classes" / "cat").mkdir(parents=True)
    (folder / "classes" / "cat" / "1.jpg").write_bytes(b"picture")


def fill_anew(folder):
    (folder / "labels.csv").write_text("new")


def test_the_result_appears_with_all_its_files(tmp_path):
    assert ResultFolder(tmp_path / "r").write(fill) == tmp_path / "r"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r"]
    assert (tmp_path / "r" / "classes" / "cat" / "1.jpg").read_bytes() == b"picture"


def test_a_folder_that_is_taken_gives_way_to_a_number(tmp_path):
    place = ResultFolder(tmp_path / "r", numbered=True)
    assert [place.write(fill).name for _ in range(3)] == ["r", "r-2", "r-3"]


def test_or_is_an_error_where_the_user_named_it(tmp_path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "mine.txt").touch()
    with pytest.raises(ConfigError, match="r exists already: give another --out, or --overwrite"):
        ResultFolder(tmp_path / "r").check()


def test_an_empty_folder_is_free(tmp_path):
    (tmp_path / "r").mkdir()
    place = ResultFolder(tmp_path / "r")
    place.check()
    assert place.write(fill) == tmp_path / "r"


def test_a_result_of_ours_is_replaced_if_asked_to(tmp_path):
    place = ResultFolder(tmp_path / "r", overwrite=True)
    place.write(fill)
    (tmp_path / "r" / ".DS_Store").touch()
    place.check()
    assert place.write(fill_anew) == tmp_path / "r"
    assert [path.name for path in (tmp_path / "r").iterdir() if not path.name.startswith(".")] == ["labels.csv"]
    assert (tmp_path / "r" / "labels.csv").read_text() == "new"
    assert os.listdir(tmp_path) == ["r"]


def add_a_file(folder):
    (folder / "notes.txt").write_text("mine")


def correct_a_label(folder):
    (folder / "labels.csv").write_text("file,label\n1.jpg,cat\n")


def add_an_empty_folder(folder):
    (folder / "classes" / "new").mkdir()


def move_a_picture(folder):
    (folder / "classes" / "cat" / "1.jpg").rename(folder / "moved.jpg")


def lose_the_manifest(folder):
    (folder / ".remp-label.json").unlink()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (add_a_file, "'notes.txt' in it is not of remp"),
        (correct_a_label, "'labels.csv' in it was changed"),
        (add_an_empty_folder, "the folder 'classes/new' in it is not of remp"),
        (move_a_picture, "'moved.jpg' in it is not of remp"),
        (lose_the_manifest, "it is not a result of remp label"),
    ],
)
def test_a_result_the_user_has_worked_on_is_never_replaced(tmp_path, change, message):
    place = ResultFolder(tmp_path / "r", overwrite=True)
    place.write(fill)
    change(tmp_path / "r")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    with pytest.raises(ConfigError, match=message):
        place.check()
    with pytest.raises(ConfigError, match=message):
        place.write(fill_anew)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == {**before}


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_file_or_a_link_is_never_replaced(tmp_path, kind):
    ResultFolder(tmp_path / "other").write(fill)
    if kind == "file":
        (tmp_path / "r").write_text("mine")
    else:
        (tmp_path / "r").symlink_to("other")
    with pytest.raises(ConfigError, match="is not replaced: it is not a folder"):
        ResultFolder(tmp_path / "r", overwrite=True).check()
    assert ResultFolder(tmp_path / "r", numbered=True).write(fill).name == "r-2"


@pytest.mark.parametrize("content", ["[" * 100_000, "[]", "{}", '{"files": 3}', '{"files": ["labels.csv"]}', "\\xff"])
def test_a_result_with_a_damaged_manifest_is_never_replaced(tmp_path, content):
    folder = ResultFolder(tmp_path / "out").write(fill)
    (manifest,) = folder.glob(".*.json")
    manifest.write_text(content)
    with pytest.raises(ConfigError, match="is not replaced: it is not a result of remp label"):
        ResultFolder(tmp_path / "out", overwrite=True).write(fill_anew)


def test_a_manifest_cannot_have_files_outside_deleted(tmp_path):
    place = ResultFolder(tmp_path / "r", overwrite=True)
    place.write(fill)
    (tmp_path / "mine.txt").write_text("mine")
    manifest = tmp_path / "r" / ".remp-label.json"
    manifest.write_text(manifest.read_text().replace('"files": {', '"files": {"../mine.txt": [4, 0], '))
    place.write(fill_anew)
    assert (tmp_path / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), MemoryError()]
)
def test_an_interruption_leaves_nothing_and_keeps_the_old_result(tmp_path, error):
    place = ResultFolder(tmp_path / "r", overwrite=True)
    place.write(fill)

    def fill_half(folder):
        (folder / "labels.csv").write_text("half")
        raise error

    with pytest.raises((OutputError, KeyboardInterrupt, MemoryError)) as raised:
        place.write(fill_half)
    assert os.listdir(tmp_path) == ["r"]
    assert (tmp_path / "r" / "labels.csv").read_text() == "file,label\n"
    if isinstance(error, OSError):
        assert "r cannot be written: No space left on device. Nothing was left there" in str(raised.value)


def test_a_file_that_grows_beyond_what_the_system_allows_leaves_nothing(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))  # a real failure in the middle of a write
    try:
        with pytest.raises(OutputError, match="r cannot be written: File too large"):
            ResultFolder(tmp_path / "r").write(lambda folder: (folder / "labels.csv").write_bytes(bytes(1 << 20)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert os.listdir(tmp_path) == []


def test_the_old_result_comes_back_if_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
    place = ResultFolder(tmp_path / "r", overwrite=True)
    place.write(fill)
    rename = type(tmp_path).rename

    def rename_all_but_the_new(path, target):
        if ".partial-" in str(path):
            raise OSError(errno.EIO, "Input/output error")
        return rename(path, target)

    monkeypatch.setattr(type(tmp_path), "rename", rename_all_but_the_new)
    with pytest.raises(OutputError, match="Input/output error"):
        place.write(fill_anew)
    assert os.listdir(tmp_path) == ["r"]
    assert (tmp_path / "r" / "labels.csv").read_text() == "file,label\n"


def test_a_disk_that_cannot_be_written_is_known_before_the_work(tmp_path, monkeypatch):
    def refuse(path, *_, **__):
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(type(tmp_path), "mkdir", refuse)
    with pytest.raises(OutputError, match=r"r cannot be written: Read-only file system \(.*give another --out"):
        ResultFolder(tmp_path / "r").check()


def test_what_killed_runs_left_goes_after_an_hour(tmp_path):
    old, new = tmp_path / ".remp-label.partial-old", tmp_path / ".remp-label.partial-new"
    for folder in (old, new):
        folder.mkdir()
        (folder / "labels.csv").touch()
    for path in (old / "labels.csv", old):
        os.utime(path, (time.time() - 4000,) * 2)
    ResultFolder(tmp_path / "r").check()
    assert (old.exists(), new.exists()) == (False, True)
