"""The page about a labelling holds what it was given, whatever it was given, in one file of bounded size."""

import base64
import re
import warnings
from dataclasses import replace
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hostile_names import HOSTILE
from html_page import Page
from made_up_labelling import every_finding, made_up_labelling, write_pictures
from remp.labelling.outcome import Advice, Finding
from remp.labelling.tasks import Items
from remp.report import breakable
from remp.report.label import MOST_SKIPPED, render_label_report, write_label_report

ANIMALS = ("cat", "dog", "wolf")


def page_of(labelling, **settings) -> Page:
    return Page(render_label_report(labelling, title="My labels", **settings).decode("utf-8"))


@pytest.fixture
def paths(tmp_path) -> list[Path]:
    return write_pictures(tmp_path / "pictures", 40)


@pytest.fixture
def page(paths) -> Page:
    return page_of(made_up_labelling(ANIMALS, 40, paths=paths, findings=every_finding()))


def test_the_page_refers_to_nothing_outside_itself_and_forbids_it(page):
    assert not page.all("script")
    for tag, attributes in page.elements:
        assert attributes.get("src", "data:image/").startswith("data:image/"), tag
        assert attributes.get("href", "#").startswith("#"), tag
    (policy,) = page.all("meta", **{"http-equiv": "Content-Security-Policy"})
    assert policy["content"].startswith("default-src 'none'; img-src data:;")


def test_every_link_leads_to_a_part_of_the_page(page):
    parts = {attributes.get("id") for _, attributes in page.elements}
    links = {attributes["href"].removeprefix("#") for attributes in page.all("a")}
    assert links
    assert links <= parts


def test_elements_are_closed_and_headings_skip_no_level(page):
    assert page.open == []
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_the_lead_says_the_accuracy_with_its_interval_and_what_it_comes_from(page):
    text = page.text.replace("\u00a0", " ")
    assert "87 % (95 % interval: 82 % to 91 %) of the 34 pictures without a label are expected to be of their" in text
    assert re.search(r"likeliest class\. \d+ got it as their label; of these, \d+ % are expected to be right\.", text)
    assert "How the estimate was made: the probabilities of the 40 unlabelled items." in text


def test_the_counts_are_those_of_the_statuses(paths):
    labelling = made_up_labelling(ANIMALS, 40, paths=paths)
    numbers = re.findall(r"<dd>([\d,]+)</dd>", render_label_report(labelling, title="T").decode())
    assert [int(number) for number in numbers] == [*np.bincount(labelling.status, minlength=4), 0]


def test_pictures_show_the_centre_of_their_files(tmp_path):
    left, middle = (200, 30, 30), (30, 30, 200)
    pixels = np.zeros((60, 180, 3), np.uint8) + np.array(left, np.uint8)
    pixels[:, 60:120] = middle
    path = tmp_path / "wide.png"
    Image.fromarray(pixels).save(path)
    page = page_of(made_up_labelling(["a", "b"], 6, n_given=1, paths=[path] * 6))
    sources = {attributes["src"] for attributes in page.all("img")}
    assert len(sources) == 1
    jpeg = base64.b64decode(sources.pop().partition(",")[2], validate=True)
    shown = np.asarray(Image.open(BytesIO(jpeg)).convert("RGB")).astype(int)
    assert shown.shape[0] == shown.shape[1]
    assert np.abs(shown - middle).max() < 40  # from 170 to the colour beside it


def test_every_picture_has_words(page):
    assert page.all("img")
    assert all(attributes["alt"] for attributes in page.all("img"))
    assert all(attributes.get("aria-label") for attributes in page.all("svg", role="img"))


