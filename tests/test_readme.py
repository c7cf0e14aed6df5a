"""The commands and the code in the README, run as they stand but for the length of the work."""

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.stats import ttest_rel
from typer.testing import CliRunner

from remp.cli import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [line.strip() for line in re.findall(r"^    (remp .*)$", README, flags=re.MULTILINE)]
SHORTER = {"30min": "4", "600": "20", "all": "protonet,remp,pt-map"}
CLASSES, PER_CLASS = 30, 20


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the README takes for granted: the repository's configs, and pictures of one's own."""
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    random = np.random.default_rng(0)
    for number in range(CLASSES):
        folder = tmp_path / "my_pictures" / f"class {number}"
        folder.mkdir(parents=True)
        for i in range(PER_CLASS):
            Image.fromarray(random.integers(0, 255, (20, 24, 3), dtype=np.uint8)).save(folder / f"{i}.png")
    for part in ("cat", "dog", "unlabelled"):
        shutil.copytree(tmp_path / "my_pictures" / "class 0", tmp_path / "photos" / part)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_for_own_pictures_run_one_after_the_other(workplace: Path) -> None:
    assert any(command.startswith("remp train") for command in COMMANDS)
    for command in COMMANDS:
        arguments = [SHORTER.get(word, word) for word in shlex.split(command, comments=True)[1:]]
        arguments += ["--backbone", "cifar-fs-convnet64-1shot"] if arguments[0] == "label" else []
        answer = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert answer.exit_code == 0, f"{command}\n{answer.output}"


def run_python(mark: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run the Python block with `mark` in it; the names that it sees and makes."""
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL) if mark in block]
    exec(compile(code, "README.md", "exec"), names)
    return names


def test_the_shipped_model_of_the_readme_predicts() -> None:
    pictures = np.random.default_rng(0).integers(0, 255, (6, 32, 32, 3), dtype=np.uint8)
    names = {"support_images": pictures[:4], "support_labels": ["a", "a", "b", "b"], "query_images": pictures[4:]}
    assert run_python("model.predict", names)["found"].probabilities.shape == (2, 2)


def test_the_comparison_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(0)
    X = np.repeat(np.eye(5), 12, axis=0) + random.normal(size=(60, 5))
    run_python("remp.compare", {"X": X, "y": np.repeat(np.arange(5), 12)})
    assert "5-way, 1-shot" in capsys.readouterr().out


def test_the_estimator_of_the_readme_labels_the_rest() -> None:
    X = np.repeat(np.eye(2), 3, axis=0)
    assert run_python("ReMPClassifier", {"X": X, "y": ["a", "", "", "b", None, ""]})["labels"].tolist() == list(
        "aaabbb"
    )


def paired(item: str, first: str, second: str, n_shot: int) -> str:
    """The mean difference in points with its 95 % interval, by SciPy, from the published accuracies of each episode."""
    with np.load(ROOT / "results" / item / "accuracies.npz") as arrays:
        one, other = (100 * arrays[f"{row} {n_shot}-shot"].astype(float) for row in (first, second))
    interval = ttest_rel(one, other).confidence_interval(0.95)
    middle = (interval.low + interval.high) / 2
    return f"{middle:.2f} ± {interval.high - middle:.2f}".replace("-", "−")


@pytest.mark.parametrize(
    "row", ["ReMP (chosen on validation)", "ReMP (paper)", "ReMP (paper), trained as in the paper"]
)
def test_the_distance_from_the_main_rival_is_that_of_the_published_episodes(row: str) -> None:
    one, five = (paired("cifar-fs", row, "DFMN-MCT", n_shot) for n_shot in (1, 5))
    assert f"{one} and {five}" in " ".join(README.split()).replace(" points better", "")


@pytest.mark.parametrize("transform", ["", ", transform"])
@pytest.mark.parametrize(
    ("item", "network"), [("cifar-fs", "ReMP, long training"), ("mini-imagenet", "ReMP, longest training")]
)
def test_what_the_papers_layers_lose_is_that_of_the_published_episodes(item: str, network: str, transform: str) -> None:
    rows = [f"{network} ({which}){transform}" for which in ("chosen on validation", "paper")]
    one, five = (paired(item, *rows, n_shot) for n_shot in (1, 5))
    page = " ".join((ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8").split())
    assert f"{one} and {five}" in page.replace(" (1-shot)", "")


def test_every_file_the_readme_links_to_exists() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if not link.startswith("http")]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^    make (\w+)", README, flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)
