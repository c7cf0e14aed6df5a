"""Members of a tar, a zip or a folder, read one at a time; nothing is ever unpacked to disk."""

import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Protocol

from remp.errors import DataError

MEMBER_LIMIT = 2**30  # bytes; the largest member of any archive we read (CIFAR-100's training file) has 0.15 GiB


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
    if zipfile.is_zipfile(path):
        return _ZipMembers(path)
    with _damage_is_told(path):
        if tarfile.is_tarfile(path):
            return _TarMembers(path)
    raise DataError(f"{path} is neither a tar nor a zip archive, or it is cut short: get it again")


@contextmanager
def _damage_is_told(path: Path) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
        raise DataError(f"{path} is truncated or damaged ({error}): get it again") from error


def _check_member(path: Path, name: str, size: int) -> None:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if not parts or parts[0].startswith("/") or ":" in parts[0] or ".." in parts:
        raise DataError(f"{path} has a member {name!r} that would leave the target folder: refused, do not trust it")
    if size > MEMBER_LIMIT:
        raise DataError(f"{path} has a member {name!r} of {size} bytes, more than {MEMBER_LIMIT}: refused")


def _link_error(path: Path, name: str) -> DataError:
    return DataError(f"{path} has a member {name!r} that is a link or a device: refused, do not trust it")


class _FolderMembers:
    def __init__(self, path: Path) -> None:
        self.path = path

    def names(self) -> list[str]:
        return sorted(file.relative_to(self.path).as_posix() for file in self.path.rglob("*") if file.is_file())

    def read(self, name: str) -> bytes:
        with _damage_is_told(self.path / name):
            return (self.path / name).read_bytes()


class _ZipMembers:
    def __init__(self, path: Path) -> None:
        self.path = path
        with _damage_is_told(path):
            self._archive = zipfile.ZipFile(path)
        for info in self._archive.infolist():
            _check_member(path, info.filename, info.file_size)
            if stat.S_ISLNK(info.external_attr >> 16):
                raise _link_error(path, info.filename)

    def names(self) -> list[str]:
        return [info.filename for info in self._archive.infolist() if not info.is_dir()]

    def read(self, name: str) -> bytes:
        with _damage_is_told(self.path):
            return self._archive.read(name)


class _TarMembers:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._archive = tarfile.open(path)  # noqa: SIM115 (members are read later)
        for member in self._archive:
            _check_member(path, member.name, member.size)
            if not (member.isfile() or member.isdir()):
                raise _link_error(path, member.name)

    def names(self) -> list[str]:
        return [member.name for member in self._archive if member.isfile()]

    def read(self, name: str) -> bytes:
        with _damage_is_told(self.path):
            file = self._archive.extractfile(name)
            return file.read() if file else b""
