"""One server for each journal: the second is told where the first is."""

import os
from pathlib import Path
from typing import IO

from remp.errors import ConfigError, OutputError


class OneServer:
    """Holds a lock for as long as the process lives, however it ends; the file says where the server is."""

    def __init__(self, file: Path, folder: Path) -> None:
        """Raises ConfigError with the address of the other server if there is one."""
        self._file = file
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._open: IO[str] = open(os.open(file, os.O_RDWR | os.O_CREAT, 0o600), "r+", encoding="utf-8")  # noqa: SIM115
        except OSError as error:
            raise OutputError(f"{file} cannot be written: {error.strerror}. Give --out FOLDER elsewhere") from error
        if not _lock(self._open):
            address = self._open.read().strip() or "an address that it has not written down yet"
            self._open.close()
            raise ConfigError(f"{folder} is open in a studio already: {address}. Go there, or stop that one first")

    def say(self, address: str) -> None:
        """Write down where the server is."""
        self._open.seek(0)
        self._open.truncate()
        self._open.write(f"{address}\n")
        self._open.flush()

    def close(self) -> None:
        self._file.unlink(missing_ok=True)
        self._open.close()


def _lock(file: IO[str]) -> bool:
    """Whether the file is ours now; the system unlocks it when the process ends."""
    try:
        import fcntl
    except ImportError:  # Windows
        return _lock_on_windows(file)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _lock_on_windows(file: IO[str]) -> bool:
    import msvcrt

    try:
        file.seek(1 << 20)  # beyond the address, which others may read
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    except OSError:
        return False
    finally:
        file.seek(0)
    return True
