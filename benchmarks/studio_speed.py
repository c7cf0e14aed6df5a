"""How fast the studio answers: an action, a start with full caches, scrolling, and the memory of both sides.

    python benchmarks/studio_speed.py [--pictures 10000] [--classes 20] [--actions 5] [--work FOLDER]

Real files, a real server in a process of its own and Chromium before it; only the content is synthetic: small coloured
pictures, embedded as 1280 numbers by a fixed random projection of their pixels, and a few thumbnails that are kept for
all of them, so that the caches are as large as those of photographs. A second run with the same --work finds the caches
full. An action labels 50 pictures; it ends when the page shows the new predictions; the whole answer, that of
`remp label`, is timed, too. Beside it, in the same minute and on the same features, runs the bare propagation that the
studio cannot do without.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from remp.backbones.embedding import Embedder, Normalisation
from remp.labelling.decision import decide
from remp.propagation.fit import fit_rows
from remp.report.thumbnails import Thumbnails
from remp.rows import ArrayRows, Shard
from remp.studio.collection import _SETTINGS, Embedding, Labels, open_collection, predict
from remp.studio.run import _QUALITY, _THUMBNAIL, StudioOptions, run_studio

DIM, SMALL = 1280, 8
FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-dev-shm-usage "
    "--enable-precise-memory-info --js-flags=--expose-gc"
)


class Projection:
    """(n, 3, 8, 8) -> (n, 1280), none below zero, like the features of a network."""

    def __init__(self) -> None:
        self._weights = torch.randn(3 * SMALL * SMALL, DIM, generator=torch.Generator().manual_seed(0))

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        return (images.flatten(1) @ self._weights).relu()


def embedder() -> Embedder:
    normal = Normalisation((0.5,) * 3, (0.25,) * 3)
    return Embedder("projection", "0" * 64, DIM, SMALL, "nothing", Projection(), normal)


def write_pictures(folder: Path, n: int, n_classes: int) -> None:
    """n pictures around a pattern for each class; the class is in the name."""
    random = np.random.default_rng(0)
    patterns = random.integers(40, 216, (n_classes, SMALL, SMALL, 3))
    folder.mkdir(parents=True)
    for number in range(n):
        noise = random.normal(0, 40, (SMALL, SMALL, 3))
        pixels = np.clip(patterns[number % n_classes] + noise, 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number:06d}-{number % n_classes:02d}.png", compress_level=1)
    then = time.time() - 3600
    for path in folder.iterdir():
        os.utime(path, (then, then))


def keep_thumbnails(folder: Path) -> None:
    """The same few pictures for all, by the right keys."""
    from remp.labelling.embedding.cache import identity

    random, jpegs = np.random.default_rng(1), []
    for _ in range(16):
        buffer = BytesIO()
        small = Image.fromarray(random.integers(0, 256, (12, 12, 3), dtype=np.uint8))
        small.resize((_THUMBNAIL,) * 2, Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=_QUALITY)
        jpegs.append(buffer.getvalue())
    kept = Thumbnails(_THUMBNAIL, _QUALITY)
    kept._ask("BEGIN")
    for number, path in enumerate(sorted(folder.iterdir())):
        known = identity(path)
        assert known
        kept.keep(known.key, jpegs[number % len(jpegs)])
    kept._ask("COMMIT")
    kept.close()


def prepare(work: Path, n: int, n_classes: int) -> Path:
    """Pictures and full caches."""
    folder = work / f"pictures-{n}"
    if not (work / f"ready-{n}").exists():
        shutil.rmtree(folder, ignore_errors=True)
        write_pictures(folder, n, n_classes)
        Embedding(open_collection(folder), embedder()).run(lambda features: None)
        keep_thumbnails(folder)
        (work / f"ready-{n}").touch()
    (work / f"pictures-{n}-labelled.journal").unlink(missing_ok=True)
    return folder


def bare(folder: Path, n_classes: int, rounds: int) -> tuple[float, float]:
    """Seconds of the propagation alone, and of all that the studio asks of it, on the features of the folder."""
    found: list = []
    Embedding(open_collection(folder), embedder()).run(lambda features: found.append(features))
    features, task = found[-1], open_collection(folder)
    from remp.studio.state import StudioState

    state = StudioState.start(task.labels, ())
    truth = np.arange(len(task.names)) % n_classes
    for number in range(n_classes):
        state.label(np.flatnonzero(truth == number)[:8].tolist(), f"class {number:02d}")
    given, rows, times = Labels(state.labels, state.classes), ArrayRows(features.values), ([], [])
    made, _ = given.task(task, features)
    for _ in range(rounds):
        started = time.perf_counter()
        decide(fit_rows(rows, made.labels, n_classes, _SETTINGS, shard=Shard()), rows, made.labels, Shard())
        times[0].append(time.perf_counter() - started)
        started = time.perf_counter()
        predict(task, features, given)
        times[1].append(time.perf_counter() - started)
    return float(np.median(times[0])), float(np.median(times[1]))


def memory(process: int, field: str) -> float:
    """MiB of a process."""
    text = Path(f"/proc/{process}/status").read_text()
    return int(re.search(rf"{field}:\s+(\d+) kB", text)[1]) / 1024


# What is done in the page. The benchmark acts as the page does, and watches when it shows the answer.
WAIT = """(version) => new Promise((done) => { const look = () => Number(document.body.dataset.predicted) >= version
  ? done(performance.now()) : setTimeout(look, 5); look(); })"""
ACT = """(action) => fetch('/api/act', {method: 'POST', body: JSON.stringify(action),
  headers: {'content-type': 'application/json'}}).then((a) => a.json())"""
TIMED = """async (action) => { const started = performance.now();
  const version = await fetch('/api/act', {method: 'POST', body: JSON.stringify(action),
    headers: {'content-type': 'application/json'}}).then((a) => a.json()).then((s) => s.version);
  const clicks = []; let is_over = false;
  (async () => { while (!is_over) { const at = performance.now(); await fetch('/thumb/1?' + at);
    clicks.push(performance.now() - at); await new Promise((on) => setTimeout(on, 30)); } })();
  await new Promise((done) => { const look = () => Number(document.body.dataset.predicted) >= version
    ? done() : setTimeout(look, 5); look(); });
  is_over = true;
  const first = performance.now() - started;
  await new Promise((done) => { const look = () => Number(document.body.dataset.whole) >= version
    ? done() : setTimeout(look, 5); look(); });
  return [first, Math.max(0, ...clicks), performance.now() - started]; }"""
# A row is blank while a picture in sight is not there, until it comes or is out of sight; every 150th frame leaps
# somewhere else.
SCROLL = """async () => { const grid = document.getElementById('grid'), waiting = new Map();
  let worst = 0, step = 0; const end = performance.now() + 12000;
  await new Promise((done) => { const frame = () => {
    const now = performance.now(), box = grid.getBoundingClientRect();
    const in_sight = new Set();
    for (const image of grid.querySelectorAll('.tile img')) { const at = image.getBoundingClientRect(), of = image.src;
      if (at.bottom < box.top || at.top > box.bottom) continue;
      in_sight.add(of);
      if (image.complete && image.naturalWidth) {
        if (waiting.has(of)) { worst = Math.max(worst, now - waiting.get(of)); waiting.delete(of); }
      } else if (!waiting.has(of)) waiting.set(of, now); }
    for (const [of, since] of waiting)
      if (!in_sight.has(of)) { worst = Math.max(worst, now - since); waiting.delete(of); }
    step++;
    if (step % 150 === 0) grid.scrollTop = (grid.scrollHeight * ((step * 37) % 1000)) / 1000;
    else grid.scrollTop += 60;
    if (now < end) requestAnimationFrame(frame); else done(); }; requestAnimationFrame(frame); });
  for (const since of waiting.values()) worst = Math.max(worst, performance.now() - since);
  return [worst, step, document.querySelectorAll('.tile').length, performance.memory.usedJSHeapSize / 2 ** 20]; }"""
SHOW_ALL = """document.querySelectorAll('#views button').forEach((b) => b.textContent.startsWith('All') && b.click())"""


def serve(folder: str) -> None:
    """What the child process does."""
    run_studio(
        Path(folder), StudioOptions(backbone=embedder(), browser=False, say=lambda text: print(text, flush=True))
    )


def measure(folder: Path, n: int, n_classes: int, n_actions: int) -> None:
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=FLAGS.split())
        page = browser.new_context(viewport={"width": 1280, "height": 820}).new_page()
        page.set_default_timeout(120_000)
        started = time.perf_counter()
        server = subprocess.Popen([sys.executable, __file__, "--serve", folder], stdout=subprocess.PIPE, text=True)
        try:
            page.goto(next(re.search(r"http://\S+", line)[0] for line in server.stdout if "http://" in line))
            page.wait_for_selector(".tile img")
            print(f"start to the first grid: {time.perf_counter() - started:.2f} s", flush=True)
            page.evaluate(SHOW_ALL)
            truth = np.arange(n) % n_classes
            for number in range(n_classes):
                items = np.flatnonzero(truth == number)[:8].tolist()
                version = page.evaluate(ACT, {"do": "label", "items": items, "class": f"class {number:02d}"})["version"]
            page.evaluate(WAIT, version)
            page.wait_for_timeout(4000)
            times = []
            for action in range(n_actions):
                of = action % n_classes
                items = np.flatnonzero(truth == of)[20 + 50 * action : 70 + 50 * action].tolist()
                times.append(page.evaluate(TIMED, {"do": "label", "items": items, "class": f"class {of:02d}"}))
                page.wait_for_timeout(2500)
            all_ms, others, whole_ms = (np.array(column) for column in zip(*times, strict=True))
            print(
                f"an action of 50 pictures to new predictions on the page: median {np.median(all_ms):.0f} ms, most "
                f"{all_ms.max():.0f} ms; another request meanwhile took at most {others.max():.0f} ms; the whole "
                f"answer, with estimate, findings and advice: median {np.median(whole_ms):.0f} ms",
                flush=True,
            )
            page.wait_for_timeout(5000)
            blank, frames, tiles, heap = page.evaluate(SCROLL)
            print(
                f"scrolling 12 s: longest blank picture {blank:.0f} ms, {frames / 12:.0f} frames/s, {tiles} tiles in "
                f"the page, {heap:.0f} MiB of script memory",
                flush=True,
            )
            print(
                f"server: {memory(server.pid, 'RssAnon'):.0f} MiB of its own, {memory(server.pid, 'VmHWM'):.0f} MiB at "
                "most with mapped files",
                flush=True,
            )
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(30)
            browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=10_000)
    parser.add_argument("--classes", type=int, default=20)
    parser.add_argument("--actions", type=int, default=5)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--prepare", action="store_true", help="only write the pictures and fill the caches")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    work = options.work or Path(tempfile.mkdtemp(prefix="remp-studio-"))
    os.environ["REMP_HOME"] = str(work / "home")
    folder = prepare(work, options.pictures, options.classes)
    if options.prepare:
        return
    print(
        f"{options.pictures:,} pictures of {DIM} numbers, {options.classes} classes, {torch.get_num_threads()} threads"
    )
    measure(folder, options.pictures, options.classes, options.actions)
    propagation, everything = bare(folder, options.classes, 3)
    print(f"bare propagation {1000 * propagation:.0f} ms; with estimate and findings {1000 * everything:.0f} ms")


if __name__ == "__main__":
    main()
