"""The studio over HTTP: what the page is told of a session, and what it asks for. Pictures go by number, never by
path."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
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
from remp.labelling.outcome import Finding
from remp.labelling.tasks import Items
from remp.report.thumbnails import Thumbnails, large, mark
from remp.studio.session import Session
from remp.studio.state import ACCEPTED, COLOURS, GIVEN, NONE, StudioState

PAGE = Path(__file__).with_name("page")
# Sent at least this often, so that a connection that broke is noticed.
_HEARTBEAT = 15.0
_MOST_FINDINGS, _MOST_ITEMS = 100, 60  # on the page at once, and pictures of each

Exporter = Callable[[dict[str, Any]], dict[str, Any]]


def make_app(session: Session, thumbnails: Thumbnails, title: str, export: Exporter) -> Starlette:
    """The application that serves a session. export: writes what the page asks for and says where it is."""
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
        return _bytes(await run_in_threadpool(item_arrays, self._session))

    async def names(self, request: Request) -> Response:
        """What does not change: the names of all items, and the colours for classes."""
        return _json(await run_in_threadpool(lambda: {"names": self._session.task.names, "colours": COLOURS}))

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
            return _json({"error": "expected a JSON object"}, 400)
        try:
            return _json(await run_in_threadpool(work, asked))
        except (RempError, OSError) as error:
            return _json({"error": str(error)}, 400)

    async def thumb(self, request: Request) -> Response:
        return await self._picture(request, self._thumbnails.small)

    async def picture(self, request: Request) -> Response:
        return await self._picture(request, lambda path: (large(path), mark(path)))

    async def _picture(self, request: Request, make: Callable[[Path], tuple[bytes, str]]) -> Response:
        """What is made of the file of a number, with a mark by which the browser may ask whether it has changed."""
        number, paths = request.path_params["number"], self._session.task.paths
        if number >= len(paths):
            return _json({"error": "there is no such picture"}, 404)
        if known := request.headers.get("if-none-match"):
            etag = await run_in_threadpool(mark, paths[number])
            if etag and known == f'"{etag}"':
                return Response(status_code=304)
        try:
            jpeg, etag = await run_in_threadpool(make, paths[number])
        except UnreadablePicture as error:
            return _json({"error": f"it is {error}"}, 410)
        headers = {"etag": f'"{etag}"', "cache-control": "private, no-cache"}
        return Response(jpeg, media_type="image/jpeg", headers=headers)


def describe(session: Session) -> dict[str, Any]:
    """All that the page shows but for the items, as JSON."""
    with session.lock:
        state, insight, embedding = session.state, session.insight, session.embedding
        prediction, gain = insight.prediction, insight.gain
        estimate = prediction.labelling.estimate if prediction else None
        sizes: dict[int, float] = {}
        if prediction:
            sizes = dict(
                zip(prediction.class_numbers.tolist(), prediction.labelling.expected_sizes.tolist(), strict=True)
            )
        given, accepted = (_class_sizes(state, origin) for origin in (GIVEN, ACCEPTED))
        shown = [one for one in insight.label_next if state.labels[one.item] == NONE]
        return {
            "version": state.version,
            "predicted": insight.version,
            "predicted_of": insight.of,
            "n": len(session.task.names),
            "classes": [
                {
                    "id": number,
                    "name": one.name,
                    "colour": one.colour,
                    "given": int(given[number]),
                    "accepted": int(accepted[number]),
                    "expected": sizes.get(number),
                }
                for number, one in state.classes.items()
            ],
            "undo": state.done[-1].title if state.done else None,
            "redo": state.undone[-1].title if state.undone else None,
            "embedding": {
                "done": embedding.n_done,
                "total": embedding.total,
                "is_done": embedding.is_done,
                "problem": embedding.problem,
            },
            "estimate": asdict(estimate) if estimate else None,
            "no_estimate": prediction.labelling.no_estimate if prediction and estimate is None else "",
            "gain": {**asdict(gain), "is_worth_it": gain.is_worth_it} if gain else None,
            "next": [asdict(one) for one in shown],
            "findings": _findings(session),
            "groups": [asdict(group) for group in insight.groups],
            "map": session.plane_version,
            "skipped": [{"file": name, "reason": reason} for name, reason in _skipped(session)[:200]],
            "unreadable": sorted(embedding.reasons),
            "notices": list(session.notices),
            "journal_problem": session.journal.problem,
            "seconds": insight.seconds,
        }


def _class_sizes(state: StudioState, origin: int) -> np.ndarray:
    """How many pictures have each class from there, by its number."""
    return np.bincount(state.labels[(state.origins == origin) & (state.labels >= 0)], minlength=state.next_number)


def _findings(session: Session) -> list[dict[str, Any]]:
    """The first that were not dismissed."""
    found: list[dict[str, Any]] = []
    for one in session.insight.findings:
        key = finding_key(session.task, one)
        if key not in session.state.dismissed:
            entry = {"key": key, "kind": one.kind, "text": one.text, "classes": one.classes}
            found.append({**entry, "items": list(one.items[:_MOST_ITEMS])})
        if len(found) == _MOST_FINDINGS:
            break
    return found


def finding_key(task: Items, finding: Finding) -> str:
    """What a finding is about, whatever its numbers are at the moment: by this it is dismissed."""
    return "\t".join([finding.kind, *(task.names[item] for item in finding.items[:20]), *finding.classes])


def item_arrays(session: Session) -> bytes:
    """Of all n items one after the other: label, best and runner-up as int16, probability and margin as uint16 in
    1/10,000, origin and status as uint8."""
    with session.lock:
        state, prediction = session.state, session.insight.prediction
        labels, origins = state.labels.astype("<i2"), state.origins.astype("u1")
    n = len(labels)
    if prediction is None:
        empty = np.full(n, -1, "<i2")
        parts = [labels, empty, empty, np.zeros(n, "<u2"), np.zeros(n, "<u2"), origins, np.full(n, 255, "u1")]
    else:
        shares = [
            np.round(np.nan_to_num(share) * 10_000).clip(0, 10_000).astype("<u2")
            for share in (prediction.probability, prediction.margin)
        ]
        known = np.array(sorted(state.classes), np.int64)
        best, second = (np.where(np.isin(part, known), part, -1).astype("<i2")
                        for part in (prediction.best, prediction.runner_up))  # fmt: skip
        parts = [labels, best, second, *shares, origins, prediction.status.astype("u1")]
    return b"".join(part.tobytes() for part in parts)


def _skipped(session: Session) -> list[tuple[str, str]]:
    reasons = [(session.task.names[item], reason) for item, reason in sorted(session.embedding.reasons.items())]
    return [*session.task.skipped, *reasons]


def _time(path: Path) -> int:
    try:
        return int(os.stat(path).st_mtime)
    except (OSError, ValueError):
        return 0


def _json(value: Any, status: int = 200) -> Response:
    """Escaped to ASCII, since names of files need not be valid text."""
    content = json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")
    return Response(content, status, {"cache-control": "no-store"}, "application/json")


def _bytes(content: bytes) -> Response:
    return Response(content, headers={"cache-control": "no-store"}, media_type="application/octet-stream")
