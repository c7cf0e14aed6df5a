"""The command line: thin, and one line for what the user can mend."""

import json
import os
import re
import subprocess
import sys

import pytest
import yaml
from typer.testing import CliRunner

from remp import cli, open_data
from remp.cli.doctor import NEEDED
from remp.errors import RempError
from remp.version import __version__


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def call(*arguments):
    """What the command prints; errors that the user can mend are raised."""
    result = CliRunner().invoke(cli.app, [str(a) for a in arguments])
    if isinstance(result.exception, RempError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def fails(capsys, monkeypatch, *arguments):
    """The exit code and the one line of an error."""
    monkeypatch.setattr(sys, "argv", ["remp", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return stopped.value.code, capsys.readouterr().err


@pytest.fixture
def run(prepared, tiny, tmp_path):
    """The folder of a run trained by the command."""
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(tiny()))
    call("train", tmp_path / "tiny.yaml", "--out", tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["evaluate", "--help"], ["episodes", "--help"]])
def test_help_is_there(arguments):
    assert "Usage" in call(*arguments)


def test_the_version_is_printed():
    assert call("--version") == f"remp {__version__}\n"


def test_the_module_is_the_command():
    finished = subprocess.run([sys.executable, "-m", "remp", "--version"], capture_output=True, text=True)
    assert (finished.returncode, finished.stdout) == (0, f"remp {__version__}\n")


def test_train_takes_settings_from_the_file_and_from_flags(prepared, tiny, tmp_path):
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(tiny()))
    printed = call("train", "tiny.yaml", "--alpha", "0.7", "--n-way=4", "--budget", "6", "--flip", "false")
    folder = tmp_path / "runs" / "toy-remp-1shot"
    saved = yaml.safe_load((folder / "config.yaml").read_text())
    assert {"alpha": 0.7, "n_way": 4, "episodes": 6, "flip": False, "milestones": [3, 4]}.items() <= saved.items()
    assert (folder / "config.yaml").read_text() in printed
    assert "weights to use: runs/toy-remp-1shot/best.safetensors" in printed


def test_evaluate_prints_the_card_and_saves_every_accuracy(run, tmp_path):
    printed = call("evaluate", run, "--n-way", 4, "--n-query", 6, "--n-episodes", 9, "--seed", 2, "--out", "r.json")
    saved = json.loads((tmp_path / "r.json").read_text())
    assert "n = 9 episodes" in printed
    assert "4-way, 1-shot, 6 queries per class (balanced)" in printed
    assert f"seed 2, hash {saved['episode_hash'][:16]}" in printed
    assert (len(saved["accuracies"]), saved["split"], saved["checkpoint"]) == (9, "test", "best.safetensors")


def test_evaluate_takes_distributions_shots_transforms_and_settings_of_the_method(run, tmp_path):
    options = ["--distribution", "dirichlet:2", "--n-shot", "1,2,3", "--transform", "all", "--layers", "2"]
    printed = call("evaluate", run, "--n-way", 3, "--n-query", 4, "--n-episodes", 3, *options, "--out", "r.json")
    saved = json.loads((tmp_path / "r.json").read_text())
    assert (saved["distribution"], saved["n_shot"], saved["settings"]["layers"]) == ("dirichlet:2", [1, 2, 3], 2)
    assert "transductive; transform: mirror+zoom+power+l2+centre" in printed


def test_an_episode_file_gives_the_same_numbers_as_its_seed(run, tmp_path):
    options = ["--n-way", 3, "--n-query", 4, "--n-episodes", 5, "--seed", 7]
    printed = call("episodes", "toy", "five.episodes", *options)
    call("evaluate", run, *options, "--out", "drawn.json")
    call("evaluate", run, "--episodes", "five.episodes", "--out", "read.json")
    first, second = (json.loads((tmp_path / name).read_text()) for name in ("drawn.json", "read.json"))
    assert first == second
    assert first["episode_hash"] in printed


def test_an_episode_file_takes_no_other_settings_of_episodes(run, capsys, monkeypatch):
    call("episodes", "toy", "five.episodes", "--n-way", 3, "--n-query", 4, "--n-episodes", 5)
    asked = ("evaluate", run, "--episodes", "five.episodes", "--n-shot", 5, "--n-episodes", 9)
    code, message = fails(capsys, monkeypatch, *asked)
    assert code == 1
    assert "--episodes five.episodes says which episodes to score: leave out --n-shot, --n-episodes" in message


