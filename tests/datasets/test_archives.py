"""Archives are read as they are, and refused where they are not what they should be."""

import bz2
import gzip
import io
import lzma
import os
import stat
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest

from bounds import bounded
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


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_a_folder_may_have_a_colon_in_its_name(tmp_path: Path) -> None:
    (tmp_path / "Film: part 1").mkdir()
    (tmp_path / "Film: part 1" / "a.txt").write_bytes(b"1")
    members = open_members(tmp_path)
    assert [members.read(name) for name in members.names()] == [b"1"]


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


def compressed(content: bytes, kind: str) -> bytes:
    return {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}[kind](content)


def tar_of(*members: tarfile.TarInfo, n_zeros: int = 0) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(bytes(member.size)))
    return buffer.getvalue() + bytes(n_zeros)


def member(name: str, size: int = 0, pax: dict[str, str] | None = None) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.pax_headers = size, pax or {}
    return info


def pax_bomb() -> bytes:
    """A header that says its text has 2 GiB, and has it: all zeros."""
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 2**31
    return info.tobuf() + bytes(2**27)


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])
def test_every_compression_reads_alike_and_is_refused_if_damaged(tmp_path: Path, kind: str) -> None:
    write_tar(tmp_path / "x.tar.gz", MEMBERS)
    content = compressed(gzip.decompress((tmp_path / "x.tar.gz").read_bytes()), kind)
    (tmp_path / "x.tar").write_bytes(content)
    members = open_members(tmp_path / "x.tar")
    assert {name: members.read(name) for name in members.names()} == MEMBERS
    for damaged in (content[:-9], content[:20], content[:300] + b"\xff" * 8 + content[308:]):
        (tmp_path / "x.tar").write_bytes(damaged)
        with pytest.raises(DataError, match=r"x\.tar .*: get it again"):
            open_members(tmp_path / "x.tar")


@pytest.mark.parametrize(
    "content",
    {
        "zeros": lambda: gzip.compress(tar_of(member("a", 200 * 2**20)), 9),
        "empty members": lambda: gzip.compress(
            b"".join(member(f"{i:07}").tobuf() for i in range(10**5)) + bytes(1024), 9
        ),
        "one member many times": lambda: gzip.compress(member("a").tobuf() * 200_000 + bytes(1024), 9),
        "a long header": lambda: gzip.compress(pax_bomb(), 9),
    }.items(),
    ids=lambda item: item[0],
)
def test_a_small_archive_does_not_unfold_without_end(tmp_path: Path, content: tuple) -> None:
    (tmp_path / "x.tar.gz").write_bytes(content[1]())
    outcome = bounded(lambda: open_members(tmp_path / "x.tar.gz"))
    assert outcome.kind == "DataError", outcome
    assert "unpacks to more than" in outcome.text


@pytest.mark.parametrize("write", [write_tar, write_zip])
def test_a_name_that_no_system_has_is_refused(tmp_path: Path, write: object) -> None:
    write(tmp_path / "archive", {"a/" * 3000 + "b": b"1"})
    with pytest.raises(DataError, match="a name of 6,001 letters: refused"):
        open_members(tmp_path / "archive")


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_member_of_a_zip_that_is_larger_than_it_says_takes_no_memory(tmp_path: Path, method: int) -> None:
    size = 2**26
    with zipfile.ZipFile(tmp_path / "x.zip", "w", method) as archive:
        archive.writestr("a.txt", bytes(size))
    content = (tmp_path / "x.zip").read_bytes()
    (tmp_path / "x.zip").write_bytes(content.replace(struct.pack("<I", size), struct.pack("<I", 9)))
    outcome = bounded(lambda: open_members(tmp_path / "x.zip").read("a.txt"), mebibytes=16)
    assert outcome.kind == "DataError", outcome


def test_a_zip_without_a_name_or_without_its_bytes_is_refused(tmp_path: Path) -> None:
    write_zip(tmp_path / "x.zip", {"a.txt": b"12345"})
    content = (tmp_path / "x.zip").read_bytes()
    start = content.index(b"PK\x01\x02")
    nothing = content[: start + 16] + bytes(8) + content[start + 24 :]  # no check sum, no bytes, but a size
    (tmp_path / "x.zip").write_bytes(nothing)
    with pytest.raises(DataError, match="cut short"):
        open_members(tmp_path / "x.zip").read("a.txt")
    nameless = content[: start + 28] + bytes(2) + content[start + 30 : start + 46] + content[start + 51 :]
    (tmp_path / "x.zip").write_bytes(nameless.replace(struct.pack("<I", 51), struct.pack("<I", 46)))
    with pytest.raises(DataError, match=r"x\.zip"):
        open_members(tmp_path / "x.zip")


def test_many_large_members_in_a_small_zip_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(4):
            archive.writestr(f"{i}.txt", bytes(2**26))
    with pytest.raises(DataError, match="unpacks to more than"):
        open_members(tmp_path / "x.zip")


def test_a_damaged_header_does_not_end_the_list_of_members_in_silence(tmp_path: Path) -> None:
    content = bytearray(tar_of(member("a", 600), member("b", 600)))
    content[3 * 512 + 3] ^= 1  # in the name of the second: its check sum is wrong
    (tmp_path / "x.tar").write_bytes(content)
    with pytest.raises(DataError, match=r"damaged at byte 1536 .*: get it again"):
        open_members(tmp_path / "x.tar")


@pytest.mark.parametrize(
    "pax",
    [{"path": "a\0b"}, {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}, {"GNU.sparse.map": "1,x"}],
    ids=str,
)
def test_odd_extended_headers_are_refused(tmp_path: Path, pax: dict[str, str]) -> None:
    (tmp_path / "x.tar").write_bytes(tar_of(member("a", 600, pax), n_zeros=1024))
    with pytest.raises(DataError, match=r"x\.tar"):
        open_members(tmp_path / "x.tar")


def test_of_two_members_of_one_name_the_last_counts(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a.txt", b"old")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.txt", b"new")
    members = open_members(tmp_path / "x.zip")
    assert {name: members.read(name) for name in members.names()} == {"a.txt": b"new"}
    assert len(members.names()) == 1
