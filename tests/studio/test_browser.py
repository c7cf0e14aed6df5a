"""The page in a real browser: from an empty folder of pictures to an export, without a mouse."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from studio_browser import BROWSER, PATIENCE, Studio, chromium
from studio_cases import COLOURS, write_collection

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")
pytest.importorskip("uvicorn", reason="the studio needs uvicorn: pip install starlette uvicorn")
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine: apt install chromium"),
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def browser() -> Iterator:
    with chromium() as browser:
        yield browser


@pytest.fixture
def studio(tmp_path: Path, browser) -> Iterator[Studio]:
    studio = Studio(write_collection(tmp_path / "photos"), browser)
    yield studio
    studio.stop()
    studio.context.close()
    assert not studio.errors


def colour_of(name: str) -> str:
    return next(colour for colour in COLOURS if colour in name)


def test_from_nothing_to_an_export_without_a_mouse(studio, tmp_path):
    studio.wait()
    for _ in range(4):  # groups: each is of one colour
        names = {colour_of(name) for name in studio.selected()}
        if len(names) != 1:
            break
        studio.name(names.pop())
    state = studio.wait()
    assert {one["name"] for one in state["classes"]} == set(COLOURS)
    version = state["version"]
    seen = []
    while studio.page.inner_text("#view-title") != "Unsure" and len(seen) < 8:
        seen.append(studio.page.inner_text("#view-title"))
        studio.keys("]")
    assert studio.page.inner_text("#view-title") == "Unsure", seen
    if studio.page.query_selector(".tile"):  # where the groups left something open
        studio.keys("Control+a", "Enter")
        studio.until(f"fetch('/api/state').then((a) => a.json()).then((s) => s.version > {version})")
    studio.wait()
    studio.page.focus("#open-export")
    studio.keys("Enter")
    studio.page.wait_for_selector("#export-dialog[open]")
    studio.keys("Tab", "Tab", "Enter")
    studio.until("document.querySelector('#export-result').textContent.startsWith('Written to')")
    items = json.loads((tmp_path / "photos-labelled" / "labels.json").read_text(encoding="utf-8"))["items"]
    given = [item for item in items if item["status"] == "given"]
    assert len(given) > 20
    assert all(item["label"] in item["file"] for item in given)


def test_everything_can_be_undone_and_survives_a_kill(studio):
    studio.wait()
    studio.name("<img src=x onerror=alert(1)>")
    studio.name("柴犬 كلب")
    before = studio.wait()
    studio.stop(signal.SIGKILL)
    studio.start()
    after = studio.wait()
    assert [one["name"] for one in after["classes"]] == [one["name"] for one in before["classes"]]
    assert studio.page.query_selector("#class-list img") is None
    assert studio.page.inner_text(".class .label") == "<img src=x onerror=alert(1)>"
    studio.page.focus("#grid")
    while studio.state()["undo"] is not None:
        version = studio.state()["version"]
        studio.keys("Control+z")
        studio.until(f"fetch('/api/state').then((a) => a.json()).then((s) => s.version > {version})")
        studio.page.wait_for_timeout(200)
    assert studio.state()["classes"] == []


def test_enter_in_next_takes_the_likeliest_class_and_in_groups_marks_nothing_unknown(studio):
    studio.wait()
    for colour in COLOURS:
        studio.name(colour)
    studio.wait()
    studio.page.click("#views button:has-text('Groups')")
    studio.keys("Control+a", "Enter")
    studio.page.wait_for_timeout(500)
    studio.wait()
    unknown = "fetch('/api/items').then((a) => a.arrayBuffer()).then((b) => [...new Int16Array(b, 0, 36)])"
    assert -2 not in studio.page.evaluate(unknown)
    if studio.state()["next"]:
        studio.page.click("#views button:has-text('Next')")
        studio.keys("Control+a", "Enter")
        studio.until(f"{unknown}.then((all) => all.filter((label) => label >= 0).length > 20)")
        assert -2 not in studio.page.evaluate(unknown)


def test_the_view_that_is_shown_is_in_sight_on_a_phone(studio):
    studio.page.set_viewport_size({"width": 390, "height": 800})
    studio.wait()
    for colour in COLOURS:
        studio.name(colour)
    studio.wait()
    for _ in range(6):
        studio.keys("]")
        studio.page.wait_for_timeout(200)
        left, right = studio.page.eval_on_selector(
            "#views [aria-current]", "(one) => [one.getBoundingClientRect().left, one.getBoundingClientRect().right]"
        )
        assert left >= 0
        assert right <= 390


def test_a_second_tab_sees_what_the_first_does(studio):
    studio.wait()
    second = studio.context.new_page()
    second.goto(studio.address.partition("?")[0])
    second.wait_for_selector(".tile")
    studio.page.bring_to_front()
    studio.name("sky")
    second.wait_for_selector(".class .label:has-text('sky')", timeout=PATIENCE)


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (390, "dark"), (1200, "dark")])
def test_a_phone_and_the_dark(studio, width, scheme):
    studio.page.emulate_media(color_scheme=scheme)
    studio.page.set_viewport_size({"width": width, "height": 800})
    studio.wait()
    assert studio.page.evaluate("document.documentElement.scrollWidth") <= width
    ink, paper = studio.page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
        ".map((colour) => colour.match(/\\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0))"
    )
    assert (ink > paper) == (scheme == "dark")
    assert abs(ink - paper) > 450


def test_everything_has_a_role_and_a_name(studio):
    studio.wait()
    studio.name("sky")
    nameless = studio.page.evaluate(
        """[...document.querySelectorAll('button, input, select, [role=option], [role=listbox], [role=dialog], canvas')]
        .filter((node) => node.checkVisibility() && !(node.getAttribute('aria-label') || node.textContent.trim()
          || node.closest('label')?.textContent.trim() || node.title)).map((node) => node.outerHTML.slice(0, 120))"""
    )
    assert nameless == []
    assert studio.page.get_attribute("#grid", "aria-activedescendant")
    tile = studio.page.query_selector(".tile")
    assert tile.get_attribute("aria-label").startswith(tile.get_attribute("title"))
    assert studio.page.query_selector_all("h1, main, nav, aside")


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (1200, "dark"), (390, "light"), (390, "dark")])
def test_axe_finds_nothing_serious_in_any_view_or_dialogue(studio, width, scheme):
    axe = pytest.importorskip("axe_playwright_python", reason="pip install axe-playwright-python")
    studio.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # nothing is half faded
    studio.page.set_viewport_size({"width": width, "height": 800})
    studio.wait()
    found = []

    def look(where: str) -> None:
        studio.page.wait_for_timeout(500)  # colours change over a fifth of a second
        result = studio.page.evaluate("axe.run(document)")
        assert len(result["passes"]) > 5  # it has looked
        serious = [one for one in result["violations"] if one["impact"] in ("serious", "critical")]
        found.extend((where, one["id"], node["target"]) for one in serious for node in one["nodes"])

    studio.page.evaluate(f"{(Path(axe.__file__).parent / 'axe.min.js').read_text(encoding='utf-8')};0")
    look("the start")
    for colour in COLOURS:
        studio.name(colour)
    studio.wait()
    for view in studio.page.eval_on_selector_all("#views button", "(all) => all.map((one) => one.textContent)"):
        studio.page.click(f"#views button:has-text({json.dumps(view)})")
        look(view)
    studio.page.click(".class .open")
    look("a class")
    studio.keys("Space")
    look("a picture")
    studio.keys("Escape", "F2")
    look("naming")
    studio.keys("Escape", "?")
    look("the keys")
    studio.keys("Escape")
    for button, where in (("#open-export", "export"), (".class .more", "changing a class")):
        studio.page.locator(button).first.click(force=True)
        look(where)
        studio.keys("Escape")
    assert found == []
