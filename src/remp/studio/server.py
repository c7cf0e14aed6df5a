"""The studio over HTTP: a thin layer over a session. Pictures go by number, never by path."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from remp.datasets.decode import UnreadablePicture
from remp.errors import RempError
from remp.studio.session import Session, describe, item_arrays
from remp.studio.thumbnails import Thumbnails, large, mark

PAGE = Path(__file__).with_name("page")
# Sent at least this often, so that a connection that broke is noticed.
_HEARTBEAT = 15.0

Exporter = Callable[[dict[str, Any]], dict[str, Any]]


def make_app(session: Session, thumbnails: Thumbnails, title: str, export: Exporter) -> Starlette:
    """export: writes what the page asks for and says where it is."""
    serving = _Serving(session, thumbnails, title, export)
    return Starlette(
        routes=[
            Route("/", serving.page),
            Route("/api/state", serving.state),
            Route("/api/items", serving.items),
            Route("/api/names", serving.names),
            Route("/api/times", serving.times),
            Route("/api/map", serving.map),
            Route("/api/events", serving.events),
            Route("/api/act", serving.act, methods=["POST"]),
            Route("/api/export", serving.export, methods=["POST"]),
            Route("/thumb/{number:int}", serving.thumb),
            Route("/picture/{number:int}", serving.picture),
            Mount("/static", StaticFiles(directory=PAGE / "static")),
        ]
    )


class _Serving:
    def __init__(self, session: Session, thumbnails: Thumbnails, title: str, export: Exporter) -> None:
        self._session, self._thumbnails, self._title, self._export = session, thumbnails, title, export

    async def page(self, request: Request) -> Response:
        from jinja2 import Environment, FileSystemLoader

        template = Environment(loader=FileSystemLoader(PAGE), autoescape=True).get_template("studio.html.j2")
        title = self._title.encode("utf-8", "replace").decode()
        return Response(template.render(title=title), media_type="text/html", headers={"cache-control": "no-store"})

    async def state(self, request: Request) -> Response:
        return _json(await run_in_threadpool(describe, self._session))

    async def items(self, request: Request) -> Response:
        version, content = await run_in_threadpool(item_arrays, self._session)
        return _bytes(content, **{"x-version": str(version)})

    async def names(self, request: Request) -> Response:
        """Of all items: what does not change."""
        return _json(await run_in_threadpool(lambda: {"names": self._session.task.names}))

    async def times(self, request: Request) -> Response:
        """When each file was changed. Asked for by those who sort by it, since every file is looked at."""
        return _json(await run_in_threadpool(lambda: {"times": [_time(path) for path in self._session.task.paths]}))

    async def map(self, request: Request) -> Response:
        """(n, 2) float32, not a number for what has no place."""
        with self._session.lock:
            plane = self._session.plane
        return _bytes(b"" if plane is None else np.ascontiguousarray(plane, "<f4").tobytes())

    async def events(self, request: Request) -> Response:
        """A line whenever something has changed; the page then asks what."""
        return StreamingResponse(self._changes(), media_type="text/event-stream", headers={"cache-control": "no-store"})

    async def _changes(self) -> AsyncIterator[bytes]:
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            loop.call_soon_threadsafe(changed.set)

        end = self._session.listen(tell)
        try:
            while not self._session.is_stopped:
                changed.clear()
                yield b"data: %d\n\n" % self._session.state.version
                try:
                    await asyncio.wait_for(changed.wait(), _HEARTBEAT)
                except asyncio.TimeoutError:
                    continue
        finally:
            end()

    async def act(self, request: Request) -> Response:
        return await self._answer(request, self._act)

    def _act(self, action: dict[str, Any]) -> dict[str, Any]:
        self._session.act(action)
        return {"version": self._session.state.version, "journal_problem": self._session.journal.problem}

    async def export(self, request: Request) -> Response:
        return await self._answer(request, self._export)

    async def _answer(self, request: Request, work: Callable[[dict[str, Any]], dict[str, Any]]) -> Response:
        """What `work` makes of the JSON in a request, or what is wrong, in words."""
        try:
            asked = json.loads(await request.body())
            if not isinstance(asked, dict):
                raise ValueError("not an object")
        except (ValueError, RecursionError):
            return _json({"error": "this is no JSON object"}, 400)
        try:
            return _json(await run_in_threadpool(work, asked))
        except (RempError, OSError) as error:
            return _json({"error": str(error)}, 400)

    async def thumb(self, request: Request) -> Response:
        path = self._path(request)
        if path is None:
            return _json({"error": "there is no such picture"}, 404)
        if "if-none-match" in request.headers and _has(request, await run_in_threadpool(mark, path)):
            return Response(status_code=304)
        return await self._picture(lambda: self._thumbnails.small(path))

    async def picture(self, request: Request) -> Response:
        path = self._path(request)
        if path is None:
            return _json({"error": "there is no such picture"}, 404)
        return await self._picture(lambda: (large(path), mark(path)))

    async def _picture(self, make: Callable[[], tuple[bytes, str]]) -> Response:
        try:
            jpeg, etag = await run_in_threadpool(make)
        except UnreadablePicture as error:
            return _json({"error": f"it is {error}"}, 410)
        headers = {"etag": f'"{etag}"', "cache-control": "private, no-cache"}
        return Response(jpeg, media_type="image/jpeg", headers=headers)

    def _path(self, request: Request) -> Path | None:
        number, paths = request.path_params["number"], self._session.task.paths
        return paths[number] if number < len(paths) else None


def _has(request: Request, etag: str) -> bool:
    return bool(etag) and request.headers.get("if-none-match") == f'"{etag}"'


def _time(path: Path) -> int:
    try:
        return int(os.stat(path).st_mtime)
    except (OSError, ValueError):
        return 0


def _json(value: Any, status: int = 200) -> Response:
    """Escaped to ASCII, since names of files need not be valid text."""
    content = json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")
    return Response(content, status, {"cache-control": "no-store"}, "application/json")


def _bytes(content: bytes, **headers: str) -> Response:
    return Response(content, headers={"cache-control": "no-store", **headers}, media_type="application/octet-stream")