def test_a_strip_holds_the_right_items_in_the_right_order():
    """From the definition, item by item."""
    labelling = made_up_labelling(ANIMALS, 60)
    content = render_label_report(labelling, title="T").decode()
    for number, block in enumerate(re.findall(r'<details class="class".*?</details>', content, re.S)):
        own = [i for i in range(60) if labelling.best[i] == number and labelling.status[i] in (1, 2)]
        own.sort(key=lambda i: -labelling.probability[i])
        given = [i for i in range(60) if labelling.task.labels[i] == number]
        changed = [i for i in own if labelling.before[i] != number]
        shown = dict(re.findall(r"<h4>([^<]+?) <small>.*?<ul[^>]*>(.*?)</ul>", block, re.S))
        strips = {title: [int(i) for i in re.findall(r"<bdi>(\d+)</bdi>", part)] for title, part in shown.items()}
        assert strips["Given"] == given
        assert strips["Most certain"] == own[:8]
        assert strips["Least certain"] == own[::-1][: min(8, len(own) - 8)]
        assert strips.get("Changed by rectification", []) == changed[:8]


def test_nothing_is_said_to_be_changed_by_rectification_that_was_left_out(page):
    assert "Changed by rectification" in page.text
    left_out = page_of(made_up_labelling(ANIMALS, 60, rectified=0.0)).text
    assert "Rectification was left out" in left_out
    assert "Changed by class sizes" in left_out
    assert "Changed by rectification" not in left_out
    assert "before the prototypes were rectified" not in left_out


@pytest.mark.parametrize(("rectified", "said"), [(0.3, "Rectification counts for 30% of its usual weight"), (0.6, "")])
def test_rectification_that_was_weakened_is_told(rectified, said):
    text = page_of(made_up_labelling(ANIMALS, 60, rectified=rectified)).text
    assert ("usual weight" in text) == bool(said)
    assert said in text
    assert "Changed by rectification" in text


def test_a_single_class_is_shown_without_its_probabilities_which_are_all_1():
    page = render_label_report(made_up_labelling(["all"], 40, estimate=None), title="x").decode()
    assert "Labelled <small>8 of" in page
    for absent in ("100\u00a0%", "Percentages", "--reject", "certain <small>"):
        assert absent not in page


def test_few_items_are_not_shown_both_as_most_and_as_least_certain():
    labelling = made_up_labelling(["a", "b"], 9, n_given=1)
    labelling = replace(labelling, best=np.zeros(9, np.int64), status=np.array([0, 0, 1, 1, 1, 1, 1, 3, 3]))
    content = render_label_report(labelling, title="T").decode().split('<h3 class="class-name')[1]
    shown = dict(re.findall(r"<h4>([^<]+?) <small>.*?<ul[^>]*>(.*?)</ul>", content, re.S))
    certain, doubtful = (re.findall(r"<bdi>(\d+)</bdi>", shown[title]) for title in ("Most certain", "Least certain"))
    assert len(certain) == 3
    assert len(doubtful) == 2
    assert not set(certain) & set(doubtful)


def test_advice_and_findings_come_with_their_words_and_pictures(paths):
    advice = (Advice(7, "nothing labelled is near it"), Advice(9, "many are like it"))
    labelling = made_up_labelling(ANIMALS, 40, paths=paths, label_next=advice, findings=every_finding())
    page = page_of(labelling)
    assert "Label these 2 next" in page.text
    for words in [*(hint.reason for hint in advice), *(finding.text for finding in every_finding())]:
        assert words in page.text
    alts = " ".join(attributes["alt"] for attributes in page.all("img"))
    assert "picture 00007.png: " in alts


def test_findings_beyond_the_first_are_folded_and_counted():
    findings = tuple(Finding("similar classes", f"pair {i}") for i in range(40))
    page = page_of(made_up_labelling(ANIMALS, 20, findings=findings))
    assert "36 more" in page.text
    assert "15 that are not shown" in page.text
    assert "pair 24" in page.text
    assert "pair 25" not in page.text


