"""The server: who may talk to it, what it says, and what it refuses."""

import io
import json
import time
from pathlib import Path

import pytest
from PIL import Image

pytest.importorskip("starlette", reason="the studio needs Starlette: pip install starlette uvicorn")
pytest.importorskip("httpx2", reason="the test client of Starlette needs httpx2")

from starlette.testclient import TestClient

from remp.report.thumbnails import Thumbnails
from remp.studio.guard import MOST_BYTES, Guard, Keys
from remp.studio.server import make_app
from studio_cases import numbers_of, started, write_collection

HOST, SIDE = "127.0.0.1:8123", 100
OURS = {"sec-fetch-site": "same-origin"}


class Served:
    """A browser before our server, with or without the key."""

    def __init__(self, folder: Path) -> None:
        self.session, self.keys, self.exported = started(folder), Keys(), []
        export = lambda asked: self.exported.append(asked) or {"folder": "x"}  # noqa: E731
        app = make_app(self.session, Thumbnails(SIDE, 82), folder.name, export)
        self.app = Guard(app, self.keys, {HOST, "localhost:8123"})

    def stranger(self) -> TestClient:
        return TestClient(self.app, base_url=f"http://{HOST}", follow_redirects=False)

    def friend(self) -> TestClient:
        client = self.stranger()
        assert client.get(f"/?token={self.keys.token()}").status_code == 303
        return client


@pytest.fixture
def served(tmp_path: Path) -> Served:
    return Served(write_collection(tmp_path / "photos", 4))


PATHS = ["/", *(f"/api/{what}" for what in ("state", "items", "names", "times", "map"))]
PATHS += ["/thumb/0", "/picture/0", "/static/studio.js"]


@pytest.mark.parametrize("path", PATHS)
def test_without_the_key_nothing_is_told(served, path):
    answer = served.stranger().get(path)
    assert answer.status_code == 403
    assert "red" not in answer.text


@pytest.mark.parametrize("path", PATHS)
def test_with_it_everything_is(served, path):
    assert served.friend().get(path).status_code == 200


def test_a_token_opens_once_and_becomes_a_cookie_that_scripts_and_other_sites_do_not_get(served):
    token = served.keys.token()
    first = served.stranger().get(f"/?token={token}")
    cookie = first.headers["set-cookie"].casefold()
    assert (first.status_code, first.headers["location"]) == (303, "/")
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert token.casefold() not in cookie
    assert served.stranger().get(f"/?token={token}").status_code == 403


@pytest.mark.parametrize("token", ["", "wrong", "é", "x" * 5000])
def test_a_wrong_token_opens_nothing(served, token):
    served.keys.token()
    assert served.stranger().get("/", params={"token": token}).status_code == 403


@pytest.mark.parametrize("cookie", ["", "wrong", "é".encode().decode("latin-1")])
def test_a_wrong_cookie_opens_nothing(served, cookie):
    headers = {"cookie": f"remp-studio-8123={cookie}".encode("latin-1")}
    assert served.stranger().get("/api/state", headers=headers).status_code == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8123", "127.0.0.1", "127.0.0.1:80", "", "127.0.0.1:8123.evil"]
)
def test_a_server_that_is_called_by_another_name_is_silent(served, host):
    """DNS rebinding: a page elsewhere whose name was made to lead here."""
    friend = served.friend()
    assert friend.get("/api/state", headers={"host": host}).status_code == 421
    assert friend.post("/api/act", headers={"host": host, **OURS}, json={"do": "undo"}).status_code == 421


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("192.168.0.7:8123", 200),
        ("[fe80::1]:8123", 200),
        ("evil.example:8123", 421),
        ("[", 421),
        ("7.evil.example", 421),
    ],
)
def test_a_server_for_others_is_called_by_any_address_and_by_no_strange_name(served, host, status):
    served.app = Guard(served.app._app, served.keys, {HOST}, any_address=True)
    assert served.friend().get("/api/state", headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": f"https://{HOST}"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"},
        {"sec-fetch-site": "same-origin", "origin": "http://evil.example"},
    ],
)
def test_another_page_cannot_act(served, headers):
    answer = served.friend().post("/api/act", headers=headers, json={"do": "label", "items": [0], "class": "bad"})
    assert answer.status_code == 403
    assert served.session.state.version == 0


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("path", ["/api/state", "/thumb/0", "/static/studio.js"])
def test_another_page_cannot_read(served, path, site):
    headers = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
    assert served.friend().get(path, headers=headers).status_code == 403


@pytest.mark.parametrize("headers", [OURS, {"origin": f"http://{HOST}"}, {**OURS, "origin": f"http://{HOST}"}])
def test_our_page_can_act(served, headers):
    answer = served.friend().post("/api/act", headers=headers, json={"do": "label", "items": [0], "class": "good"})
    assert answer.status_code == 200
    assert answer.json()["version"] == 1


