"""Members of a tar, a zip or a folder, read one at a time; nothing is ever unpacked to disk."""

import bz2
import gzip
import io
import lzma
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Protocol

from remp.errors import DataError
from remp.untrusted import border, shortened

MEMBER_LIMIT = 2**28  # bytes; the largest member of any archive we read (CIFAR-100's training file) has 0.15 GiB
# All members together may be so many times as large as the archive, and so many bytes more.
_UNFOLDING, _UNFOLDING_BYTES = 50, 2**27
# A member takes at least so many bytes of an archive, beyond the first so many members.
_BYTES_PER_MEMBER, _FREE_MEMBERS = 128, 50_000
_LONGEST_NAME = 4096  # letters: a longer path no system can make

_BLOCK = 512  # bytes of a tar's headers
_DECOMPRESSORS: dict[bytes, Callable[[BinaryIO], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\0": lzma.open,
    b"\x5d\0\0": lzma.open,
}


class Members(Protocol):
    """Named pieces of data: `Alphabet/character01/0001_01.png` and so on."""

    path: Path

    def names(self) -> list[str]: ...

    def read(self, name: str) -> bytes: ...


def open_members(path: Path) -> Members:
    """The members of an archive, or of the folder it was unpacked to. Raises DataError for any other file."""
    if path.is_dir():
        return _FolderMembers(path)
    if not path.is_file():
        raise DataError(f"{path} does not exist: give the path of the archive or of its folder with --from")
    with _damage_is_told(path):
        is_zip = zipfile.is_zipfile(path)
    return _ZipMembers(path) if is_zip else _TarMembers(path)


def _damage_is_told(path: Path, name: str = "") -> Any:
    where = f"{path}, member {shortened(name)!r}," if name else str(path)
    return border(f"{where} is truncated or damaged", "get it again")


def _check_member(path: Path, name: str, size: int) -> None:
    if len(name) > _LONGEST_NAME:
        shown = repr(shortened(name))
        raise DataError(f"{path} has a member {shown} with a name of {len(name):,} letters: refused, do not trust it")
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if not parts or parts[0].startswith("/") or ":" in parts[0] or ".." in parts or "\0" in name:
        shown = repr(shortened(name))
        raise DataError(f"{path} has a member {shown} that would leave the target folder: refused, do not trust it")
    _check_size(path, name, size)


def _check_size(path: Path, name: str, size: int) -> None:
    if size > MEMBER_LIMIT:
        shown = repr(shortened(name))
        raise DataError(f"{path} has a member {shown} of {size} bytes, more than {MEMBER_LIMIT}: refused")


def _link_error(path: Path, name: str) -> DataError:
    return DataError(
        f"{path} has a member {shortened(name)!r} that is a link or a device or has holes: refused, do not trust it"
    )


def _most_bytes(path: Path) -> int:
    """What an archive may unpack to."""
    return _UNFOLDING * path.stat().st_size + _UNFOLDING_BYTES


def _unfolding_error(path: Path) -> DataError:
    return DataError(
        f"{path} unpacks to more than {_UNFOLDING} times its size: refused. If you trust it, unpack it yourself and "
        "give the folder"
    )


def check_unfolding(path: Path, members: Sequence[zipfile.ZipInfo]) -> None:
    """Raise DataError for a zip whose members together are far larger than it is."""
    if sum(member.file_size for member in members) > _most_bytes(path):
        raise _unfolding_error(path)


class _FolderMembers:
    def __init__(self, path: Path) -> None:
        self.path = path

    def names(self) -> list[str]:
        with border(f"{self.path} cannot be listed", "see that you may read it"):
            return sorted(file.relative_to(self.path).as_posix() for file in self.path.rglob("*") if file.is_file())

    def read(self, name: str) -> bytes:
        path = self.path / name
        with border(f"{path} cannot be read", "see that it is there and that you may read it"):
            _check_size(self.path, name, path.stat().st_size)
            return path.read_bytes()


class _ZipMembers:
    def __init__(self, path: Path) -> None:
        self.path = path
        with _damage_is_told(path):
            self._archive = zipfile.ZipFile(path)
        for info in self._archive.infolist():
            _check_member(path, info.filename, info.file_size)
            if stat.S_ISLNK(info.external_attr >> 16):
                raise _link_error(path, info.filename)
        check_unfolding(path, self._archive.infolist())
        self._members = {info.filename: info for info in self._archive.infolist() if not info.is_dir()}

    def names(self) -> list[str]:
        return list(self._members)

    def read(self, name: str) -> bytes:
        info = self._members[name]
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # the others know no limit
            raise DataError(f"{self.path} is a zip not of the usual kind (deflate): unpack it and give the folder")
        with _damage_is_told(self.path, name), self._archive.open(info) as file:
            content = file.read(info.file_size + 1)  # not all that there is: it may be far more than it says
        if len(content) != info.file_size:
            raise DataError(f"{self.path}, member {shortened(name)!r}, is cut short: get the archive again")
        return content


class _TarMembers:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = _open_tar_stream(path)
        with border(f"{path} is neither a tar nor a zip archive, or it is cut short", "get it again"):
            archive = tarfile.open(fileobj=self._file, mode="r:")  # noqa: SIM115 (closed with its file)
        self._places: dict[str, tuple[int, int]] = {}  # name -> where the data starts, and how many bytes it has
        self._n_members = 0  # with folders, and with those whose name another one takes
        with _damage_is_told(path):
            while (member := archive.next()) is not None:
                self._add(member)
                archive.members.clear()  # type: ignore[attr-defined]  # a kilobyte each
            self._check_end(archive.offset)

    def names(self) -> list[str]:
        return list(self._places)

    def read(self, name: str) -> bytes:
        start, size = self._places[name]
        with _damage_is_told(self.path, name):
            self._file.seek(start)
            content = self._file.read(size)
        if len(content) != size:
            raise DataError(f"{self.path}, member {shortened(name)!r}, is cut short: get the archive again")
        return content

    def _add(self, member: tarfile.TarInfo) -> None:
        _check_member(self.path, member.name, member.size)
        if not (member.isfile() or member.isdir()) or member.issparse():
            raise _link_error(self.path, member.name)
        self._n_members += 1
        if self._n_members > _FREE_MEMBERS + self.path.stat().st_size // _BYTES_PER_MEMBER:
            raise _unfolding_error(self.path)
        if member.isfile():
            self._places[member.name] = (member.offset_data, member.size)

    def _check_end(self, offset: int) -> None:
        """A damaged header ends the list of members as if no more followed; the true end is zeros. What follows is read
        for the sake of the compression's own check sum."""
        self._file.seek(offset)
        block = self._file.read(_BLOCK)
        if len(block) != _BLOCK or any(block):
            raise DataError(f"{self.path} is truncated or damaged at byte {offset} of its content: get it again")
        while self._file.read(2**20):
            pass


def _open_tar_stream(path: Path) -> "_TarStream":
    with _damage_is_told(path):
        file = path.open("rb")
        start = file.read(8)
        file.seek(0)
        opener = next((opener for magic, opener in _DECOMPRESSORS.items() if start.startswith(magic)), None)
        return _TarStream(opener(file) if opener else file, path)


class _TarStream(io.RawIOBase):
    """The uncompressed tar, of which nobody reads further than it may unfold, nor a whole gigabyte at once."""

    def __init__(self, file: Any, path: Path) -> None:
        self._file, self._path, self._most = file, path, _most_bytes(path)

    def read(self, size: int = -1) -> bytes:
        self._check(self._file.tell() + size, size)
        return self._file.read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._check(offset if whence == os.SEEK_SET else self._file.tell() + offset, 0)
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def _check(self, place: int, size: int) -> None:
        if place > self._most or not 0 <= size <= MEMBER_LIMIT:
            raise _unfolding_error(self._path)
