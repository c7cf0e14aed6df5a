"""Figures are readable PNGs, and drawing them changes nothing outside."""

import subprocess
import sys
from dataclasses import replace
from io import BytesIO

import matplotlib
import numpy as np
import pytest
from PIL import Image

from hostile_names import HOSTILE
from html_page import Page
from remp.demo import plots
from remp.demo.page import episode_tiles, render_demo_report
from remp.demo.showcase import find_showcase
from remp.episodes import Protocol
from remp.report import main_plane
from remp.untrusted import visible
from stand_ins import made_up_result, untrained

HISTORY = [
    {"episodes": n, "loss_global": 3 / n, "loss_local": 1 / n, "validation_accuracy": n / 100} for n in (10, 20, 30)
]


@pytest.fixture
def showcase(test_images):
    return find_showcase(untrained(), test_images, Protocol(3, 1, 4), n_episodes=20, least_gain=1)


def decoded(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(BytesIO(png)).convert("RGB")).astype(int)


@pytest.mark.parametrize("draw", [plots.loss_curve, plots.validation_curve])
def test_curves_of_several_runs_are_drawn_in_different_colours(draw):
    pixels = decoded(draw({"ReMP": HISTORY, "ProtoNet": HISTORY[:2]}))
    for colour in ((0x00, 0x72, 0xB2), (0xE6, 0x9F, 0x00)):
        assert (np.abs(pixels - colour).sum(-1) < 12).sum() > 50


def test_the_heat_map_shows_attraction_in_blue_and_repulsion_in_rose(showcase):
    weights = np.full_like(showcase.before.attention, 0.1)
    weights[0, 0] = -0.1
    stage = type(showcase.before)(showcase.before.prototypes, showcase.before.predictions, weights)
    pixels = decoded(plots.attention_heatmap(showcase, stage))
    rose, darkest = (
        ((np.abs(pixels - colour).sum(-1)) < 8).sum() for colour in ((0xFA, 0xE6, 0xE1), (0x0B, 0x25, 0x45))
    )
    assert 0 < rose < darkest / 10  # one cell of 36


def test_the_map_is_drawn(showcase):
    pixels = decoded(plots.episode_map(showcase))
    assert min(pixels.shape[:2]) > 500
    assert pixels.std() > 1


def test_the_main_plane_keeps_the_two_directions_of_most_variance():
    random = np.random.default_rng(0)
    points = random.normal(size=(200, 5)) * (1, 9, 0.1, 4, 0.5)
    project, share = main_plane(points)
    projected = project(points)
    variances = np.sort(np.linalg.eigvalsh(np.cov(points.T)))[::-1]
    np.testing.assert_allclose(projected.var(axis=0, ddof=1), variances[:2], rtol=1e-6)
    assert share == pytest.approx(variances[:2].sum() / variances.sum())


def test_the_picture_of_a_rectification_is_a_png_file(test_images, tmp_path):
    path = tmp_path / "docs" / "rectification.png"
    shown = plots.rectification_picture(untrained(), test_images, path, protocol=Protocol(3, 1, 4), seed=3)
    assert decoded(path.read_bytes()).shape[1] > 1500
    assert len(shown.class_names) == 3


def test_tiles_show_every_image_once_and_mark_what_changed(showcase):
    rows = episode_tiles(showcase)
    assert [row.name for row in rows] == list(showcase.class_names)
    marks = [tile.mark for row in rows for tile in row.query]
    assert len(marks) == 12
    assert marks.count("corrected") == showcase.corrected.sum()
    assert marks.count("spoiled") == showcase.spoiled.sum()
    assert marks.count("") + marks.count("corrected") == showcase.right(showcase.after).sum()


def test_drawing_leaves_matplotlib_as_it_was(showcase):
    before = dict(matplotlib.rcParams)
    plots.episode_map(showcase)
    assert dict(matplotlib.rcParams) == before


def test_neither_remp_nor_its_report_imports_matplotlib():
    code = "import sys, remp, remp.report, remp.demo; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("names", [HOSTILE[:3], HOSTILE[3:6], HOSTILE[6:]])
def test_hostile_names_in_a_demo_report_are_text_and_nothing_else(showcase, names):
    histories = {name: HISTORY for name in HOSTILE}
    results = [made_up_result(name, settings={"layers": 1}) for name in names]
    html = render_demo_report(results, replace(showcase, class_names=names), histories)
    page = Page(html)
    assert page.open == []
    assert not page.all("script")
    assert len(page.all("img")) == 5 + 15
    assert all(visible(name) in page.text for name in names)