def test_every_answer_is_protected_and_none_allows_other_origins(served):
    friend = served.friend()
    answers = [friend.get(path) for path in PATHS] + [served.stranger().get("/"), friend.get("/nothing")]
    for answer in answers:
        assert answer.headers["content-security-policy"].startswith("default-src 'self'")
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_the_page_has_no_script_or_style_in_it_and_loads_from_nowhere_else(served):
    text = served.friend().get("/").text
    assert text.count("<script") == text.count('<script type="module" src="/static/studio.js">') == 1
    assert "style=" not in text
    assert "<style" not in text
    assert "http:" not in text.replace("http://www.w3.org", "")
    assert "https:" not in text


@pytest.mark.parametrize("with_length", [True, False])
def test_a_body_that_is_too_large_is_refused(served, with_length):
    body = b" " * (MOST_BYTES + 1)
    content = body if with_length else iter([body[: MOST_BYTES // 2], body[MOST_BYTES // 2 :]])
    assert served.friend().post("/api/act", headers=OURS, content=content).status_code == 413


@pytest.mark.parametrize(
    "path",
    ["/thumb/-1", "/thumb/12", "/thumb/999999999999999999999", "/thumb/../../etc/passwd", "/thumb/%2e%2e%2fx",
     "/picture/0.png", "/picture/photos/000-red.png", "/static/../studio.html.j2", "/static/%2e%2e/studio.html.j2",
     "/static/..%2f..%2fstate.py", "/static//etc/passwd"],
)  # fmt: skip
def test_pictures_go_by_number_and_nothing_outside_is_reached(served, path):
    assert served.friend().get(path).status_code in (400, 404)


def test_thumbnails_and_pictures_are_made_anew(served):
    friend = served.friend()
    source = (served.session.task.paths[0]).read_bytes()
    small, large = (friend.get(path) for path in ("/thumb/0", "/picture/0"))
    assert [one.headers["content-type"] for one in (small, large)] == ["image/jpeg"] * 2
    assert Image.open(io.BytesIO(small.content)).size == (SIDE, SIDE)
    assert Image.open(io.BytesIO(large.content)).size == (32, 24)
    assert source not in (small.content, large.content)
    again = friend.get("/thumb/0", headers={"if-none-match": small.headers["etag"]})
    assert again.status_code == 304


def test_a_picture_that_is_deleted_or_changed_while_the_page_is_open(served):
    friend, path = served.friend(), served.session.task.paths[0]
    before = friend.get("/thumb/0")
    Image.new("RGB", (50, 50), "white").save(path)
    after = friend.get("/thumb/0", headers={"if-none-match": before.headers["etag"]})
    assert after.status_code == 200
    assert after.content != before.content
    path.write_bytes(b"<svg onload=alert(1)>")
    assert friend.get("/thumb/0").status_code == 410
    path.unlink()
    assert friend.get("/thumb/0").status_code == 410
    assert "not there" in friend.get("/picture/0").json()["error"]


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"nothing", b"\xff", b"[" * 100_000, b'{"do": "label"}', b'{"do": {"a": 1}}', b"12"]
)
def test_nonsense_is_refused_in_words(served, body):
    answer = served.friend().post("/api/act", headers=OURS, content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_names_are_text(served):
    friend, name = served.friend(), "<img src=x onerror=alert(1)>"
    friend.post("/api/act", headers=OURS, json={"do": "label", "items": [0], "class": name})
    answer = friend.get("/api/state")
    assert answer.headers["content-type"] == "application/json"
    assert [one["name"] for one in answer.json()["classes"]] == [name]


def test_a_name_of_ten_thousand_characters_is_refused(served):
    answer = served.friend().post("/api/act", headers=OURS, json={"do": "label", "items": [0], "class": "x" * 10_000})
    assert answer.status_code == 400
    assert "at most 200" in answer.json()["error"]


def test_two_tabs_see_the_same(served):
    first, second = served.friend(), served.friend()
    items = numbers_of(served.session, "red")
    first.post("/api/act", headers=OURS, json={"do": "label", "items": items, "class": "red"})
    second.post("/api/act", headers=OURS, json={"do": "label", "items": items[:1], "class": "rose"})
    served.session.wait()
    while served.session.plane_version < 2:  # the map is drawn twice
        time.sleep(0.01)
    states = [one.get("/api/state").json() for one in (first, second)]
    assert states[0] == states[1]
    assert [(one["name"], one["given"]) for one in states[0]["classes"]] == [("red", 3), ("rose", 1)]


def test_a_name_of_a_file_that_is_not_valid_text_goes_through(tmp_path):
    folder = write_collection(tmp_path / "photos", 2)
    odd = bytes(folder) + b"/\xff\xfe.png"
    (folder / "000-red.png").rename(Path(odd.decode("utf-8", "surrogateescape")))
    names = json.loads(Served(folder).friend().get("/api/names").content)["names"]
    assert len(names) == 6


def test_names_and_times_are_those_of_the_files(served):
    friend, task = served.friend(), served.session.task
    assert friend.get("/api/names").json()["names"] == list(task.names)
    assert friend.get("/api/times").json() == {"times": [int(path.stat().st_mtime) for path in task.paths]}
    task.paths[0].unlink()
    assert friend.get("/api/times").json()["times"][0] == 0


def test_the_export_is_asked_for_in_the_words_of_the_page(served):
    served.friend().post("/api/export", headers=OURS, json={"format": "labels"})
    assert served.exported == [{"format": "labels"}]
