"""A folder of results that appears whole or not at all, and never in place of anything that is not ours."""

import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from remp.errors import ConfigError, OutputError
from remp.labelling.output.own_files import delete_own, foreign_file, write_manifest

_PARTIAL, _OLD = ".remp-label.partial-", ".remp-label.old-"
_ABANDONED_AFTER = 3600  # seconds without a new file


@dataclass(frozen=True)
class ResultFolder:
    """Where results go. numbered: if the folder is taken, NAME-2 or NAME-3 … is, instead of an error."""

    path: Path
    overwrite: bool = False
    numbered: bool = False

    def check(self) -> None:
        """Raise now what would be raised after hours of work: the folder is taken, or none can be made there."""
        self._refuse_if_taken()
        with _one_line_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _remove_abandoned(self.path.parent)
            _new_folder(self.path, _PARTIAL).rmdir()

    def write(self, fill: Callable[[Path], None]) -> Path:
        """Have `fill` write into a hidden folder beside, then give that its name; returns the folder."""
        with _one_line_errors(self.path):
            partial = _new_folder(self.path, _PARTIAL)
            try:
                fill(partial)
                write_manifest(partial)
                return self._place(partial)
            except BaseException:
                shutil.rmtree(partial, ignore_errors=True)
                raise

    def _refuse_if_taken(self) -> None:
        if not _is_taken(self.path) or (self.numbered and not self.overwrite):
            return
        if not self.overwrite:
            raise ConfigError(f"{self.path} exists already: give another --out, or --overwrite to replace a result")
        foreign = foreign_file(self.path)
        if foreign:
            raise ConfigError(f"{self.path} is not replaced: {foreign}. Move it away, or give another --out")

    def _place(self, partial: Path) -> Path:
        self._refuse_if_taken()
        if self.overwrite and _is_taken(self.path):
            _exchange(partial, self.path)
            return self.path
        return _rename_to_free(partial, self.path) if self.numbered else _rename(partial, self.path)


def _is_taken(path: Path) -> bool:
    """Whether there is anything but an empty folder."""
    return os.path.lexists(path) and (path.is_symlink() or not path.is_dir() or any(path.iterdir()))


def _rename(partial: Path, path: Path) -> Path:
    return partial.rename(path)  # fails if somebody has put something there meanwhile


def _rename_to_free(partial: Path, path: Path) -> Path:
    for number in count(1):
        wanted = path if number == 1 else path.with_name(f"{path.name}-{number}")
        if not _is_taken(wanted):
            return _rename(partial, wanted)
    raise AssertionError


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


def _remove_abandoned(parent: Path) -> None:
    """Delete what killed runs left: hidden folders of ours to which nothing was added for an hour."""
    for folder in parent.glob(f"{_PARTIAL}*"):
        times = [os.stat(place).st_mtime for place, _, _ in os.walk(folder)]
        if time.time() - max(times, default=0) > _ABANDONED_AFTER:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _one_line_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = f" ({os.fsdecode(error.filename)!r})" if error.filename else ""
        raise OutputError(
            f"{path} cannot be written: {error.strerror or error}{where}. Nothing was left there; mend that or give "
            "another --out. The same command starts from the embeddings made so far"
        ) from error