def test_skipped_files_are_listed_with_their_reason_up_to_a_limit():
    skipped = tuple((f"broken-{i}.jpg", f"reason {i}") for i in range(MOST_SKIPPED + 7))
    task = Items(tuple("abcdefghij"), np.r_[0, 1, [-1] * 8], ("x", "y"), skipped=skipped)
    page = page_of(made_up_labelling(["x", "y"], 10, n_given=1, task=task))
    assert "broken-3.jpg" in page.text
    assert f"reason {MOST_SKIPPED - 1}" in page.text
    assert "… and 7 more." in page.text


def test_hostile_names_are_shown_and_nothing_else(tmp_path):
    labelling = made_up_labelling(HOSTILE, 60)
    names = tuple(HOSTILE[i % len(HOSTILE)] + str(i) for i in range(60))
    task = Items(names, labelling.task.labels, HOSTILE, skipped=tuple((name, name) for name in HOSTILE))
    findings = tuple(Finding("suspicious label", name, (0,)) for name in HOSTILE)
    advice = tuple(Advice(i, HOSTILE[i]) for i in range(len(HOSTILE)))
    hostile = made_up_labelling(HOSTILE, 60, task=task, findings=findings, label_next=advice)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        page = Page(write_label_report(tmp_path / "r.html", hostile, title="".join(HOSTILE)).read_text("utf-8"))
    harmless = page_of(made_up_labelling([f"class {i}" for i in range(len(HOSTILE))], 60))
    assert page.open == []
    assert {tag for tag, _ in page.elements} == {tag for tag, _ in harmless.elements} | {"details", "h3", "wbr"}
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert not set("\x00\t\u202e") & set(page.text)
    for shown in (
        "<script>alert(1)</script>",
        "line\\nbreak\\ttab\\x00nul",
        "\\u202egnp.exe",
        "漢字かな交じり文",
        "\\udcff",
    ):
        assert shown in page.text


@pytest.mark.parametrize("n_classes", [1, 2, 12, 13, 100, 300])
def test_any_number_of_classes_makes_a_page(n_classes):
    names = [f"class {i}" for i in range(n_classes)]
    page = page_of(made_up_labelling(names, 4 * n_classes + 8))
    assert page.open == []
    assert len(page.all("details", **{"class": "class"})) == min(n_classes, 200)
    assert len(page.all("tr")) > n_classes


def test_the_map_has_a_point_for_every_item_of_the_sample_and_two_for_every_prototype():
    labelling = made_up_labelling(ANIMALS, 50)
    page = page_of(labelling)
    shown = [attributes for attributes in page.all("path") if attributes.get("class", "").startswith("points ")]
    marks = [a["d"].count("M") for a in shown if a["class"] != "points given-ring" and a["d"].count("M11 6") == 0]
    assert sum(marks) == 50
    assert len(page.all("circle", **{"class": "mark"})) == len(page.all("path", **{"class": "mark"})) == 3


def test_the_confusion_table_holds_the_expected_numbers():
    confusion = np.array([[30.2, 4.44, 0.0], [0.3, 12.0, 0.6], [0.0, 0.0, 0.0]])
    content = render_label_report(made_up_labelling(ANIMALS, 20, confusion=confusion), title="T").decode()
    cells = re.findall(r'<td style="background: #\w{6}; color: #\w{3}">([\d.]+)</td>', content)
    assert cells == ["30", "4.4", "0.0", "0.3", "12", "0.6", "0.0", "0.0", "0.0"]
    worst = re.findall(r"<bdi>(\w+)</bdi></th><td><bdi>(\w+)</bdi></td>", content)
    assert worst == [("cat", "dog"), ("dog", "wolf")]


def test_the_bars_of_the_sizes_are_in_proportion():
    sizes = np.array([8.0, 38.0, 0.0])
    content = render_label_report(made_up_labelling(ANIMALS, 20, expected_sizes=sizes), title="T").decode()
    widths = re.findall(r'(given|expected)-bar" style="width: ([\d.]+)%', content)
    assert [float(width) for _, width in widths] == [5, 20, 5, 95, 5, 0]


