"""`remp studio` as a process: where it listens, what it says, that it is the only one, that it survives."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from embedding_cases import mean_colour_embedder
from remp.errors import ConfigError
from remp.studio.run import (
    N_DIGITS,
    OneServer,
    StudioOptions,
    _check_host,
    _hosts,
    _listen,
    is_local,
    run_studio,
    write_sample,
)
from studio_cases import write_collection

pytest.importorskip("uvicorn", reason="the studio needs uvicorn: pip install starlette uvicorn")


def start(folder: Path, home: Path) -> subprocess.Popen:
    code = (
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "from pathlib import Path\nfrom embedding_cases import mean_colour_embedder\n"
        "from remp.studio.run import StudioOptions, run_studio\nfrom remp.errors import RempError\n"
        "say = lambda text: print(text, flush=True)\n"
        "try: run_studio(Path(sys.argv[1]), StudioOptions(backbone=mean_colour_embedder(), browser=False, say=say))\n"
        "except RempError as error: sys.exit(f'remp: {error}')"
    )
    environment = {**os.environ, "REMP_HOME": str(home), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, str(folder), *sys.path]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def address_of(process: subprocess.Popen) -> str:
    for line in process.stdout:
        if found := re.search(r"http://\S+", line):
            return found[0]
    raise AssertionError(process.stderr.read())


def test_it_serves_this_machine_only_and_a_second_one_is_sent_to_the_first(tmp_path):
    folder = write_collection(tmp_path / "photos", 3)
    process = start(folder, tmp_path / "home")
    try:
        address = address_of(process)
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{20,}", address)
        port = int(re.search(r":(\d+)/", address)[1])
        listening = Path("/proc/net/tcp").read_text() if Path("/proc/net/tcp").exists() else f"0100007F:{port:04X}"
        assert f"0100007F:{port:04X}" in listening  # 127.0.0.1
        assert f"00000000:{port:04X} 00000000:0000 0A" not in listening
        second = start(folder, tmp_path / "home")
        _, said = second.communicate(timeout=60)
        assert second.returncode != 0
        assert f"is open in a studio already: http://127.0.0.1:{port}/" in said
        assert "token" not in said
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert "Traceback" not in process.stderr.read()
    third = start(folder, tmp_path / "home")
    try:
        assert address_of(third)
    finally:
        third.kill()
        third.wait(30)


def test_kill_loses_nothing_and_leaves_no_lock(tmp_path):
    folder = write_collection(tmp_path / "photos", 3)
    first = start(folder, tmp_path / "home")
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    try:
        address = address_of(first)
        opener.open(address)
        base = address.partition("?")[0]
        body = b'{"do": "label", "items": [0, 1], "class": "x"}'
        opener.open(urllib.request.Request(f"{base}api/act", body, {"Origin": base.rstrip("/")}))
    finally:
        first.kill()  # -9
        first.wait(30)
    second = start(folder, tmp_path / "home")
    try:
        address = address_of(second)
        opener.open(address)
        state = opener.open(f"{address.partition('?')[0]}api/state").read().decode()
        assert '"name":"x"' in state
        assert '"given":2' in state
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(f"{address.partition('?')[0]}api/state")
    finally:
        second.kill()
        second.wait(30)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]", "127.3.2.1"])
def test_local_addresses_need_no_leave(host):
    assert is_local(host)
    _check_host(StudioOptions(host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "photos.example"])
def test_other_addresses_ask_for_an_explicit_flag_and_say_what_it_means(host):
    with pytest.raises(ConfigError, match=r"lets other machines reach your pictures.*--anyone"):
        _check_host(StudioOptions(host=host))
    _check_host(StudioOptions(host=host, anyone=True))


def test_browsers_leave_out_port_80():
    assert {"localhost", "127.0.0.1:80"} <= _hosts("127.0.0.1", 80)
    assert "localhost" not in _hosts("127.0.0.1", 8000)


def test_results_never_go_among_the_pictures(tmp_path):
    photos = write_collection(tmp_path / "photos", 1)
    with pytest.raises(ConfigError, match="only read"):
        run_studio(photos, StudioOptions(out=photos / "out", browser=False))


def test_a_lock_of_a_process_that_is_gone_does_not_count(tmp_path):
    first = OneServer(tmp_path / ".lock", tmp_path)
    first.say("http://127.0.0.1:1/")
    with pytest.raises(ConfigError, match=r"http://127\.0\.0\.1:1/"):
        OneServer(tmp_path / ".lock", tmp_path)
    first.close()
    OneServer(tmp_path / ".lock", tmp_path).close()


def test_the_sample_is_written_once_and_nothing_is_overwritten(tmp_path):
    folder = write_sample(tmp_path / "digits")
    files = sorted(folder.iterdir())
    assert len(files) == N_DIGITS
    times = [path.stat().st_mtime_ns for path in files]
    time.sleep(0.01)
    write_sample(folder)
    assert [path.stat().st_mtime_ns for path in files] == times
    assert [path.name for path in tmp_path.iterdir()] == [
        "digits",
        *(["remp-home"] if (tmp_path / "remp-home").exists() else []),
    ]
    other = tmp_path / "mine"
    other.mkdir()
    (other / "a.txt").write_text("mine")
    with pytest.raises(ConfigError, match="something else in it"):
        write_sample(other)


def test_answers_leave_at_once_and_do_not_wait_for_the_receipt_of_the_last_one():
    """Nagle's algorithm and delayed receipts add 40 ms to answers that are written in two parts."""

    async def no_delay() -> int:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def accepted(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            found.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        async with await asyncio.start_server(accepted, sock=_listen("127.0.0.1", 0)) as server:
            _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            try:
                return await asyncio.wait_for(found, 10)
            finally:
                writer.close()

    assert asyncio.run(no_delay()) != 0


def test_a_port_or_a_backbone_that_is_not_there_is_told_before_anything_is_written(tmp_path):
    with pytest.raises(ConfigError, match=r"port 99999: ports are 0 … 65535. Give another --port"):
        _listen("127.0.0.1", 99999)
    folder = write_collection(tmp_path / "photos", 3)
    with pytest.raises(ConfigError, match="there is no backbone 'efficientnet-lte0'"):
        run_studio(folder, StudioOptions(backbone="efficientnet-lte0", browser=False))
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]


def test_a_port_that_is_taken_leaves_no_journal(tmp_path):
    folder = write_collection(tmp_path / "photos", 2)
    with socket.create_server(("127.0.0.1", 0)) as other:
        options = StudioOptions(backbone=mean_colour_embedder(), port=other.getsockname()[1], browser=False)
        with pytest.raises(ConfigError, match="cannot listen at"):
            run_studio(folder, options)
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]
