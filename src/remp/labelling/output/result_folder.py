"""A folder of results that appears whole or not at all, and never in place of anything that is not ours."""

import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remp.errors import ConfigError, OutputError
from remp.system.files import numbered, remove_abandoned

_PARTIAL, _OLD = ".remp-label.partial-", ".remp-label.old-"
_MANIFEST = ".remp-label.json"
_LEFT_BY_SYSTEMS = {".ds_store", "desktop.ini", "thumbs.db"}


@dataclass(frozen=True)
class ResultFolder:
    """Where results go. numbered: if the folder is taken, NAME-2 or NAME-3 … is, instead of an error. option: of the
    command line, by which the user gave it. maker: who writes them, to be known by `maker_of`."""

    path: Path
    overwrite: bool = False
    numbered: bool = False
    option: str = "--out"
    maker: str = ""

    def check(self) -> None:
        """Raise now what would be raised after hours of work: the folder is taken, or none can be made there."""
        self._refuse_if_taken()
        with self._one_line_errors("nothing was done yet"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            remove_abandoned(self.path.parent, _PARTIAL)
            _new_folder(self.path, _PARTIAL).rmdir()

    def write(self, fill: Callable[[Path], None]) -> Path:
        """Have `fill` write into a hidden folder beside, then give that its name; returns the folder."""
        with self._one_line_errors("the same command starts from the embeddings made so far"):
            partial = _new_folder(self.path, _PARTIAL)
            try:
                fill(partial)
                write_manifest(partial, self.maker)
                return self._place(partial)
            except BaseException:
                shutil.rmtree(partial, ignore_errors=True)
                raise

    def _refuse_if_taken(self) -> None:
        if not is_taken(self.path) or (self.numbered and not self.overwrite):
            return
        if not self.overwrite:
            raise ConfigError(
                f"{self.path} exists already: give another {self.option}, or --overwrite to replace a result"
            )
        foreign = foreign_file(self.path)
        if foreign:
            raise ConfigError(f"{self.path} is not replaced: {foreign}. Move it away, or give another {self.option}")

    def _place(self, partial: Path) -> Path:
        self._refuse_if_taken()
        if self.overwrite and is_taken(self.path):
            _exchange(partial, self.path)
            return self.path
        free = next(path for path in numbered(self.path) if not is_taken(path)) if self.numbered else self.path
        if os.name == "nt" and free.exists():  # Windows renames onto nothing, not onto an empty folder either
            free.rmdir()
        return partial.rename(free)  # fails if somebody has put something there meanwhile

    @contextmanager
    def _one_line_errors(self, state: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            if error.filename and _PARTIAL not in (named := os.fsdecode(error.filename)):
                is_file = isinstance(error, FileExistsError | NotADirectoryError) and Path(named).is_file()
                reason = f"{named} is a file" if is_file else f"{reason} ({named!r})"
            raise OutputError(
                f"{self.path} cannot be written: {reason}. Nothing was left there; fix that or give another "
                f"{self.option}; {state}"
            ) from error


def check_outside(folder: Path, source: Path, option: str) -> None:
    """Raise a ConfigError if a folder for results lies in the source."""
    real, inside = Path(os.path.realpath(folder)), Path(os.path.realpath(source))
    if inside in (real, *real.parents):
        raise ConfigError(f"{option} {folder} lies in {source}, which is only read: give a folder outside of it")


def is_taken(path: Path) -> bool:
    """Whether there is anything but an empty folder."""
    return os.path.lexists(path) and (path.is_symlink() or not path.is_dir() or any(path.iterdir()))


def _exchange(new: Path, path: Path) -> None:
    """Put `new` where our old result is; the old one goes only when the new one stands, and comes back if it cannot."""
    old = _new_folder(path, _OLD) / "result"
    path.rename(old)
    try:
        new.rename(path)
    except BaseException:
        old.rename(path)
        old.parent.rmdir()
        raise
    delete_own(old)
    if not old.exists():
        old.parent.rmdir()


def _new_folder(beside: Path, kind: str) -> Path:
    folder = beside.parent / f"{kind}{uuid.uuid4().hex[:12]}"
    folder.mkdir()
    return folder


def write_manifest(folder: Path, maker: str = "") -> None:
    """Note size and time of every file in the folder, and who wrote them."""
    files = {name: _mark(folder / name) for name, is_folder in _walk(folder) if not is_folder}
    (folder / _MANIFEST).write_text(json.dumps({"files": files, "maker": maker}), encoding="utf-8")


def maker_of(folder: Path) -> str:
    """Who wrote the results in a folder; empty where that is not said."""
    maker = _manifest(folder).get("maker")
    return maker if isinstance(maker, str) else ""


def foreign_file(folder: Path) -> str:
    """What in the folder is not ours, in words; empty if all is."""
    if folder.is_symlink() or not folder.is_dir():
        return "it is not a folder"
    files = _read_manifest(folder)
    if files is None:
        return "it is not a result of remp label"
    own_folders = {parent.as_posix() for name in files for parent in Path(name).parents}
    for name, is_folder in _walk(folder):
        if is_folder and name not in own_folders:
            return f"the folder {name!r} in it is not of remp"
        if not is_folder and name not in files:
            return f"{name!r} in it is not of remp"
        if not is_folder and _mark(folder / name) != files[name]:
            return f"{name!r} in it was changed"
    return ""


def delete_own(folder: Path) -> None:
    """Delete the files that the manifest names, and the folders that are empty then. Anything else stays."""
    for name in _read_manifest(folder) or {}:
        (folder / name).unlink(missing_ok=True)
    for place, _, names in os.walk(folder, topdown=False):
        for name in names:
            if name == _MANIFEST or name.casefold() in _LEFT_BY_SYSTEMS:
                Path(place, name).unlink()
        if not os.listdir(place):
            os.rmdir(place)


def _manifest(folder: Path) -> dict[str, Any]:
    """What the manifest says; nothing where there is none, or a damaged one."""
    try:
        said = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _read_manifest(folder: Path) -> dict[str, list[int]] | None:
    files = _manifest(folder).get("files")
    if not isinstance(files, dict):
        return None
    # A manifest that somebody wrote by hand must not lead out of the folder.
    return {name: mark for name, mark in files.items() if not os.path.isabs(name) and ".." not in Path(name).parts}


def _walk(folder: Path) -> Iterator[tuple[str, bool]]:
    """(path below the folder with "/", whether it is a folder) of all but the manifest and what systems leave."""
    for place, folders, names in os.walk(folder):
        inner = [name for name in folders if not os.path.islink(os.path.join(place, name))]
        for name in [*folders, *names]:
            path = Path(place, name).relative_to(folder).as_posix()
            if path != _MANIFEST and name.casefold() not in _LEFT_BY_SYSTEMS:
                yield path, name in inner


def _mark(path: Path) -> list[int]:
    """Size and time of a file, or of the link itself."""
    status = path.lstat()
    return [status.st_size, status.st_mtime_ns]
