"""`remp train --help` names every setting, its default and what it means."""

import inspect

import pytest
from typer.testing import CliRunner

from remp.backbones import BACKBONES
from remp.cli import app
from remp.config import meanings, settings_model
from remp.methods import METHODS, TPN


def help_of(*arguments):
    answer = CliRunner().invoke(app, ["train", *arguments, "--help"], env={"COLUMNS": "400"})
    assert answer.exit_code == 0, answer.output
    return {line.split()[0]: line.strip() for line in answer.output.splitlines() if line.strip().startswith("--")}


def test_help_lists_the_settings_of_the_run_with_default_and_meaning():
    listed = help_of()
    assert listed["--learning-rate"].split(maxsplit=2)[1:] == ["0.1", "learning rate before it falls"]
    assert listed["--milestones"].split(maxsplit=3)[1:3] == ["[25000,", "50000]"]
    assert listed["--schedule-of-rate"].endswith("how the learning rate falls (milestones, cosine)")


def test_help_lists_the_settings_of_the_method_and_backbone_that_are_asked_for(tmp_path):
    own = [name for name, p in inspect.signature(TPN).parameters.items() if p.kind is p.KEYWORD_ONLY]
    by_flag = help_of("--method", "tpn", "--backbone=resnet12")
    assert {"--" + name.replace("_", "-") for name in own} | {"--variant", "--dropout"} <= set(by_flag)
    assert "--repulsion" not in by_flag
    assert "--repulsion" in help_of()
    (tmp_path / "run.yaml").write_text("data: glyphs\nmethod: tpn\n", encoding="utf-8")
    assert "--scale-width" in help_of(str(tmp_path / "run.yaml"))


@pytest.mark.parametrize("owner", [*METHODS.values(), *BACKBONES.values()], ids=lambda owner: owner.__name__)
def test_every_docstring_says_what_each_setting_means(owner):
    assert set(meanings(owner)) == set(settings_model(owner).model_fields)
