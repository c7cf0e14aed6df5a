"""The report is one page that stands alone and holds the numbers it was given."""

import base64
import re
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from html_page import Page
from remp.demo.page import Figure, Section, Tile, TileRow, image_source, render_report, write_report
from stand_ins import made_up_result

PICTURE = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)


@pytest.fixture
def results():
    return [made_up_result("remp", randomness=1, transductive=True), made_up_result("protonet", randomness=2)]


@pytest.fixture
def html(results):
    tile = Tile(image_source(PICTURE), "a <b>, taken for c", "corrected")
    sections = [
        Section("Pictures", "Of an episode.", tiles=(TileRow("a <b>", "#0072b2", (tile,), (tile, tile)),)),
        Section("Curves", "Of a run.", (Figure(_png(), "a curve", "Loss"),)),
    ]
    return render_report(title="A <title>", lead="What & why", results=results, sections=sections)


def _png() -> bytes:
    buffer = BytesIO()
    Image.fromarray(PICTURE).save(buffer, format="PNG")
    return buffer.getvalue()


def test_the_page_refers_to_nothing_outside_itself(html):
    assert not re.search(r"https?:|url\(|@import|<script|<link|<iframe", html)
    for tag, attributes in Page(html).elements:
        assert attributes.get("src", "data:").startswith("data:"), tag
        assert "href" not in attributes, tag


def test_every_image_decodes_to_what_was_given_and_has_words(html):
    images = [attributes for tag, attributes in Page(html).elements if tag == "img"]
    assert len(images) == 4
    for attributes in images:
        png = base64.b64decode(attributes["src"].removeprefix("data:image/png;base64,"), validate=True)
        np.testing.assert_array_equal(np.asarray(Image.open(BytesIO(png))), PICTURE)
        assert attributes["alt"]


def test_a_grey_image_stays_as_it_is():
    source = image_source(PICTURE[..., :1]).removeprefix("data:image/png;base64,")
    np.testing.assert_array_equal(np.asarray(Image.open(BytesIO(base64.b64decode(source)))), PICTURE[..., 0])


def test_the_page_holds_the_numbers_and_the_protocol_of_the_results(html, results):
    text = Page(html).text
    difference = 100 * (results[1].accuracies - results[0].accuracies).mean()
    for result in results:
        assert f"{100 * result.accuracies.mean():.2f} ±" in text
        assert result.checkpoint_hash[:12] in text
    assert f"{difference:+.2f} ±".replace("-", "−") in text
    for fact in (
        "n = 40",
        "3 classes",
        "1 labelled",
        "4 per class",
        "transductive",
        "inductive",
        results[0].episode_hash[:12],
    ):
        assert fact in text


def test_text_is_escaped(html):
    assert "<b>" not in html
    assert "A <title>" in Page(html).text
    assert "What & why" in Page(html).text


def test_elements_are_closed_in_order(html):
    assert Page(html).open == []


def test_the_written_file_is_the_page(tmp_path, results):
    page = {"title": "T", "lead": "L", "results": results, "sections": []}
    path = write_report(tmp_path / "new" / "report.html", **page)
    assert path.read_text(encoding="utf-8") == render_report(**page)
