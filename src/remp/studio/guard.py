"""Who may talk to the server: a browser of this machine that was given the address, and no page but ours in it."""

import ipaddress
import secrets
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MOST_BYTES = 8 << 20  # of a request: the numbers of a million pictures
_HEADERS = {
    b"content-security-policy": (
        b"default-src 'self'; img-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'none'; "
        b"frame-ancestors 'none'"
    ),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"x-frame-options": b"DENY",
}


class Keys:
    """Tokens, each of which opens the page once, and the cookie that a browser gets for one."""

    def __init__(self) -> None:
        self._tokens: set[str] = set()
        self._cookie = secrets.token_urlsafe(32)
        self._lock = threading.Lock()

    def token(self) -> str:
        """Make a new token."""
        token = secrets.token_urlsafe(24)
        with self._lock:
            self._tokens.add(token)
        return token

    def cookie_for(self, token: str) -> str | None:
        """The cookie for a browser that brings this token, which is used up by that; None if it is wrong or used."""
        with self._lock:
            known = next((one for one in self._tokens if secrets.compare_digest(one.encode(), token.encode())), None)
            self._tokens.discard(known or "")
        return self._cookie if known else None

    def is_ours(self, cookie: str) -> bool:
        return secrets.compare_digest(cookie.encode(), self._cookie.encode())


class Guard:
    """Stands before the application: refuses what does not come from our page, and adds what protects the page.

    hosts: what browsers may have called us, with the port: a page elsewhere whose name was made to point here (DNS
    rebinding) calls us by another name. any_address: they may also have called us by any address, as of a machine that
    others reach: only names can be made to point here.
    """

    def __init__(self, app: Any, keys: Keys, hosts: set[str], *, any_address: bool = False) -> None:
        self._app, self._keys, self._hosts, self._any_address = app, keys, hosts, any_address
        port = sorted(hosts)[0].rpartition(":")[2]
        self.cookie_name = f"remp-studio-{port}"  # cookies know no ports: two studios would share one

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # nothing else is served
            return
        headers = {name: value for name, value in reversed(scope["headers"])}
        answer = self._refusal(scope, headers)
        protected = _with_headers(send)
        if answer is not None:
            await answer(scope, receive, protected)
            return
        body = await _read(receive) if scope["method"] not in ("GET", "HEAD") else b""
        if body is None:
            await _refused(413, f"more than {MOST_BYTES} bytes in one request")(scope, receive, protected)
            return
        await self._app(scope, _again(body, receive), protected)

    def _refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> Response | None:
        host = headers.get(b"host", b"").decode("latin-1").casefold()
        if host not in self._hosts and not (self._any_address and _is_address(host)):
            return _refused(
                421, "this server does not answer to that host name; use the address that the terminal shows"
            )
        if not _is_same_site(scope["method"], host, headers):
            return _refused(403, "this came from another page")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > MOST_BYTES:
            return _refused(413, f"more than {MOST_BYTES} bytes in one request")
        return self._without_key(scope, headers)

    def _without_key(self, scope: Scope, headers: dict[bytes, bytes]) -> Response | None:
        """The answer to a browser without our cookie, None for one that has it. One with a token gets the cookie."""
        query = scope["query_string"].decode("latin-1")
        if scope["path"] == "/" and scope["method"] == "GET" and query.startswith("token="):
            cookie = self._keys.cookie_for(query.removeprefix("token="))
            if cookie:
                answer = RedirectResponse("/", status_code=303)
                answer.set_cookie(self.cookie_name, cookie, httponly=True, samesite="strict", path="/")
                return answer
        cookies = cookie_parser(headers.get(b"cookie", b"").decode("latin-1"))
        if self._keys.is_ours(cookies.get(self.cookie_name, "")):
            return RedirectResponse("/", status_code=303) if query.startswith("token=") else None
        return _refused(
            403,
            "This address opens the studio once, in one browser. Press Enter in the terminal where remp studio runs: "
            "it prints a new one.",
        )


def _is_address(host: str) -> bool:
    """Whether a browser was given an address, not a name. host: with or without a port."""
    try:
        ipaddress.ip_address(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False
    return True


def _is_same_site(method: str, host: str, headers: dict[bytes, bytes]) -> bool:
    """Whether a request comes from our page or from the address bar. Browsers say so in Sec-Fetch-Site; what does not
    has to name us as its origin before it may change anything."""
    site = headers.get(b"sec-fetch-site", b"").decode("latin-1")
    origin = headers.get(b"origin", b"").decode("latin-1").casefold()
    if origin and origin != f"http://{host}":
        return False
    if method in ("GET", "HEAD"):
        is_opened = headers.get(b"sec-fetch-mode") == b"navigate" and headers.get(b"sec-fetch-dest") == b"document"
        return site in ("", "same-origin", "none") or is_opened
    return site == "same-origin" or (not site and bool(origin))


async def _read(receive: Receive) -> bytes | None:
    """The whole body, or None if it is too large: a length need not be given and need not be true."""
    body, has_more = b"", True
    while has_more:
        message = await receive()
        body += message.get("body", b"")
        has_more = message.get("more_body", False)
        if len(body) > MOST_BYTES:
            return None
    return body


def _again(body: bytes, receive: Receive) -> Receive:
    """Gives the application a body that was read, then whatever comes after it."""
    read: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receiving() -> MutableMapping[str, Any]:
        return read.pop() if read else await receive()

    return receiving


def _with_headers(send: Send) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            names = {name for name, _ in message["headers"]}
            more = [(name, value) for name, value in _HEADERS.items() if name not in names]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return sending


def _refused(status: int, why: str) -> Response:
    return PlainTextResponse(f"{why}\n", status_code=status)