def test_resume_continues_and_takes_nothing_else(run, capsys, monkeypatch):
    assert "weights to use" in call("train", "--resume", run)
    code, message = fails(capsys, monkeypatch, "train", "--resume", run, "--alpha", "1")
    assert (code, message.count("\n")) == (1, 1)
    assert "give nothing else with it" in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--data", "toy", "--learning-rte", "1"], "did you mean 'learning_rate'"),
        (["train", "--data", "nothing"], "there is no data set 'nothing'"),
        (["train", "none.yaml"], "there is no configuration file none.yaml"),
        (["train", "--data", "toy", "--n-way", "1"], "n_way: got 1; needed 2 or more"),
        (
            ["train", "--data", "toy", "--milestones", "5,10"],
            "milestones: got '5,10'; needed a list, as in [1, 2]",
        ),
        (["train"], "data is needed: --data VALUE"),
        (["train", "--resume", "nowhere"], "is not the folder of a run"),
        (["evaluate", "nothing"], "there is no checkpoint 'nothing'"),
        (["episodes", "toy", "e", "--n-shot", "x"], "--n-shot is 'x'; give a number"),
        (["episodes", "toy", "e", "--n-way", "9"], "lower n_way to 5"),
        (["episodes", "toy", "e", "--n-query", "20"], "class 'test-0' has 12 examples; 1 shots + 20 queries need 21"),
        (["episodes", "toy", "e", "--distribution", "odd"], "give 'balanced' or 'dirichlet:A'"),
        (["episodes", "toy", "e", "--split", "dev"], "has no split 'dev'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_error_is_one_line_and_exit_code_1(prepared, capsys, monkeypatch, arguments, message):
    code, printed = fails(capsys, monkeypatch, *arguments)
    assert code == 1
    assert printed.startswith("remp: ")
    assert message in printed
    assert printed.count("\n") == 1


def test_shots_of_evaluation_given_as_a_setting_of_training_are_refused(run, capsys, monkeypatch):
    code, printed = fails(capsys, monkeypatch, "evaluate", run, "--n_shot", "5")
    assert code == 1
    assert "'n_shot' is fixed by training" in printed


def test_another_method_than_the_trained_one_is_for_compare(run, capsys, monkeypatch):
    code, printed = fails(capsys, monkeypatch, "evaluate", run, "--method", "protonet")
    assert code == 1
    assert f"remp compare --features {run} --methods protonet" in printed


def test_classes_that_were_trained_on_are_told(run):
    few = ("--n-way", 3, "--n-query", 4, "--n-episodes", 3)
    assert "NOT A FEW-SHOT" not in call("evaluate", run, *few)
    warning = "NOT A FEW-SHOT ACCURACY: {} classes of toy / train have names of classes that the network was trained on"
    seen = len(open_data("toy", "train").class_names)
    assert warning.format(seen) in call("evaluate", run, *few, "--split", "train")
    assert warning.format(seen) in call("compare", "--features", run, "--methods", "protonet", *few, "--split", "train")


def test_a_folder_that_cannot_be_written_is_one_line(prepared, tiny, tmp_path, capsys, monkeypatch):
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(tiny()))
    (tmp_path / "file").write_text("")
    code, printed = fails(capsys, monkeypatch, "train", "tiny.yaml", "--out", "file/run")
    assert code == 1
    assert printed.startswith("remp: ")
    assert "Traceback" not in printed


@pytest.mark.parametrize("command", [["--help"], ["train", "--help"], ["label", "--help"]])
def test_help_is_shown_on_a_terminal_that_knows_ascii_only(command):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    done = subprocess.run([sys.executable, "-m", "remp", *command], capture_output=True, env=environment, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage" in done.stdout


def test_names_in_a_message_do_not_reach_the_terminal_as_commands(capsys, monkeypatch, tmp_path):
    code, message = fails(capsys, monkeypatch, "data", "prepare", "folder", "--from", tmp_path / "a\x1b[2Jb")
    assert code == 1
    assert r"a\x1b[2Jb does not exist" in message


def test_a_reader_that_has_seen_enough_ends_the_command_quietly():
    ended = os.pipe()
    os.close(ended[0])  # as after `head` has gone
    with os.fdopen(ended[1], "wb") as nobody:
        done = subprocess.run(
            [sys.executable, "-m", "remp", "data", "list"], stdout=nobody, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_doctor_names_versions_and_the_command_for_what_is_missing(monkeypatch):
    from importlib.metadata import PackageNotFoundError, version

    def without_ray(name):
        if name == "ray":
            raise PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr("remp.cli.doctor.version", without_ray)
    printed = call("doctor")
    assert f"remp {__version__}" in printed
    assert version("torch") in printed
    assert "ray" in printed
    assert "not installed: --engine ray. Install it with pip install 'ray[data]'" in printed


def test_the_doctor_looks_for_all_that_is_needed():
    from importlib.metadata import requires

    needed = {re.split(r"[\[<>=;]", entry)[0].lower() for entry in requires("remp") if "extra ==" not in entry}
    assert set(NEEDED) == needed
