"""`remp studio` from end to end: open a collection, serve the page on this machine, until it is stopped; one
server for each journal, and a sample to try it with."""

import contextlib
import ipaddress
import os
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import numpy as np

from remp import label_files
from remp.backbones.embedding import Embedder
from remp.errors import ConfigError, OutputError
from remp.export import journal_of
from remp.models import DEFAULT_EMBEDDER, find_embedder
from remp.report.thumbnails import Thumbnails
from remp.studio.collection import open_collection
from remp.studio.exports import export_session
from remp.studio.journal import Journal, labels_header
from remp.studio.session import Session, open_session

_THUMBNAIL, _QUALITY = 176, 82  # pixels of a side, and quality as JPEG


@dataclass(frozen=True)
class StudioOptions:
    """How to open a collection.

    labels: a CSV file of labels; without one, sub-folders are classes. out: the folder that results are exported to,
    by default FOLDER-labelled beside it; the journal lies beside that. backbone, side: as in `remp label`. host, port:
    where to listen; port 0 is any free one. anyone: listen to other machines, too. browser: open one.
    """

    labels: Path | None = None
    out: Path | None = None
    backbone: str | Embedder = DEFAULT_EMBEDDER
    side: int | None = None
    host: str = "127.0.0.1"
    port: int = 0
    anyone: bool = False
    browser: bool = True
    say: Callable[[str], None] = print


def run_studio(folder: Path, options: StudioOptions) -> None:
    """Serve the page until Ctrl+C. Nothing in the folder is written."""
    try:
        import uvicorn

        from remp.studio.guard import Guard, Keys
        from remp.studio.server import make_app
    except ImportError as error:
        raise ConfigError(f"{error.name} is not installed: pip install starlette uvicorn") from error

    _check_host(options)
    folder = Path(os.path.abspath(folder))
    out = label_files.result_folder(folder, options.out, overwrite=False).path
    embedder = find_embedder(options.backbone, side=options.side)  # a mistake is told before anything is written
    labels = Journal(journal_of(out)).given_labels(options.labels)
    task = open_collection(folder, labels)
    server = OneServer(out.with_name(f".{out.name}.studio"), folder)
    try:
        with contextlib.closing(_listen(options.host, options.port)) as listening:  # before anything is written
            made_with = {"backbone": getattr(options.backbone, "name", options.backbone), "side": options.side}
            made_with |= labels_header(labels)
            session = open_session(task, folder, journal_of(out), embedder, made_with)
            port = listening.getsockname()[1]
            keys, thumbnails = Keys(), Thumbnails(_THUMBNAIL, _QUALITY)
            app = make_app(session, thumbnails, folder.name, lambda asked: export_session(session, folder, out, asked))
            guarded = Guard(app, keys, _hosts(options.host, port), any_address=options.anyone)
            address = f"http://{_in_address(options.host)}:{port}/"
            server.say(address)
            config = uvicorn.Config(
                guarded, log_level="warning", access_log=False, timeout_graceful_shutdown=1, lifespan="off", ws="none",
                server_header=False,
            )  # fmt: skip
            try:
                with contextlib.suppress(KeyboardInterrupt):  # Ctrl+C is how it ends; everything is kept
                    session.start()
                    _greet(options, address, keys.token, session)
                    _server(config, session).run(sockets=[listening])
            finally:
                session.stop()
                thumbnails.close()
    finally:
        server.close()


def _server(config: Any, session: Session) -> Any:
    """A server that ends the streams of events before it stops: they would last forever, and their end be an error."""
    import uvicorn

    class Ending(uvicorn.Server):
        def handle_exit(self, sig: int, frame: Any) -> None:
            threading.Thread(target=session.stop, daemon=True).start()  # it waits for a lock that this thread may hold
            super().handle_exit(sig, frame)

    return Ending(config)


def _check_host(options: StudioOptions) -> None:
    if not is_local(options.host) and not options.anyone:
        raise ConfigError(
            f"--host {options.host} lets other machines reach your pictures, over a connection that others can read. "
            "If that is meant, give --anyone as well; whoever has the address can then see and label them"
        )


def is_local(host: str) -> bool:
    """Whether only this machine can reach it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    host = "127.0.0.1" if host == "localhost" else host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sends at once; without it, each answer waits 40 ms for the last one's receipt.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(128)
    except (OSError, OverflowError) as error:
        listening.close()
        why = getattr(error, "strerror", None) or "ports are 0 … 65535"
        raise ConfigError(f"cannot listen at {host}, port {port}: {why}. Give another --port") from error
    return listening


def _hosts(host: str, port: int) -> set[str]:
    """What a browser may call us, by name; it leaves out port 80."""
    names = {"127.0.0.1", "localhost", "[::1]", _in_address(host)}
    if host in ("0.0.0.0", "::"):
        names.add(socket.gethostname().casefold())
    return {f"{name}:{port}" for name in names} | (names if port == 80 else set())


def _in_address(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host.casefold()


def _greet(options: StudioOptions, address: str, token: Callable[[], str], session: Session) -> None:
    def fresh() -> str:
        return f"{address}?token={token()}"

    def print_more() -> None:
        for _ in sys.stdin:
            options.say(f"  {fresh()}")

    options.say(f"{len(session.task.names):,} pictures. Label them here:\n  {fresh()}")
    for notice in session.notices:
        options.say(notice)
    if options.browser:
        threading.Thread(target=webbrowser.open, args=(fresh(),), daemon=True).start()
    if sys.stdin is not None and sys.stdin.isatty():
        options.say("The address works once: Enter prints another. Ctrl+C ends; everything is kept.")
        threading.Thread(target=print_more, daemon=True).start()


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
        if os.name == "nt":  # Windows deletes no file that is open
            self._open.close()
        self._file.unlink(missing_ok=True)
        self._open.close()


def _lock(file: IO[str]) -> bool:
    """Whether the file is ours now; the system unlocks it when the process ends."""
    try:
        if os.name == "nt":
            import msvcrt

            file.seek(1 << 20)  # beyond the address, which others may read
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        file.seek(0)
    return True


_SIDE, _MARGIN = 80, 1  # pixels of a picture, and white ones around the eight by eight of a digit
N_DIGITS = 1797
SIDE_FOR_NETWORK = 128  # pixels that the network is fed: digits have few


def write_sample(folder: Path) -> Path:
    """Write the digits as pictures with nothing about what they are; a folder that has them is left as it is."""
    if folder.exists() and any(folder.iterdir()):
        if sum(path.suffix == ".png" and path.name.startswith("digit-") for path in folder.iterdir()) >= N_DIGITS:
            return folder
        raise ConfigError(f"{folder} has something else in it: give the name of a new folder for the sample")
    from PIL import Image
    from sklearn.datasets import load_digits

    images = load_digits().images  # (1797, 8, 8), 0 … 16, ink is bright
    paper = 255 - np.pad(images, ((0, 0), (_MARGIN, _MARGIN), (_MARGIN, _MARGIN))) * (255 / 16)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".digits-", dir=folder.parent) as partial:
        for number, image in enumerate(np.round(paper).astype(np.uint8)):
            large = Image.fromarray(image).resize((_SIDE, _SIDE), Image.Resampling.BICUBIC)
            large.save(Path(partial) / f"digit-{number:04d}.png")
        if folder.exists():
            folder.rmdir()  # empty, as was seen above
        Path(partial).rename(folder)
    folder.chmod(0o755)
    return folder
