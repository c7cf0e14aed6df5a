"""Records are found again, whoever wrote them and however that ended."""

import errno
import os
import signal

import numpy as np
import pytest

from remp.labelling.embedding.cache import KEY, RecordFiles, digest

resource = pytest.importorskip("resource")  # not on Windows
KEYS = np.dtype([("key", KEY), ("check", KEY)])


def files(folder):
    return RecordFiles(folder, rows=np.dtype(("<f4", (3,))), keys=KEYS)


def key(number: int) -> bytes:
    return digest(str(number).encode())


def add(records: RecordFiles, *numbers: int) -> None:
    rows = np.array([[number] * 3 for number in numbers], "<f4")
    records.append(rows, np.array([(key(number), b"") for number in numbers], KEYS))


def values(folder, *numbers: int) -> dict[int, float]:
    """What is found of these numbers."""
    found = {found: float(row[0]) for found, (row, _) in files(folder).take({key(number) for number in numbers})}
    return {number: found[key(number)] for number in numbers if key(number) in found}


def test_what_was_appended_is_found_and_nothing_else(tmp_path):
    records = files(tmp_path / "new" / "folder")
    add(records, 1, 2, 3)
    add(records, 4)
    assert values(tmp_path / "new" / "folder", 2, 4, 5) == {2: 2.0, 4: 4.0}


def test_a_folder_that_is_not_there_holds_nothing(tmp_path):
    assert values(tmp_path / "none", 1) == {}


def test_the_newest_record_of_a_key_counts(tmp_path):
    for row in (5.0, 6.0):
        files(tmp_path).append(np.full((1, 3), row, "<f4"), np.array([(key(1), b"")], KEYS))
    assert values(tmp_path, 1) == {1: 6.0}


def test_processes_that_append_at_once_do_not_disturb_each_other(tmp_path):
    children = []
    for child in range(4):
        process = os.fork()
        if process == 0:
            records = files(tmp_path)
            for number in range(50):
                add(records, 100 * child + number)
            os._exit(0)
        children.append(process)
    assert [os.waitpid(process, 0)[1] for process in children] == [0] * 4
    wanted = [100 * child + number for child in range(4) for number in range(50)]
    assert values(tmp_path, *wanted) == {number: float(number) for number in wanted}


@pytest.mark.parametrize("kind", ["rows", "keys"])
@pytest.mark.parametrize("lost", [1, 5, 11])
def test_a_record_that_is_cut_off_is_not_there_and_the_others_are(tmp_path, kind, lost):
    add(files(tmp_path), 1, 2, 3)
    path = next(tmp_path.glob(f"*.{kind}"))
    path.write_bytes(path.read_bytes()[:-lost])
    assert values(tmp_path, 1, 2, 3) == {1: 1.0, 2: 2.0}


@pytest.mark.parametrize("kind", ["rows", "keys"])
def test_a_record_in_which_a_byte_changed_is_not_there_until_it_is_made_again(tmp_path, kind):
    add(files(tmp_path), 1, 2, 3)
    path = next(tmp_path.glob(f"*.{kind}"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    records = files(tmp_path)
    assert {found for found, _ in records.take({key(1), key(3)})} == {key(1)}
    assert records.damaged == {key(3)}
    add(records, 3)
    assert {found for found, _ in records.take({key(1), key(3)})} == {key(1), key(3)}


def test_a_missing_file_of_rows_and_strange_files_do_no_harm(tmp_path):
    add(files(tmp_path), 1)
    next(tmp_path.glob("*.rows")).unlink()
    (tmp_path / "README.txt").write_text("not a record")
    (tmp_path / "zzz.keys").write_bytes(b"abc")
    (tmp_path / "folder.keys").mkdir()
    assert values(tmp_path, 1) == {}


def test_a_full_disk_ends_the_keeping_and_says_why(tmp_path):
    records = files(tmp_path)
    add(records, 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40, hard))  # no file longer than 40 bytes
    try:
        add(records, 2, 3, 4, 5, 6)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert records.problem.endswith((os.strerror(errno.ENOSPC), os.strerror(errno.EFBIG)))
    add(records, 7)  # there is room again, but the file ends in the middle of a record
    assert values(tmp_path, 1, 2, 3, 4, 5, 6, 7) == {1: 1.0}


def test_where_no_folder_can_be_made_the_problem_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    records = files(tmp_path / "file" / "folder")
    add(records, 1)
    assert records.problem.startswith(str(tmp_path / "file" / "folder"))