def test_nothing_unlabelled_and_no_estimate_are_said():
    page = page_of(made_up_labelling(ANIMALS, 6, estimate=None))
    assert "Nothing was left to label: 6 rows, all with a label already." in page.text
    page = page_of(made_up_labelling(ANIMALS, 20, estimate=None))
    assert "cannot be estimated" in page.text


def test_rows_of_an_embedding_are_named_instead_of_shown():
    page = page_of(made_up_labelling(ANIMALS, 20))
    assert not page.all("img")
    assert "14 rows without a label" in page.text


@pytest.mark.parametrize("features", [np.zeros((6, 1)), np.ones((6, 5)), np.arange(6.0)[:, None]])
def test_a_sample_without_two_directions_still_has_a_map(features):
    prototypes = features[:2]
    changes = {"sample_features": features, "prototypes": prototypes, "prototypes_before": prototypes}
    page = page_of(made_up_labelling(["a", "b"], 6, n_given=1, **changes))
    assert page.all("circle", **{"class": "mark"})
    assert not re.search(r"\bnan\b|\binf\b", str(page.elements))


def test_a_picture_that_is_gone_or_damaged_has_a_placeholder(paths):
    for path in paths[:20]:
        path.unlink()
    paths[20].write_bytes(b"no picture")
    page = page_of(made_up_labelling(ANIMALS, 40, paths=paths))
    assert page.all("span", **{"class": "picture missing"})
    assert page.all("img")


def test_the_page_keeps_to_its_size_by_showing_fewer_pictures(paths):
    labelling = made_up_labelling(ANIMALS, 40, paths=paths)
    whole = render_label_report(labelling, title="T", max_bytes=10**9)
    half = render_label_report(labelling, title="T", max_bytes=len(whole) // 2)
    words = render_label_report(labelling, title="T", max_bytes=0)
    assert len(half) <= len(whole) // 2
    pictures = [len(Page(content.decode()).all("img")) for content in (whole, half, words)]
    assert pictures[0] > pictures[1] > pictures[2] == 0
    assert len(Page(words.decode()).all("details", **{"class": "class"})) == 3


def test_the_same_labelling_gives_the_same_page(tmp_path, paths):
    labelling = made_up_labelling(ANIMALS, 40, paths=paths)
    one, other = (write_label_report(tmp_path / "new" / f"{i}.html", labelling, title="T") for i in range(2))
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.slow
def test_twenty_thousand_pictures_of_a_hundred_classes_make_a_page_below_the_limit(tmp_path):
    kinds = write_pictures(tmp_path / "pictures", 500, side=160)
    paths = [kinds[i % len(kinds)] for i in range(20_000)]
    labelling = made_up_labelling([f"class {i}" for i in range(100)], 20_000, paths=paths)
    path = write_label_report(tmp_path / "report.html", labelling, title="Many")
    assert 1_000_000 < path.stat().st_size <= 8_000_000


def test_ten_classes_have_ten_colours_on_the_map():
    content = render_label_report(made_up_labelling([f"class {i}" for i in range(10)], 200), title="T").decode()
    drawing = re.search(r'<svg class="map.*?</svg>', content, re.S)[0]
    assert len(set(re.findall(r'<path class="points labelled" stroke="(#\w+)"', drawing))) == 10
    assert "Colours repeat" not in content


def test_the_page_names_what_it_was_made_with_and_how_to_label_more():
    made_with = {"backbone": "some-net", "side": 160, "labels": "mine.csv", "reject": None}
    page = page_of(made_up_labelling(ANIMALS, 40, made_with=made_with))
    assert "Made with backbone: some-net; side: 160; labels: mine.csv; reject: none." in " ".join(page.text.split())
    assert (
        'How: write the class of each into the column label of labels.csv and "given" into the column status, and give'
        in page.text
    )


def test_names_may_break_between_their_parts_and_numbers_may_not():
    assert str(breakable("a_b/c.jpg, 0.97 & v1.x")) == "a_<wbr>b/<wbr>c.<wbr>jpg, 0.97 &amp; v1.<wbr>x"
