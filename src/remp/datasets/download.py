"""Downloads that show progress, resume where they broke off and are checked before anyone sees them.

Not by pooch, which starts again from the beginning: some of these archives have gigabytes.
"""

import hashlib
import http.client
import os
import ssl
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remp.errors import DataError
from remp.system.progress import progress

_CHUNK = 2**18
_TIMEOUT_SECONDS = 30
_ATTEMPTS = 5


@dataclass(frozen=True)
class Download:
    """A file on the network and the md5 its publisher gives for it."""

    url: str
    md5: str

    @property
    def file_name(self) -> str:
        return self.url.rsplit("/", 1)[-1]


def fetch(download: Download, folder: Path, *, wait_seconds: float = 2.0) -> Path:
    """The file, in `folder`: from an earlier download if it is there whole, else from the network.

    What has arrived is kept in `NAME.part`: a broken connection is taken up again, up to five times with growing
    pauses, and so is a download that was interrupted altogether. Raises DataError if it cannot be had.
    """
    target, partial = folder / download.file_name, folder / f"{download.file_name}.part"
    if target.is_file() and _md5(target) == download.md5:
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _fetch_all(download, partial, wait_seconds)
        if (found := _md5(partial)) != download.md5:
            partial.unlink()
            raise DataError(
                f"{download.url} gave a file with md5 {found}, needed {download.md5}; it was removed. Run the same "
                "command again; if that does not help, get the file elsewhere and pass it with --from"
            )
        os.replace(partial, target)
    except OSError as error:
        raise DataError(f"{download.url} cannot be stored in {folder}: {error}") from error
    return target


def _fetch_all(download: Download, partial: Path, wait_seconds: float) -> None:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _fetch_rest(download, partial)
        except urllib.error.HTTPError as error:
            if error.code < 500:
                raise DataError(
                    f"{download.url} answers {error.code} {error.reason}: get the file elsewhere, pass it with --from"
                ) from error
            problem: Exception = error
        except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, ssl.SSLError) as error:
            problem = error
        if attempt < _ATTEMPTS:
            time.sleep(wait_seconds * attempt)
    raise DataError(
        f"{download.url} could not be fetched in {_ATTEMPTS} attempts ({problem}). What arrived is kept: run the same "
        "command again to go on, or get the file elsewhere and pass it with --from"
    )


def _fetch_rest(download: Download, partial: Path) -> None:
    """Append what is missing of `partial`; raises ConnectionError where the connection ends before the file does."""
    have = partial.stat().st_size if partial.exists() else 0
    headers = {"User-Agent": "remp", **({"Range": f"bytes={have}-"} if have else {})}
    try:
        response = urllib.request.urlopen(
            urllib.request.Request(download.url, headers=headers), timeout=_TIMEOUT_SECONDS
        )
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and have:
            return  # nothing is missing; the checksum will tell
        raise
    with response:
        if response.status != http.client.PARTIAL_CONTENT:
            have = 0  # the server sends all of it again
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        received = _append(response, partial, have, total, download.file_name)
    if total is not None and received < total:
        raise ConnectionError(f"the connection ended after {received} of {total} bytes")


def _append(response: Any, partial: Path, have: int, total: int | None, name: str) -> int:
    """Copy the response behind the first `have` bytes of `partial`; returns how many bytes it then has."""
    bar_total = (total or 0) // 1024
    with (
        partial.open("r+b" if have else "wb") as file,
        progress(f"downloading {name}", bar_total, unit="KiB", done=have // 1024) as bar,
    ):
        file.seek(have)
        while chunk := response.read(_CHUNK):
            file.write(chunk)
            bar.advance(len(chunk) // 1024)
        return file.tell()


def _md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(2**20):
            digest.update(chunk)
    return digest.hexdigest()
