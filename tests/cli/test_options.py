"""A file and flags of settings on the command line, in any order."""

import pytest
import typer
import yaml
from typer.testing import CliRunner

from remp import cli
from remp.cli.options import Command, file_and_settings
from remp.config import make_config
from remp.errors import CheckpointError, ConfigError, RempError


@pytest.mark.parametrize(
    ("first", "rest"),
    [
        ("a.yaml", ["--layers", "0", "--alpha=2"]),
        ("--layers", ["0", "a.yaml", "--alpha=2"]),
        ("--layers", ["0", "--alpha=2", "a.yaml"]),
        ("--alpha=2", ["a.yaml", "--layers", "0"]),
    ],
)
def test_the_file_may_stand_before_between_or_after_the_flags(first, rest):
    assert file_and_settings(first, rest) == ("a.yaml", {"layers": 0, "alpha": 2})


def test_a_value_is_not_taken_for_a_file():
    assert file_and_settings("--method", ["protonet"]) == (None, {"method": "protonet"})
    assert file_and_settings("--alpha", ["-1"]) == (None, {"alpha": -1})
    assert file_and_settings(None, []) == (None, {})


@pytest.mark.parametrize(
    ("arguments", "shots"),
    [
        (["--n-shot", "1", "5", "x"], ["1", "5"]),
        (["x", "--n-shot=1", "5", "--seed", "3"], ["1", "5"]),
        (["x", "--n-shot", "1,2", "2,3", "--n-shot", "4"], ["1,2", "2,3", "4"]),
        (["--n-shot", "5", "7", "--n-way", "6", "x"], ["5", "7"]),
        (["x"], ["1"]),
    ],
)
def test_numbers_after_n_shot_are_further_shots(arguments, shots):
    for name in ("evaluate", "compare"):
        command = typer.main.get_command(cli.app).commands[name]
        place = arguments.index("x")
        features = ["--features"] if name == "compare" else []
        context = command.make_context(name, [*arguments[:place], *features, *arguments[place:]])
        assert list(context.params["n_shot"]) == shots


@pytest.mark.parametrize(
    "arguments",
    [
        ["--methods", "remp", "protonet", "--n-shot", "1", "5"],
        ["--methods", "remp", "--n-shot=1", "5", "--methods", "protonet"],
        ["--n-shot", "1", "5", "--methods=remp", "protonet"],
    ],
)
def test_names_after_methods_are_further_methods(arguments):
    command = typer.main.get_command(cli.app).commands["compare"]
    context = command.make_context("compare", [*arguments, "--features", "x"])
    assert (list(context.params["methods"]), list(context.params["n_shot"])) == (["remp", "protonet"], ["1", "5"])


@pytest.mark.parametrize("flags", [["--seed", "0", "1"], ["--n-way", "5", "10"], ["--n-shot", "1", "--seed", "3", "5"]])
def test_a_number_after_another_option_is_not_taken_for_shots(flags):
    assert "got 'x' and" in str(raised("evaluate", "x", *flags))
    assert "unexpected extra argument" in CliRunner().invoke(cli.app, ["compare", "--features", "x", *flags]).output


def test_flags_are_the_names_of_the_settings():
    arguments = ["--alpha", "0.5", "--crop-area=[0.3, 1]", "--flip", "false", "--transform=none", "--n_way", "7"]
    expected = {"alpha": 0.5, "crop_area": [0.3, 1], "flip": False, "transform": "none", "n_way": 7}
    assert file_and_settings(None, arguments) == (None, expected)


def test_exponents_and_negative_numbers_are_numbers():
    _, settings = file_and_settings(None, ["--weight-decay", "1e-3", "--alpha", "-1e-2"])
    config = make_config({"data": "toy", **settings})
    assert (config.weight_decay, config.method_settings["alpha"]) == (1e-3, -1e-2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["alpha", "1"], "got 'alpha' and '1'; needed one file, and settings as --name value"),
        (["--alpha"], "--alpha needs a value"),
        (["--flip", "--alpha", "1"], "--flip needs a value: --flip VALUE; a switch is --flip true or --flip false"),
        (["--alpha", "1", "--alpha=2"], "--alpha is given twice"),
        (["--milestones", "[1,"], r"--milestones is '\[1,'; needed a value as in YAML"),
    ],
)
def test_flags_that_are_none_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        file_and_settings(None, arguments)


def test_two_files_and_a_flag_without_a_value_are_refused():
    with pytest.raises(ConfigError, match="got 'a' and 'b'; needed one file"):
        file_and_settings("a", ["b"])
    with pytest.raises(ConfigError, match="--layers needs a value"):
        file_and_settings("a", ["--layers"])


def raised(*arguments: str) -> BaseException | None:
    return CliRunner().invoke(cli.app, list(arguments)).exception


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["compare", "--features", "x", "--seed", "1", "--n-way=5", "--seed=2"], "--seed"),
        (["episodes", "glyphs", "file", "--n-shot", "1", "--n-shot", "5"], "--n-shot"),
        (["evaluate", "x", "--layers", "0", "--data", "a", "--data", "b"], "--data"),
        (["train", "--out", "a", "--alpha", "1", "--out", "b"], "--out"),
        (["label", "photos", "--reject", "0.9", "--reject", "0.1"], "--reject"),
        (["data", "prepare", "folder", "--from", "a", "--from", "b"], "--from"),
        (["reproduce", "cifar-fs", "--scale", "1", "--scale", "0.1"], "--scale"),
    ],
)
def test_an_option_of_one_value_is_not_given_twice(arguments, option):
    assert str(raised(*arguments)) == f"{option} is given twice; it takes one value"


def test_every_command_refuses_an_option_that_is_given_twice():
    commands = [*cli.app.registered_commands, *cli.cli_data.app.registered_commands]
    assert all(issubclass(command.cls, Command) for command in commands)


def test_methods_are_joined_by_commas_or_given_one_by_one():
    wrong = raised("compare", "--features", "x", "--methods", "remp", "--methods", "pt-map,tpn")
    assert "method 'tpn' has to be trained" in str(wrong)
    wrong = raised("compare", "--features", "x", "--methods", "tpn", "--methods", "remp")
    assert "method 'tpn' has to be trained" in str(wrong)


def test_evaluate_finds_the_checkpoint_behind_a_flag():
    missing = raised("evaluate", "--layers", "0", "none.safetensors", "--n-shot", "5")
    assert isinstance(missing, CheckpointError)
    assert "there is no checkpoint 'none.safetensors'" in str(missing)


def test_evaluate_without_a_checkpoint_asks_for_one():
    assert isinstance(asked := raised("evaluate", "--layers", "0"), RempError)
    assert "no checkpoint was given" in str(asked)


def test_train_finds_its_file_behind_a_flag(prepared, tiny, tmp_path):
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(tiny()))
    assert raised("train", "--seed", "3", str(tmp_path / "tiny.yaml"), "--out", str(tmp_path / "run")) is None
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["seed"] == 3
