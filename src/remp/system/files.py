"""Files and folders, of this machine or at an address such as s3:// or gs://; where data and caches live; files
that are either the old one or the whole new one."""

import os
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, islice
from pathlib import Path
from typing import Any

import platformdirs

from remp.errors import ConfigError, DataError

_ABANDONED_AFTER = 3600  # seconds


def write_atomically(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Write beside `path`, flush to the disk, then rename over it. On any error the old file stays as it was.

    content: all of it, or pieces that are made while they are written.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")  # two may write the same file at once
    try:
        with partial.open("wb") as file:
            file.writelines([content] if isinstance(content, bytes) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def remove_partial(folder: Path) -> None:
    """Delete what killed writes have left in a folder to which nobody else writes now."""
    for path in folder.glob(".*.partial"):
        path.unlink(missing_ok=True)


def numbered(path: Path) -> Iterator[Path]:
    """path, path-2, path-3 …: for whoever looks for a name that is free."""
    yield path
    yield from (path.with_name(f"{path.name}-{number}") for number in count(2))


def remove_abandoned(parent: Path, prefix: str) -> None:
    """Delete what killed runs left: folders in `parent` that begin so, and in which nothing was written for an hour."""
    for folder in [entry for entry in parent.iterdir() if entry.name.startswith(prefix)]:
        inside = (Path(place, name) for place, folders, files in os.walk(folder) for name in folders + files)
        with suppress(FileNotFoundError):  # a run that is alive has just moved it
            if time.time() - max(path.lstat().st_mtime for path in (folder, *inside)) > _ABANDONED_AFTER:
                shutil.rmtree(folder, ignore_errors=True)


def home() -> Path:
    """The folder for data and caches: `$REMP_HOME`, or the platform's cache folder."""
    chosen = os.environ.get("REMP_HOME")
    return Path(chosen).expanduser() if chosen else Path(platformdirs.user_cache_dir("remp"))


@dataclass(frozen=True)
class Place:
    """A file or folder of this machine, or of any that pyarrow's file systems read.

    address: a path, or an address such as s3://bucket/folder. Options of the file system follow a question mark:
    s3://bucket/folder?endpoint_override=127.0.0.1:9000&scheme=http. Credentials come from the environment.

    >>> Place("s3://photos/2024?region=eu-north-1") / "a.jpg"
    Place(address='s3://photos/2024/a.jpg?region=eu-north-1')
    """

    address: str

    def __post_init__(self) -> None:
        if self.is_local:
            object.__setattr__(self, "address", os.path.abspath(self.address.removeprefix("file://")))

    def __str__(self) -> str:
        return self.address.partition("?")[0] if not self.is_local else self.address

    def __truediv__(self, name: str) -> "Place":
        if self.is_local:
            return Place(os.path.join(self.address, name))
        folder, mark, options = self.address.partition("?")
        return Place(f"{folder.rstrip('/')}/{name}{mark}{options}")

    @property
    def is_local(self) -> bool:
        return "://" not in self.address or self.address.startswith("file://")

    @property
    def name(self) -> str:
        """The last part of the address."""
        return os.path.basename(str(self).rstrip("/"))

    @property
    def path(self) -> Path:
        """Of a place on this machine. Raises ConfigError for any other."""
        if not self.is_local:
            raise ConfigError(f"{self} is not on this machine; needed a path: copy it here, or give a local folder")
        return Path(self.address)

    def is_file(self) -> bool:
        from pyarrow.fs import FileType

        return self._info().type == FileType.File

    def is_folder(self) -> bool:
        """Object stores know no folders: there, what something lies under is one."""
        from pyarrow.fs import FileType

        return self._info().type == FileType.Directory

    def size(self) -> int:
        """Bytes of a file."""
        return int(self._info().size or 0)

    def files(self, *, deep: bool = False) -> list[str]:
        """The names of the files in a folder, sorted; none where there is no folder. deep: and below it, with "/"."""
        if self.is_local:
            if not self.path.is_dir():
                return []
            with _reading(self):
                return _local_files(self.path, deep)
        from pyarrow.fs import FileSelector, FileType

        system, path = self._open()
        with _reading(self):
            found = system.get_file_info(FileSelector(path, allow_not_found=True, recursive=deep))
        start = len(path.rstrip("/")) + 1
        return sorted(info.path[start:] for info in found if info.type == FileType.File)

    def open(self) -> Any:
        """A pyarrow file that reads what is asked for."""
        system, path = self._open()
        with _reading(self):
            return system.open_input_file(path)

    def read(self) -> bytes:
        """All of a file. Raises OSError."""
        system, path = self._open()
        with system.open_input_file(path) as file:
            return file.readall()

    def write(self, content: bytes) -> None:
        """Make a file of these bytes; it is there as a whole or not at all. Raises OSError."""
        if self.is_local:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, content)
            return
        system, path = self._open()
        with system.open_output_stream(path, compression=None) as stream:  # there when the upload is complete
            stream.write(content)

    def _info(self) -> Any:
        system, path = self._open()
        with _reading(self):
            return system.get_file_info(path)

    def _open(self) -> tuple[Any, str]:
        """A file system of pyarrow, and the path in it."""
        if self.is_local:
            return _pyarrow_fs().LocalFileSystem(), self.address
        folder, mark, options = self.address.partition("?")
        scheme, _, rest = folder.partition("://")
        root, _, below = rest.partition("/")
        system, path = _system(f"{scheme}://{root}{mark}{options}")
        return system, f"{path.rstrip('/')}/{below}".rstrip("/")


def _local_files(folder: Path, deep: bool) -> list[str]:
    """Not by pyarrow, which takes no name that is not UTF-8. Raises OSError for a folder that cannot be listed."""

    def fail(error: OSError) -> None:
        raise error

    places = islice(os.walk(folder, onerror=fail), None if deep else 1)
    return sorted(Path(place, name).relative_to(folder).as_posix() for place, _, names in places for name in names)


def place(address: "str | Path | Place") -> Place:
    return address if isinstance(address, Place) else Place(str(address))


@contextmanager
def _reading(where: Place) -> Iterator[None]:
    """Raise DataError for what the system cannot read inside."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{where} cannot be read: {str(error).splitlines()[0]}") from error


@lru_cache(maxsize=64)
def _system(address: str) -> tuple[Any, str]:
    """The file system of an address, and the path of that address in it; opened once in a process."""
    fs = _pyarrow_fs()
    try:
        return fs.FileSystem.from_uri(address)
    except (OSError, ValueError) as error:  # ValueError: pyarrow's own kind of "invalid"
        raise DataError(f"{address.partition('?')[0]} cannot be opened: {str(error).splitlines()[0]}") from error


def _pyarrow_fs() -> Any:
    try:
        import pyarrow.fs
    except ImportError as error:
        raise DataError("Parquet and addresses such as s3:// need pyarrow: pip install pyarrow") from error
    return pyarrow.fs
