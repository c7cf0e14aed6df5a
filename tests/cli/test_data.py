"""`remp data` on the command line."""

from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from raw_data import write_tree
from remp.cli.data import app
from remp.datasets import DATASETS
from remp.errors import DataError

pytestmark = pytest.mark.usefixtures("remp_home")


def run(*arguments: object) -> str:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False).output


@pytest.fixture
def prepared(tmp_path: Path) -> str:
    write_tree(tmp_path / "raw", [f"kind{i}" for i in range(10)], per_class=3)
    return run("prepare", "folder", "--from", tmp_path / "raw", "--name", "birds", "--size", 16)


def test_list_names_every_set_and_what_is_prepared(prepared: str) -> None:
    output = run("list")
    assert all(name in output for name in DATASETS)
    assert "prepared" in next(line for line in output.splitlines() if line.startswith("birds"))


def test_prepare_says_what_it_found_and_where_it_went(prepared: str, remp_home: Path) -> None:
    assert "train 6 classes, 18 images" in prepared
    assert f"Prepared 'birds' in {remp_home / 'data' / 'birds'}" in prepared


def test_info_tells_classes_images_and_fingerprints_and_draws_examples(prepared: str, tmp_path: Path) -> None:
    output = run("info", "birds", "--sheet", tmp_path / "sheet.png")
    assert "images 16 x 16 x 3" in output
    assert output.count("fingerprint") == 3
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.height == 10 * (16 + 2)  # six rows of train, two of val, two of test


def test_info_never_overwrites_a_file_of_the_user(prepared: str, tmp_path: Path) -> None:
    (tmp_path / "mine.png").write_text("mine")
    with pytest.raises(DataError, match="exists already"):
        run("info", "birds", "--sheet", tmp_path / "mine.png")
    assert (tmp_path / "mine.png").read_text() == "mine"
    assert "examples.png" in run("info", "birds")
    assert "examples.png" in run("info", "birds")


def test_a_set_that_is_drawn_needs_no_preparation_to_be_looked_at() -> None:
    assert "images 32 x 32 x 1" in run("info", "glyphs")


@pytest.mark.parametrize(
    "option", [("--size", 20), ("--from", "photos"), ("--download",), ("--rotations",), ("--seed", 1)]
)
def test_a_set_that_is_drawn_takes_no_options(option: tuple[object, ...]) -> None:
    with pytest.raises(DataError, match="glyphs is generated and takes no options: leave out"):
        run("prepare", "glyphs", *option)
