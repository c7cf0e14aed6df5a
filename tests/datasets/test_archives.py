"""Archives are read as they are, and refused where they are not what they should be."""

import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from raw_data import write_tar, write_zip
from remp.datasets.archives import open_members
from remp.errors import DataError

MEMBERS = {"a/one.txt": b"1" * 5000, "a/b/two.txt": bytes(range(256)) * 40}


@pytest.fixture(params=["tar", "zip", "folder"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"data.{request.param}"
    if request.param == "folder":
        for name, content in MEMBERS.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
    else:
        {"tar": write_tar, "zip": write_zip}[request.param](path, MEMBERS)
    return path


def test_a_tar_a_zip_and_a_folder_read_alike(source: Path) -> None:
    members = open_members(source)
    assert {name: members.read(name) for name in members.names()} == MEMBERS


@pytest.mark.parametrize("name", ["../evil.txt", "/etc/evil.txt", "a/../../evil.txt", "C:/evil.txt", "..\\evil.txt"])
@pytest.mark.parametrize("write", [write_tar, write_zip])
def test_a_member_that_would_leave_the_target_folder_is_refused(tmp_path: Path, name: str, write: object) -> None:
    write(tmp_path / "archive", {"good.txt": b"1", name: b"2"})
    with pytest.raises(DataError, match="would leave the target folder"):
        open_members(tmp_path / "archive")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE])
def test_links_and_devices_in_a_tar_are_refused(tmp_path: Path, kind: bytes) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        member = tarfile.TarInfo("link")
        member.type, member.linkname = kind, "/etc/passwd"
        archive.addfile(member, io.BytesIO())
    with pytest.raises(DataError, match="link or a device"):
        open_members(tmp_path / "x.tar")


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        member = zipfile.ZipInfo("link")
        member.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(member, "/etc/passwd")
    with pytest.raises(DataError, match="link or a device"):
        open_members(tmp_path / "x.zip")


@pytest.mark.parametrize("source", ["tar", "zip"], indirect=True)
@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9])
def test_a_truncated_archive_is_refused(source: Path, keep: float) -> None:
    content = source.read_bytes()
    source.write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(DataError, match=r"truncated|cut short"):
        open_members(source)


def test_damage_inside_a_zip_is_told_when_the_member_is_read(tmp_path: Path) -> None:
    write_zip(tmp_path / "x.zip", MEMBERS)
    content = bytearray((tmp_path / "x.zip").read_bytes())
    content[100] ^= 255
    (tmp_path / "x.zip").write_bytes(content)
    with pytest.raises(DataError, match="damaged"):
        open_members(tmp_path / "x.zip").read("a/one.txt")


def test_a_file_that_is_no_archive_and_one_that_is_absent_are_told(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(DataError, match="neither a tar nor a zip"):
        open_members(tmp_path / "notes.txt")
    with pytest.raises(DataError, match="does not exist"):
        open_members(tmp_path / "absent.zip")
