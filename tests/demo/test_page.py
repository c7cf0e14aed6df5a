"""The report is one page that stands alone and holds the numbers it was given."""

import base64
import re
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from html_page import Page
from remp.demo.page import image_source, render_demo_report
from remp.demo.showcase import find_showcase
from remp.episodes import Protocol
from stand_ins import made_up_result, untrained

PICTURE = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
HISTORIES = {
    name: [{"episodes": n, "loss_local": 1 / n, "validation_accuracy": n / 100} for n in (10, 20)]
    for name in ("ReMP", "ProtoNet")
}


@pytest.fixture
def results():
    layers = [made_up_result("remp", randomness=n, transductive=True, settings={"layers": n}) for n in (5, 0)]
    return [*layers, made_up_result("protonet", randomness=2)]


@pytest.fixture
def showcase(test_images):
    shown = find_showcase(untrained(), test_images, Protocol(3, 1, 4), n_episodes=20)
    return replace(shown, class_names=("a <b>", "What & why", "c"))


@pytest.fixture
def html(results, showcase):
    return render_demo_report(results, showcase, HISTORIES)


def test_the_page_refers_to_nothing_outside_itself(html):
    assert not re.search(r"https?:|url\(|@import|<script|<link|<iframe", html)
    for tag, attributes in Page(html).elements:
        assert attributes.get("src", "data:").startswith("data:"), tag
        assert "href" not in attributes, tag


def test_every_image_decodes_and_has_words_and_the_pictures_are_those_of_the_episode(html, showcase):
    images = [attributes for tag, attributes in Page(html).elements if tag == "img"]
    assert all(attributes["alt"] for attributes in images)
    decoded = [
        np.asarray(Image.open(BytesIO(base64.b64decode(attributes["src"].partition(",")[2], validate=True))))
        for attributes in images
    ]
    pictures = [*showcase.support_images, *showcase.query_images]
    assert len(decoded) == len(pictures) + 5  # two curves, a map, two heat maps
    for picture in pictures:
        assert any(np.array_equal(picture, shown) for shown in decoded)


def test_a_grey_image_stays_as_it_is():
    source = image_source(PICTURE[..., :1]).removeprefix("data:image/png;base64,")
    np.testing.assert_array_equal(np.asarray(Image.open(BytesIO(base64.b64decode(source)))), PICTURE[..., 0])


def test_the_page_holds_the_numbers_and_the_protocol_of_the_results(html, results):
    text = Page(html).text
    difference = 100 * (results[2].accuracies - results[0].accuracies).mean()
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
    assert "a <b>" in Page(html).text
    assert "What & why" in Page(html).text


def test_elements_are_closed_in_order(html):
    assert Page(html).open == []


def test_the_words_say_what_the_numbers_are(html, results, showcase):
    text = " ".join(Page(html).text.split())
    ours, plain, rival = (f"{100 * result.accuracies.mean():.1f} %" for result in results)
    assert f"ReMP gets {ours} of them right" in text
    assert f"without rectification {plain}" in text
    assert f"same number of episodes, {rival}. Guessing would get 33 %." in text
    raised = 100 * (results[0].accuracies > results[1].accuracies).mean()
    assert f"raised the accuracy in {raised:.0f} %" in text
    right = (showcase.before.predictions == showcase.query_labels).sum()
    assert f"of which {right} of 12 are answered right before" in text
