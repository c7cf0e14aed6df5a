"""The journal: what is in it after a crash, a full disk, and in the hands of another collection."""

import errno
import os
import zlib
from pathlib import Path

import pytest

from remp.errors import DataError
from remp.studio.journal import Journal, labels_header


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(6):
        (folder / f"{number}.png").write_bytes(b"picture %d" % number)
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def opened(folder: Path) -> Journal:
    journal = Journal(folder.with_name("photos.journal"))
    journal.check(folder, names(folder))
    return journal


def test_what_was_appended_is_there_after_any_end(folder):
    journal = opened(folder)
    journal.append({"do": "label", "class": "鳥 \udc80"})
    journal.append({"do": "undo"})
    assert opened(folder).entries == [{"do": "label", "class": "鳥 \udc80"}, {"do": "undo"}]


@pytest.mark.parametrize("lost", [1, 5, 12])
def test_a_last_line_that_was_cut_off_is_dropped_and_counted(folder, lost):
    journal = opened(folder)
    journal.append({"do": "undo"})
    journal.append({"do": "redo"})
    content = journal.path.read_bytes()
    journal.path.write_bytes(content[:-lost])
    again = opened(folder)
    if lost == 1:  # only the end of the line is missing: the sum still fits
        assert (len(again.entries), again.n_damaged) == (2, 0)
    else:
        assert (again.entries, again.n_damaged) == ([{"do": "undo"}], 1)
    again.append({"do": "label"})
    assert opened(folder).entries[-1] == {"do": "label"}
    assert journal.path.read_bytes().startswith(content[:-lost])  # only ever appended to


def test_a_changed_byte_is_damage(folder):
    journal = opened(folder)
    journal.append({"do": "undo"})
    content = journal.path.read_bytes()
    journal.path.write_bytes(content.replace(b"undo", b"redo"))
    assert (opened(folder).entries, opened(folder).n_damaged) == ([], 1)


def test_the_journal_of_another_collection_is_refused(folder):
    journal = opened(folder)
    journal.append({"do": "undo"})
    for path in folder.iterdir():
        path.write_bytes(b"something else " + path.name.encode())
    with pytest.raises(DataError, match=r"journal of another collection .*0 of 6 pictures"):
        opened(folder)


def test_a_collection_that_grew_moved_and_lost_a_picture_is_the_same(folder):
    opened(folder).append({"do": "undo"})
    (folder / "0.png").unlink()
    (folder / "new.png").write_bytes(b"new")
    moved = folder.with_name("moved")
    folder.rename(moved)
    journal = Journal(folder.with_name("photos.journal"))
    journal.check(moved, names(moved))
    assert journal.entries == [{"do": "undo"}]


@pytest.mark.parametrize("content", [b"hello\n", b"\x00\xff\n", b"file,label\na,b\n"])
def test_a_file_that_is_no_journal_is_left_alone(folder, content):
    path = folder.with_name("photos.journal")
    path.write_bytes(content)
    with pytest.raises(DataError, match="not a journal of remp studio"):
        opened(folder)
    assert path.read_bytes() == content


def test_a_journal_whose_first_line_was_cut_off_is_started_again(folder):
    path = folder.with_name("photos.journal")
    opened(folder)
    whole = path.read_bytes()
    for n_bytes in (20, len(whole) // 2, len(whole) - 2):
        path.write_bytes(whole[:n_bytes])
        opened(folder).append({"do": "undo"})
        assert opened(folder).entries == [{"do": "undo"}]


def test_on_a_full_disk_entries_wait_and_are_written_later(folder, monkeypatch):
    journal = opened(folder)
    write = os.write

    def half(file: int, content: bytes) -> int:
        if len(content) < 8:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, bytes(content[: len(content) // 2]))

    monkeypatch.setattr(os, "write", half)
    journal.append({"do": "label", "class": "a"})
    journal.append({"do": "label", "class": "b"})
    assert "No space left" in journal.problem
    monkeypatch.setattr(os, "write", write)
    journal.append({"do": "label", "class": "c"})
    assert not journal.problem
    assert [entry["class"] for entry in opened(folder).entries] == ["a", "b", "c"]


def test_what_was_written_but_is_not_on_the_disk_yet_is_tried_again(folder, monkeypatch):
    journal = opened(folder)

    def fail(file: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        journal.append({"do": "undo"})
    assert journal.problem
    journal.retry()
    assert not journal.problem
    assert opened(folder).entries == [{"do": "undo"}]


def test_a_full_device_is_no_error(folder):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    journal = opened(folder)
    journal.path = Path("/dev/full")
    journal.append({"do": "undo"})
    assert "No space left" in journal.problem


def test_a_header_or_line_of_another_form_is_damage(folder):
    """Their check sums are right: somebody wrote them so."""
    path = folder.with_name("photos.journal")
    header = b'{"journal":1,"witnesses":[1]}'
    path.write_bytes(b"%08x %b\n" % (zlib.crc32(header), header))
    with pytest.raises(DataError, match="not a journal of remp studio"):
        opened(folder)
    path.unlink()
    opened(folder)
    deep = b"[" * 100_000
    with path.open("ab") as file:
        file.write(b"%08x %b\n" % (zlib.crc32(deep), deep))
    assert (opened(folder).entries, opened(folder).n_damaged) == ([], 1)


def test_a_journal_knows_the_file_of_labels_that_it_was_started_with(folder, tmp_path):
    path, labels = folder.with_name("photos.journal"), tmp_path / "labels.csv"
    labels.write_text("file,label\na.png,cat\n")
    started = Journal(path)
    assert started.given_labels(labels) == labels
    started.check(folder, names(folder), labels_header(labels))
    started.append({"do": "dismiss", "key": "x"})
    again = Journal(path)
    assert again.given_labels(None) == again.given_labels(labels) == labels
    (tmp_path / "other.csv").write_text("file,label\n")
    with pytest.raises(DataError, match=r"started with the labels of .*labels\.csv, and .*other\.csv is another file"):
        again.given_labels(tmp_path / "other.csv")
    labels.write_text("file,label\na.png,dog\n")
    with pytest.raises(DataError, match="that file is gone or has changed"):
        again.given_labels(None)


def test_a_journal_without_a_file_of_labels_takes_one_as_long_as_nothing_was_done(folder, tmp_path):
    path, labels = folder.with_name("photos.journal"), tmp_path / "labels.csv"
    labels.write_text("file,label\na.png,cat\n")
    Journal(path).check(folder, names(folder), {"side": 64})
    again = Journal(path)
    assert again.given_labels(labels) == labels
    again.check(folder, names(folder), {"side": 96, **labels_header(labels)})
    started = Journal(path)
    assert (started.given_labels(None), started.made_with, started.entries) == (labels, {"side": 96}, [])


def test_a_journal_without_a_file_of_labels_takes_none_later(folder, tmp_path):
    opened(folder).append({"do": "dismiss", "key": "x"})
    (tmp_path / "labels.csv").write_text("file,label\n")
    journal = Journal(folder.with_name("photos.journal"))
    assert journal.given_labels(None) is None
    with pytest.raises(DataError, match=r"was started without a file of labels.*or leave --labels out"):
        journal.given_labels(tmp_path / "labels.csv")
