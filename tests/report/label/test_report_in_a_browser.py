"""The page about a labelling in a real browser, at the width of a desk and of a phone."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from made_up_labelling import every_finding, made_up_labelling, write_pictures
from remp.labelling.outcome import Advice, Finding
from remp.report.label import render_label_report

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync "
FLAGS += "--disable-component-update --disable-dev-shm-usage --enable-logging=stderr --v=0 --virtual-time-budget=20000"
DESK, PHONE = 1280, 390
LONG = "a very long name of a class that nobody would like to read to its end " * 4 + "x" * 300
NAMES = [
    LONG,
    "<script>alert(1)</script>",
    "'\"><img src=x onerror=alert(2)>",
    "כלב \u202eגדול",
    "柴犬" * 20,
    "dog\ncat",
]
TEN = [
    f"{animal} of a_rather-long name" for animal in ("beaver", "butterfly", "crocodile", "flatfish", "lamp", "maple")
]
TEN += ["motorcycle", "shark", "television", "tractor"]

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine: apt install chromium")

# A window of the browser is at least 500 pixels wide, so that each page is looked at in a frame of the wanted width.
HOST = '<!doctype html><meta charset="utf-8"><body>{frames}<pre id="measured"></pre><script>{measures}</script>'
MEASURES = Path(__file__).with_name("page_measures.js")


def look_at(pages: list[tuple[bytes, int]], folder: Path) -> tuple[list[dict], str]:
    """What the browser measures of each page in a frame of its width, and what it logs."""
    frames = "".join(
        f'<iframe style="width: {width}px; height: 900px; border: 0" srcdoc="{html.escape(page.decode())}"></iframe>'
        for page, width in pages
    )
    folder.mkdir(parents=True, exist_ok=True)
    host = folder / "host.html"
    host.write_text(HOST.format(frames=frames, measures=MEASURES.read_text(encoding="utf-8")), encoding="utf-8")
    command = [str(BROWSER), *FLAGS.split(), f"--user-data-dir={folder / 'profile'}", "--dump-dom", host.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    measured = re.search(r'<pre id="measured">(.*?)</pre>', done.stdout, re.S)
    assert measured, done.stderr
    return json.loads(html.unescape(measured[1])), done.stderr


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, bytes]:
    paths = write_pictures(tmp_path_factory.mktemp("pictures"), 90)
    hostile = tuple(Finding("suspicious label", name, (i,)) for i, name in enumerate(NAMES))
    advice = tuple(Advice(i, f"probably {name}; unlike any other unlabelled item") for i, name in enumerate(NAMES))
    labellings = {
        "pictures": made_up_labelling(["cat", "dog", "wolf"], 90, paths=paths, findings=every_finding()),
        "hostile names": made_up_labelling(NAMES, 90, paths=paths, findings=hostile, label_next=advice),
        "many classes of rows": made_up_labelling([f"class {i}" for i in range(40)], 400),
        "ten classes": made_up_labelling(TEN, 200),
        "one class": made_up_labelling(["all"], 12, estimate=None),
    }
    return {name: render_label_report(labelling, title=name) for name, labelling in labellings.items()}


@pytest.fixture(scope="module")
def seen(pages, tmp_path_factory) -> tuple[dict[tuple[str, int], dict], str]:
    """(page, width) -> what was measured; and the log. One start of the browser for all."""
    keys = [(name, width) for name in pages for width in (DESK, PHONE)]
    measured, log = look_at([(pages[name], width) for name, width in keys], tmp_path_factory.mktemp("browser"))
    return dict(zip(keys, measured, strict=True)), log


def test_nothing_is_wider_than_the_screen_even_unfolded(seen):
    for (_, width), page in seen[0].items():
        assert page["scroll_width"] <= page["width"] <= width


def test_every_picture_is_loaded(seen):
    assert seen[0]["pictures", PHONE]["images"] > 30
    assert all(page["unloaded"] == 0 for page in seen[0].values())


def test_nothing_is_requested_run_or_complained_about(seen):
    measured, log = seen
    for page in measured.values():
        assert (page["requests"], page["scripts"], page["handlers"]) == ([], 0, 0)
    assert not [line for line in log.splitlines() if "CONSOLE" in line]


def test_text_is_large_and_dark_enough(seen):
    for page in seen[0].values():
        assert page["smallest_text"] >= 11.5
        assert page["smallest_name_on_the_map"] >= 11.5
        assert page["least_contrast"] >= 4.5


def test_names_on_the_map_do_not_cover_each_other(seen):
    for page in seen[0].values():
        assert page["names_that_overlap"] == 0


def test_a_page_that_was_tampered_with_neither_runs_scripts_nor_loads_pictures(pages, tmp_path):
    picture = write_pictures(tmp_path / "outside", 1)[0].as_uri()
    added = f'<img src="{picture}"><script>document.title = "it ran"</script></body>'
    tampered = pages["pictures"].decode().replace("</body>", added).encode()
    (page,), log = look_at([(tampered, DESK)], tmp_path / "browser")
    assert page["scripts"] == 1
    assert page["title"] == "pictures"
    assert page["unloaded"] == 1
    assert log.count("Content Security Policy") >= 2


def test_ten_classes_have_their_names_on_the_map_and_none_overlaps(seen):
    page = seen[0]["ten classes", DESK]
    assert page["names_on_the_map"] >= 9
    assert page["names_that_overlap"] == 0


def test_long_names_break_between_words(seen):
    assert seen[0]["ten classes", DESK]["broken_words"] == seen[0]["ten classes", PHONE]["broken_words"] == 0


def test_a_table_that_scrolls_says_so_on_a_phone_only(seen):
    for width, scrolls in ((DESK, 0), (PHONE, 1)):
        page = seen[0]["ten classes", width]
        assert (page["tables_that_scroll"], page["hints_to_swipe"]) == (scrolls, scrolls)
