"""Downloads against a local server that behaves as servers do."""

import hashlib
import re
import ssl
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from remp.datasets import prepare
from remp.datasets.download import Download, fetch
from remp.datasets.prepare import DATASETS, Dataset
from remp.errors import DataError

CONTENT = bytes(range(256)) * 4000  # about 1 MB


class Server(ThreadingHTTPServer):
    """Serves CONTENT; the attributes make it misbehave. `starts` lists where each answer began."""

    break_after: int | None = None  # bytes of each answer after which the connection is dropped
    ignores_range = False
    status: int | None = None
    content = CONTENT

    def __init__(self) -> None:
        self.starts: list[int] = []
        super().__init__(("127.0.0.1", 0), Handler)

    def download(self) -> Download:
        return Download(f"http://127.0.0.1:{self.server_port}/file.bin", hashlib.md5(CONTENT).hexdigest())


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        if self.server.status:
            return self.send_error(self.server.status)
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked and not self.server.ignores_range else 0
        self.server.starts.append(start)
        rest = self.server.content[start:]
        if asked and not rest:
            return self.send_error(416)
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest[: self.server.break_after])
        self.close_connection = True
        return None

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_a_file_arrives_whole_and_is_not_fetched_twice(server: Server, tmp_path: Path) -> None:
    path = fetch(server.download(), tmp_path / "new")
    assert path.read_bytes() == CONTENT
    assert fetch(server.download(), tmp_path / "new") == path
    assert server.starts == [0]
    assert list(path.parent.iterdir()) == [path]


def test_a_dropped_connection_is_taken_up_where_it_broke(server: Server, tmp_path: Path) -> None:
    server.break_after = 300_000
    assert fetch(server.download(), tmp_path, wait_seconds=0).read_bytes() == CONTENT
    assert server.starts == [0, 300_000, 600_000, 900_000]


def test_a_broken_line_of_tls_is_taken_up_again(server: Server, tmp_path: Path, monkeypatch) -> None:
    ask, problems = urllib.request.urlopen, [ssl.SSLError("record layer failure"), ssl.SSLEOFError("EOF")]

    def fail_first(*arguments, **named):
        if problems:
            raise problems.pop()
        return ask(*arguments, **named)

    monkeypatch.setattr(urllib.request, "urlopen", fail_first)
    assert fetch(server.download(), tmp_path, wait_seconds=0).read_bytes() == CONTENT


def test_a_server_that_keeps_dropping_is_given_up_and_a_later_run_goes_on(server: Server, tmp_path: Path) -> None:
    server.break_after = 1000
    with pytest.raises(DataError, match=r"5 attempts.*What arrived is kept"):
        fetch(server.download(), tmp_path, wait_seconds=0)
    assert not (tmp_path / "file.bin").exists()
    server.break_after = None
    assert fetch(server.download(), tmp_path).read_bytes() == CONTENT
    assert server.starts[-1] == 5000


def test_a_server_that_ignores_ranges_starts_over(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(b"x" * 5000)
    server.ignores_range = True
    assert fetch(server.download(), tmp_path).read_bytes() == CONTENT


def test_a_partial_file_that_is_whole_already_needs_no_byte(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    assert fetch(server.download(), tmp_path).read_bytes() == CONTENT


def test_wrong_bytes_are_refused_and_removed(server: Server, tmp_path: Path) -> None:
    server.content = b"<html>moved</html>"
    with pytest.raises(DataError, match=r"gave a file with md5 \w+, needed \w+; it was removed"):
        fetch(server.download(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_gone_is_told_at_once(server: Server, tmp_path: Path) -> None:
    server.status = 404
    with pytest.raises(DataError, match=r"answers 404 .*--from"):
        fetch(server.download(), tmp_path, wait_seconds=60)


def test_a_server_that_is_down_is_tried_again(server: Server, tmp_path: Path) -> None:
    server.status = 503
    with pytest.raises(DataError, match=r"5 attempts .*503"):
        fetch(server.download(), tmp_path, wait_seconds=0)


def test_no_server_at_all_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="could not be fetched"):
        fetch(Download("http://127.0.0.1:9/file.bin", "0"), tmp_path, wait_seconds=0)


def test_prepare_reads_what_it_downloads(
    server: Server, remp_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bytes] = []

    def read(source: Path, options: object) -> None:
        seen.append(source.read_bytes())
        raise DataError("read")

    monkeypatch.setitem(DATASETS, "remote", Dataset("", "", read, downloads=(server.download(),)))
    with pytest.raises(DataError, match="read"):
        prepare("remote", download=True)
    assert seen == [CONTENT]
    assert (remp_home / "downloads" / "file.bin").exists()


def test_a_set_without_an_address_says_so(remp_home: Path) -> None:
    with pytest.raises(DataError, match="mini-imagenet has no address"):
        prepare("mini-imagenet", download=True)
