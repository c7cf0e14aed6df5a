"""A studio in a process of its own and a page of it in a real browser, for the tests."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
FLAGS += "--disable-component-update --disable-sync --disable-dev-shm-usage"
PATIENCE = 60_000  # milliseconds
STARTER = """
import sys; sys.path[:0] = sys.argv[2:]
from pathlib import Path
from embedding_cases import mean_colour_embedder
from remp.studio.run import StudioOptions, run_studio
say = lambda text: print(text, flush=True)
run_studio(Path(sys.argv[1]), StudioOptions(backbone=mean_colour_embedder(), browser=False, say=say))
"""


@contextmanager
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=FLAGS.split())
        yield browser
        browser.close()


class Studio:
    """A server of its own process, that can be killed and started again, and a page."""

    def __init__(self, folder: Path, browser: Any, *, starter: str = STARTER, scale: float = 1) -> None:
        self.folder, self.starter, self.errors = folder, starter, list[str]()
        self.context = browser.new_context(viewport={"width": 1200, "height": 800}, device_scale_factor=scale)
        self.start()

    def start(self) -> None:
        environment = {**os.environ, "REMP_HOME": str(self.folder.with_name("home")), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-c", self.starter, str(self.folder), *sys.path]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        self.address = next(re.search(r"http://\S+", line)[0] for line in self.process.stdout if "http://" in line)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda said: self.errors.append(said.text) if "Content Security" in said.text else None)
        self.page.goto(self.address)
        self.page.wait_for_selector(".tile")

    def stop(self, how: int = signal.SIGKILL) -> None:
        self.page.close()
        self.process.send_signal(how)
        self.process.wait(30)

    def state(self) -> dict[str, Any]:
        return self.page.evaluate("fetch('/api/state').then((answer) => answer.json())")

    def wait(self) -> dict[str, Any]:
        """Until everything is embedded and predicted, and the page shows it."""
        until = time.monotonic() + PATIENCE / 1000
        while time.monotonic() < until:
            state = self.state()
            if state["embedding"]["is_done"] and state["predicted"] == state["version"]:
                self.page.wait_for_timeout(300)
                return state
            time.sleep(0.1)
        raise AssertionError(f"no predictions: {state}")

    def until(self, expression: str) -> None:
        """Until the expression is true in the page; Playwright's own way needs eval, which the page forbids."""
        end = time.monotonic() + PATIENCE / 1000
        while not self.page.evaluate(expression):
            assert time.monotonic() < end, f"never came true: {expression}"
            time.sleep(0.05)

    def keys(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def name(self, text: str) -> None:
        """Type a name for what is selected, and wait until it is there."""
        version = self.state()["version"]
        self.page.keyboard.type(text)
        self.keys("Enter")
        until = time.monotonic() + 20
        while self.state()["version"] == version and time.monotonic() < until:
            time.sleep(0.05)
        self.page.wait_for_timeout(200)

    def selected(self) -> list[str]:
        return self.page.eval_on_selector_all(".tile.selected", "(tiles) => tiles.map((tile) => tile.title)")
