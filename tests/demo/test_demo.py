"""The demo goes from images to a report, and keeps what earlier runs wrote."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from remp.demo import SETTINGS, claim_folder, run_demo
from remp.episodes import Protocol


@dataclass(frozen=True)
class Finished:
    """What two runs of the demo in one place left, and what the second printed."""

    first: Path
    content_of_first: dict[Path, bytes]
    report: Path
    out: str
    err: str

    def result(self, name: str) -> dict[str, Any]:
        return json.loads((self.report.parent / f"{name}.json").read_text())


@pytest.fixture(scope="module")
def memory() -> dict[str, Finished]:
    return {}


@pytest.fixture
def finished(memory, tiny, train_images, validation_images, test_images, tmp_path_factory, capsys) -> Finished:
    """The whole demo on toy images, twice; made for the first test that asks and looked at by all."""
    if not memory:
        sets = {"train": train_images, "val": validation_images, "test": test_images}
        small = {"settings": tiny(), "protocol": Protocol(3, 1, 4), "n_episodes": 30}
        out = tmp_path_factory.mktemp("demo") / "runs" / "demo"
        first = run_demo(out, sets, **small)
        content = _content(first.parent)
        capsys.readouterr()
        memory["toy"] = Finished(first, content, run_demo(out, sets, **small), *capsys.readouterr())
    return memory["toy"]


def _content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["remp", "remp-without-rectification", "protonet"])
def test_numbers_are_saved_printed_and_reported(finished, name):
    shown = f"{100 * np.mean(finished.result(name)['accuracies']):.2f} ±"
    assert shown in finished.out
    assert shown in finished.report.read_text(encoding="utf-8")


def test_the_path_of_the_report_is_printed(finished):
    assert finished.report.name == "report.html"
    assert str(finished.report) in finished.out


def test_all_rows_are_of_the_same_episodes(finished):
    names = ("remp", "remp-without-rectification", "protonet")
    assert len({finished.result(name)["episode_hash"] for name in names}) == 1


@pytest.mark.parametrize("method", ["remp", "protonet"])
def test_both_methods_are_trained_on_as_many_episodes(finished, method):
    folder = finished.report.parent / method
    assert "\nepisodes: 12\n" in (folder / "config.yaml").read_text()
    assert (folder / "best.safetensors").is_file()


def test_the_printed_difference_is_numpys(finished):
    ours, rival = (np.array(finished.result(name)["accuracies"]) for name in ("remp", "protonet"))
    (mean,) = re.findall(r"^ProtoNet .*%\s+([+−][\d.]+) ±", finished.out, re.M)
    assert float(mean.replace("−", "-")) == pytest.approx(100 * (rival - ours).mean(), abs=0.0051)


def test_no_bars_are_drawn_where_output_is_no_terminal(finished):
    assert finished.err == ""
    assert not re.search(r"[\r\x1b━]", finished.out)


def test_a_second_run_keeps_the_first(finished):
    assert finished.report.parent == finished.first.parent.with_name("demo-2")
    assert _content(finished.first.parent) == finished.content_of_first


def test_the_first_free_folder_is_taken(tmp_path):
    names = [claim_folder(tmp_path / "a" / "demo").name for _ in range(3)]
    assert names == ["demo", "demo-2", "demo-3"]


def test_letters_are_not_mirrored():
    assert SETTINGS["flip"] is False


@pytest.mark.slow
def test_remp_demo_learns_and_writes_its_report(tmp_path: Path):
    environment = {**os.environ, "REMP_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-m", "remp", "demo"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    report = (tmp_path / "runs" / "demo" / "report.html").read_text(encoding="utf-8")
    accuracy = float(re.search(r"^ReMP, layers \d+ +([\d.]+) ±", done.stdout, re.M)[1])
    assert accuracy > 60
    assert f"{accuracy:.2f} ±" in report
