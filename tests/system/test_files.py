"""Files that are either the old one or the whole new one."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from remp.errors import ConfigError
from remp.system.files import Place, write_atomically


def test_two_that_write_the_same_file_at_once_leave_the_whole_content_of_one(tmp_path):
    path, contents = tmp_path / "labels.csv", [letter * 100_000 for letter in (b"a", b"b")]
    with ThreadPoolExecutor(2) as threads:
        for _ in range(20):
            for written in [threads.submit(write_atomically, path, [one] * 5) for one in contents]:
                written.result()
            assert path.read_bytes() in [one * 5 for one in contents]
    assert [entry.name for entry in tmp_path.iterdir()] == ["labels.csv"]


def test_an_error_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_bytes(b"old")

    def pieces():
        yield b"new"
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        write_atomically(path, pieces())
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["labels.csv"]


def test_the_path_of_a_place_elsewhere_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match="s3://bucket/photos is not on this machine; needed a path: copy it here"):
        _ = Place("s3://bucket/photos").path
