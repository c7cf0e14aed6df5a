"""The page in a real browser: from an empty folder of pictures to an export, without a mouse."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from studio_browser import BROWSER, PATIENCE, Studio, chromium
from studio_cases import COLOURS, write_collection

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")
pytest.importorskip("uvicorn", reason="the studio needs uvicorn: pip install starlette uvicorn")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine: apt install chromium")


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


def act(studio: Studio, **action) -> None:
    """As the page asks for it."""
    post = "(action) => fetch('/api/act', {method: 'POST', body: JSON.stringify(action)}).then((a) => a.status)"
    assert studio.page.evaluate(post, action) == 200


def begin(studio: Studio, n: int = 3) -> list[str]:
    """Name some pictures of each colour; the names of all pictures."""
    studio.wait()
    names = studio.page.evaluate("fetch('/api/names').then((a) => a.json()).then((a) => a.names)")
    for colour in COLOURS:
        act(studio, do="label", items=[i for i, name in enumerate(names) if colour in name][:n], **{"class": colour})
    studio.wait()
    return names


def shown(studio: Studio, section: str = ".tile") -> list[str]:
    """The names of the pictures in sight, in their order."""
    return studio.page.eval_on_selector_all(
        section, "(all) => all.sort((a, b) => a.ariaPosInSet - b.ariaPosInSet).map((tile) => tile.title)"
    )


def until_class(studio: Studio, condition: str) -> None:
    """condition: of `all`, the classes by their name. The page has caught up by then, too."""
    by_name = "Object.fromEntries(s.classes.map((one) => [one.name, one]))"
    caught_up = "Number(document.body.dataset.predicted) >= s.version"
    holds = f"((all) => Boolean({condition}))({by_name}) && {caught_up}"
    studio.until(f"fetch('/api/state').then((a) => a.json()).then((s) => {holds})")


@pytest.mark.slow
def test_a_class_is_sorted_in_four_ways_and_accepted_from_above(studio):
    names = begin(studio)
    old = next(name for name in reversed(names) if "red" in name)
    os.utime(studio.folder / old, (1_000_000_000, 1_000_000_000))
    studio.page.click(".class .open:has-text('red')")
    reds = [name for name in names if "red" in name]
    predicted = [name for name in shown(studio) if name not in reds[:3]]
    orders = {}
    for sort in ("name", "margin", "time", "probability"):
        studio.page.select_option("#sort", sort)
        studio.page.wait_for_timeout(500)
        orders[sort] = [name for name in shown(studio) if name in predicted]
    numbers = {name: number for number, name in enumerate(names)}
    part = "fetch('/api/items').then((a) => a.arrayBuffer()).then((b) => [...new Uint16Array(b, {0} * {1}, {1})])"
    probability, margin = (studio.page.evaluate(part.format(place, len(names))) for place in (6, 8))
    assert orders["name"] == sorted(predicted)
    assert orders["time"] == [old, *(name for name in sorted(predicted) if name != old)]
    assert orders["probability"] == sorted(predicted, key=lambda name: (-probability[numbers[name]], name))
    assert orders["margin"] == sorted(predicted, key=lambda name: (margin[numbers[name]], name))
    studio.keys("Home", "ArrowRight", "ArrowRight", "Shift+Enter")
    until_class(studio, "all.red.accepted === 3")
    studio.wait()
    studio.keys("Control+z")
    until_class(studio, "all.red.accepted === 0")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["constructor", "__proto__"])
def test_predictions_of_a_class_with_a_name_of_javascript_are_accepted(studio, name):
    begin(studio)
    act(studio, do="rename", **{"class": "red"}, to=name)
    studio.wait()
    studio.page.click(f".class .open:has-text('{name}')")
    studio.keys("Enter")
    until_class(studio, f"all['{name}'].accepted === 1")


@pytest.mark.slow
def test_typing_finds_a_class_before_it_makes_one_and_search_finds_names(studio):
    names = begin(studio)
    studio.page.click("#views button:has-text('All')")
    studio.keys("g", "r")
    assert studio.page.inner_text("#choices li[aria-selected=true]").endswith("green")
    studio.keys("Escape", "F2")
    studio.page.keyboard.type("een")  # is in green: but who types it means another class
    choices = studio.page.eval_on_selector_all("#choices li", "(all) => all.map((one) => one.textContent)")
    assert choices[0].removeprefix("+") == "New class “een”"
    assert choices[1].endswith("green")
    studio.keys("Escape", "/")
    studio.page.keyboard.type("004-")
    studio.until("document.querySelectorAll('.tile').length === 3")
    assert set(shown(studio)) == {name for name in names if "004-" in name}
    studio.keys("Enter", "Control+a")
    assert len(studio.selected()) == 3


@pytest.mark.slow
def test_a_finding_is_mended_or_dismissed_by_one_key(tmp_path, browser):
    folder = write_collection(tmp_path / "photos")
    for number in (7, 8):
        (folder / f"zz-{number}-blue.png").write_bytes((folder / f"00{number}-blue.png").read_bytes())
    studio = Studio(folder, browser)
    names = begin(studio)
    act(studio, do="label", items=[names.index("007-blue.png")], **{"class": "blue"})
    act(studio, do="label", items=[names.index("zz-7-blue.png")], **{"class": "red"})
    studio.wait()
    studio.page.click("#views button:has-text('Findings')")
    card = studio.page.locator(".finding:has-text('exact duplicates'):has-text('007-blue.png')")
    texts = card.locator(".buttons button").all_inner_texts()
    assert texts == ["Label all blue", "Label all red", "Dismiss"]
    card.focus()
    studio.keys("Enter")
    until_class(studio, "all.blue.given === 5 && all.red.given === 3")
    studio.wait()
    other = ".finding:has-text('exact duplicates'):has-text('008-blue.png')"
    studio.page.locator(other).focus()
    studio.keys("x")
    studio.until("![...document.querySelectorAll('.finding')].some((one) => one.textContent.includes('008-blue'))")
    studio.keys("Control+z")
    studio.page.wait_for_selector(other)
    studio.stop()
    assert not studio.errors


@pytest.mark.slow
def test_mouse_and_lasso_select(studio):
    names = begin(studio)
    studio.page.click("#views button:has-text('All')")
    tiles = [studio.page.locator(f"#t{number} .frame") for number in range(8)]
    tiles[0].click()
    tiles[3].click(modifiers=["Shift"])
    assert studio.selected() == names[:4]
    tiles[1].click(modifiers=["Control"])
    assert studio.selected() == [names[0], *names[2:4]]
    first, last = tiles[0].bounding_box(), tiles[2].bounding_box()
    studio.page.mouse.move(first["x"] - 4, first["y"] + 20)
    studio.page.mouse.down()
    studio.page.mouse.move(last["x"] + 10, last["y"] + 60, steps=5)
    studio.page.mouse.up()
    assert studio.selected() == names[:3]
    studio.page.click("#views button:has-text('Map')")
    studio.until("fetch('/api/state').then((a) => a.json()).then((s) => s.map === 2)")
    studio.page.wait_for_timeout(500)
    box = studio.page.locator("#plane").bounding_box()
    corners = [(0.01, 0.01), (0.99, 0.01), (0.99, 0.99), (0.01, 0.99)]
    for number, (x, y) in enumerate(corners):
        studio.page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=3)
        if not number:
            studio.page.mouse.down()
    studio.page.mouse.up()
    assert studio.page.inner_text("#selected") == f"{len(names)} selected"


@pytest.mark.slow
def test_classes_are_renamed_coloured_merged_and_deleted_each_with_undo(studio):
    begin(studio)

    def change(name: str, do: str, button: str = ".main") -> None:
        studio.page.locator(f".class:has-text('{name}') .more").click(force=True)
        studio.page.evaluate(do)
        studio.page.click(f"#class-dialog {button}")

    def undo() -> None:
        studio.page.focus("#grid")
        studio.keys("Control+z")
        until_class(studio, "Object.keys(all).sort().join() === 'blue,green,red' && all.red.colour === '#2f7fd1'")

    change("red", "document.getElementById('class-name').value = 'x'.repeat(10000)")
    studio.page.wait_for_selector("#said.shown:has-text('at most 200')")
    change("red", "document.getElementById('class-name').value = 'rosso'")
    until_class(studio, "all.rosso && !all.red")
    undo()
    change("red", "document.querySelector('#palette button:nth-child(5)').click()")
    until_class(studio, "all.red.colour === '#d9541e'")
    undo()
    change("red", "document.getElementById('class-merge').value = 'blue'")
    until_class(studio, "!all.red && all.blue.given === 6")
    undo()
    change("red", "0", "#class-delete")
    until_class(studio, "!all.red && all.blue.given === 3")
    undo()


@pytest.mark.slow
def test_a_click_is_not_lost_when_an_answer_comes_while_the_button_is_down(studio):
    begin(studio)
    more = studio.page.locator(".class:has-text('red') .more")
    more.hover(force=True)
    studio.page.mouse.down()
    version = studio.page.evaluate("fetch('/api/state').then((a) => a.json()).then((s) => s.version)")
    studio.page.evaluate(
        """fetch('/api/act', {method: 'POST', body: JSON.stringify({do: 'unknown', items: [0]}),
        headers: {'content-type': 'application/json'}})"""
    )
    studio.page.wait_for_timeout(500)
    studio.page.mouse.up()
    studio.page.wait_for_selector("#class-dialog[open]")
    studio.page.wait_for_function(f"Number(document.body.dataset.predicted) > {version}")


@pytest.mark.slow
def test_the_page_says_what_is_gone_and_what_is_not_on_the_disk(studio, tmp_path):
    names = begin(studio)
    (studio.folder / names[0]).unlink()
    (studio.folder / names[1]).write_bytes(b"no picture any more")
    studio.page.reload()
    studio.page.click("#views button:has-text('All')")
    studio.page.wait_for_selector("#t0 .gone")
    studio.page.wait_for_selector("#t1 .gone")
    assert studio.page.locator("#t2 .gone").count() == 0
    studio.page.click("#t0")
    studio.keys("Space")
    studio.page.wait_for_selector("#viewer .gone")
    studio.keys("Escape")
    journal = tmp_path / "photos-labelled.journal"
    journal.rename(tmp_path / "away")
    journal.mkdir()  # nothing can be written there
    act(studio, do="label", items=[2], **{"class": "kept"})
    studio.page.wait_for_selector(".notice.bad:has-text('not on the disk yet')")
    journal.rmdir()
    (tmp_path / "away").rename(journal)
    studio.until("!document.querySelector('.notice.bad')")
    studio.stop(signal.SIGKILL)
    studio.start()
    assert "kept" in [one["name"] for one in studio.state()["classes"]]


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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_second_tab_sees_what_the_first_does(studio):
    studio.wait()
    second = studio.context.new_page()
    second.goto(studio.address.partition("?")[0])
    second.wait_for_selector(".tile")
    studio.page.bring_to_front()
    studio.name("sky")
    second.wait_for_selector(".class .label:has-text('sky')", timeout=PATIENCE)


@pytest.mark.slow
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


@pytest.mark.slow
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
