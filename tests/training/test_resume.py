"""Interrupt a run any way: the newest good checkpoint is intact, and resuming leads to the very same weights."""

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from remp.checkpoint import read_checkpoint, write_checkpoint
from remp.errors import CheckpointError, Interrupted, TrainingError
from remp.system import files
from remp.training import resume
from remp.training.trainer import Trainer, watch_interruptions

VARIANTS = {
    "plain": {},
    "averaged, in two phases": {"schedule": "global-then-local", "average": 0.9},
    "nesterov, cosine, three per step": {"nesterov": True, "schedule_of_rate": "cosine", "episodes_per_step": 3},
    "no momentum": {"momentum": 0.0, "method": "protonet"},
    "adam, clipped": {"optimiser": "adam", "learning_rate": 0.001, "clip": 0.5},
    "first episodes of another shape": {"first_share": 0.5, "first_way": 6, "first_query": 1, "warmup": 4},
}
DROPOUT = {
    "backbone": "resnet12",
    "width": None,
    "readout": "average",
    "episodes": 3,
    "n_way": 2,
    "n_query": 1,
    "validate_every": 3,
    "validation_episodes": 2,
}


def stop_after(monkeypatch, n_steps, number=signal.SIGTERM):
    """Have the process signalled in the middle of step `n_steps`."""
    genuine, steps = Trainer._gradients, []

    def signalled(self, *arguments):
        steps.append(1)
        if len(steps) == n_steps:
            os.kill(os.getpid(), number)
        return genuine(self, *arguments)

    monkeypatch.setattr(Trainer, "_gradients", signalled)


def check_resumed_equals_whole(train_tiny, resume_tiny, same_tensors, monkeypatch, n_steps, changes):
    whole = train_tiny("whole", **changes)
    with monkeypatch.context() as context:
        stop_after(context, n_steps)
        with pytest.raises(Interrupted, match="all is saved"):
            train_tiny("cut", **changes)
    cut = resume_tiny(whole.with_name("cut"))
    assert same_tensors(cut / "last.safetensors", whole / "last.safetensors")
    assert same_tensors(cut / "best.safetensors", whole / "best.safetensors")


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_a_resumed_run_gives_the_weights_of_one_never_interrupted(
    train_tiny, resume_tiny, same_tensors, monkeypatch, changes
):
    check_resumed_equals_whole(train_tiny, resume_tiny, same_tensors, monkeypatch, 2, changes)


@pytest.mark.parametrize("variant", ["dfmn", pytest.param("metaopt", marks=pytest.mark.slow)])
def test_dropout_goes_on_where_it_stopped(train_tiny, resume_tiny, same_tensors, monkeypatch, variant):
    changes = {**DROPOUT, "variant": variant, "dropout": 0.5}
    check_resumed_equals_whole(train_tiny, resume_tiny, same_tensors, monkeypatch, 2, changes)


def test_an_interrupted_run_can_be_interrupted_again(train_tiny, resume_tiny, same_tensors, monkeypatch, tmp_path):
    whole = train_tiny("whole", average=0.9)
    for n_steps in (2, 1, 4):
        with monkeypatch.context() as context:
            stop_after(context, n_steps)
            with pytest.raises(Interrupted):
                resume_tiny(tmp_path / "cut") if (tmp_path / "cut").exists() else train_tiny("cut", average=0.9)
    assert same_tensors(resume_tiny(tmp_path / "cut") / "last.safetensors", whole / "last.safetensors")


def test_the_interruption_says_how_far_it_came_and_how_to_go_on(train_tiny, monkeypatch, tmp_path):
    stop_after(monkeypatch, 5)
    with pytest.raises(Interrupted, match=rf"after 5 of 12 episodes.*remp train --resume {tmp_path / 'run'}"):
        train_tiny()
    assert read_checkpoint(tmp_path / "run" / "last.safetensors")[1]["done"] == 5


def test_resuming_a_complete_run_changes_nothing(train_tiny, resume_tiny):
    folder = train_tiny()
    before = (folder / "last.safetensors").read_bytes()
    resume_tiny(folder)
    assert (folder / "last.safetensors").read_bytes() == before


def test_what_a_killed_write_left_is_gone_after_resuming(train_tiny, resume_tiny):
    folder = train_tiny()
    (folder / ".last.safetensors.0a1b2c3d.partial").write_bytes(b"half of it")
    resume_tiny(folder)
    assert not list(folder.glob(".*"))


def test_a_run_killed_before_its_first_checkpoint_starts_over(train_tiny, resume_tiny, same_tensors, tmp_path):
    whole = train_tiny("whole")
    (tmp_path / "cut").mkdir()
    shutil.copy(whole / "config.yaml", tmp_path / "cut")
    assert same_tensors(resume_tiny(tmp_path / "cut") / "last.safetensors", whole / "last.safetensors")


def test_a_resumed_run_no_longer_needs_the_weights_it_started_from(train_tiny, resume_tiny, monkeypatch, tmp_path):
    first = train_tiny("first") / "best.safetensors"
    with monkeypatch.context() as context:
        stop_after(context, 2)
        with pytest.raises(Interrupted):
            train_tiny("second", start_from=str(first))
    first.unlink()
    assert (resume_tiny(tmp_path / "second") / "best.safetensors").is_file()


class Killed(BaseException):
    """Stands for kill -9: nothing is tidied up."""


@pytest.mark.parametrize("moment", ["fsync", "replace"])
@pytest.mark.parametrize("nth", [1, 5])
def test_a_kill_in_the_middle_of_a_save_leaves_the_checkpoint_before_it(
    train_tiny, resume_tiny, same_tensors, monkeypatch, tmp_path, moment, nth
):
    whole = train_tiny("whole")
    with monkeypatch.context() as context:
        kill_at(context, moment, nth + 1)  # the first write is that of the settings
        with pytest.raises(Killed):
            train_tiny("cut")
    cut = tmp_path / "cut"
    if (cut / "last.safetensors").exists():
        assert read_checkpoint(cut / "last.safetensors")[1]["done"] in (3, 6, 9)
    assert same_tensors(resume_tiny(cut) / "last.safetensors", whole / "last.safetensors")
    assert same_tensors(cut / "best.safetensors", whole / "best.safetensors")


def kill_at(monkeypatch, moment, nth):
    genuine, calls = getattr(os, moment), []

    def killed(*arguments):
        calls.append(1)
        if len(calls) == nth:
            raise Killed
        return genuine(*arguments)

    monkeypatch.setattr(files.os, moment, killed)
    monkeypatch.setattr(Path, "unlink", lambda self, missing_ok=False: None)


def test_a_full_disk_is_told_and_the_checkpoint_before_stays(
    train_tiny, resume_tiny, same_tensors, monkeypatch, tmp_path
):
    whole = train_tiny("whole")
    calls = []

    def full(handle):
        calls.append(handle)
        if len(calls) >= 4:  # settings, last at 3, best at 4, last at 6
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as context:
        context.setattr(files.os, "fsync", full)
        with pytest.raises(TrainingError, match=r"after 6 episodes.*No space.*intact"):
            train_tiny("cut")
    cut = tmp_path / "cut"
    assert not list(cut.glob(".*"))
    assert read_checkpoint(cut / "last.safetensors")[1]["done"] == 3
    assert same_tensors(resume_tiny(cut) / "last.safetensors", whole / "last.safetensors")


def test_a_full_disk_at_the_first_best_weights_names_the_checkpoint_that_is_there(train_tiny, monkeypatch):
    calls = []

    def full(handle):
        calls.append(handle)
        if len(calls) == 3:  # settings, last at 3, best at 4
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(
        TrainingError, match=r"after 4 episodes.*No space.*the one before is intact: .*last\.safetensors"
    ):
        train_tiny("cut")


def test_changed_settings_are_not_resumed(train_tiny, resume_tiny):
    folder = train_tiny()
    settings = yaml.safe_load((folder / "config.yaml").read_text())
    (folder / "config.yaml").write_text(yaml.safe_dump({**settings, "learning_rate": 0.5}))
    with pytest.raises(TrainingError, match="was changed after the run began, in learning_rate"):
        resume_tiny(folder)


def test_other_images_are_not_resumed_on(train_tiny, test_images, validation_images):
    folder = train_tiny()
    with pytest.raises(TrainingError, match="trained on other images"):
        resume(folder, train_set=test_images, validation_set=validation_images)


def test_a_folder_without_settings_is_not_resumed(tmp_path):
    with pytest.raises(TrainingError, match=r"is not the folder of a run: it has no config.yaml"):
        resume(tmp_path)


def test_a_checkpoint_that_is_not_one_to_resume_from_is_refused(train_tiny, resume_tiny):
    folder = train_tiny()
    shutil.copy(folder / "best.safetensors", folder / "last.safetensors")
    with pytest.raises(CheckpointError, match="no optimiser"):
        resume_tiny(folder)


def test_a_second_ctrl_c_stops_at_once_but_not_the_echo_of_a_launcher():
    with watch_interruptions() as interruption:
        interruption._request(signal.SIGINT, None)
        interruption._request(signal.SIGINT, None)
        interruption._time -= 1
        interruption._request(signal.SIGTERM, None)
        with pytest.raises(KeyboardInterrupt):
            interruption._request(signal.SIGINT, None)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def command(*arguments):
    return [sys.executable, "-m", "remp", "train", *map(str, arguments)]


def start(folder, tiny, tmp_path, **changes):
    """`remp train` in a process of its own."""
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(tiny(**changes)))
    return subprocess.Popen(
        command(tmp_path / "tiny.yaml", "--out", folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for(path, process, seconds=120):
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_ctrl_c_ends_the_command_with_130_and_a_helpful_line(prepared, tiny, tmp_path, number):
    process = start(tmp_path / "run", tiny, tmp_path, episodes=100_000)
    wait_for(tmp_path / "run" / "last.safetensors", process)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert errors.strip().splitlines()[-1].endswith(f"Continue with: remp train --resume {tmp_path / 'run'}")
    assert "Traceback" not in errors
    assert read_checkpoint(tmp_path / "run" / "last.safetensors")[1]["done"] > 0


@pytest.mark.slow
def test_a_run_killed_at_random_moments_comes_to_the_same_weights(prepared, tiny, tmp_path, same_tensors):
    changes = {"episodes": 120, "checkpoint_every": 1, "validate_every": 1, "average": 0.9}
    assert start(tmp_path / "whole", tiny, tmp_path, **changes).wait(timeout=300) == 0
    process = start(tmp_path / "cut", tiny, tmp_path, **changes)
    wait_for(tmp_path / "cut" / "last.safetensors", process)
    for seed in range(4):
        time.sleep(random.Random(seed).uniform(0.0, 0.3))
        process.kill()
        process.communicate()
        done = read_checkpoint(tmp_path / "cut" / "last.safetensors")[1]["done"]
        process = subprocess.Popen(command("--resume", tmp_path / "cut"), stdout=subprocess.PIPE, text=True)
        while read_checkpoint(tmp_path / "cut" / "last.safetensors")[1]["done"] in (done, done + 1):
            if process.poll() is not None:
                break
            time.sleep(0.01)
    process.communicate(timeout=300)
    assert same_tensors(tmp_path / "cut" / "last.safetensors", tmp_path / "whole" / "last.safetensors")
    assert same_tensors(tmp_path / "cut" / "best.safetensors", tmp_path / "whole" / "best.safetensors")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("done", None),
        ("done", "x"),
        ("done", -5),
        ("best", None),
        ("history", {}),
        ("config", []),
        ("train_fingerprint", 1),
    ],
)
def test_a_damaged_header_is_told(train_tiny, resume_tiny, name, value):
    folder = train_tiny()
    tensors, info = read_checkpoint(folder / "last.safetensors")
    changed = {**info, name: value}
    write_checkpoint(folder / "last.safetensors", tensors, {k: v for k, v in changed.items() if v is not None})
    with pytest.raises(CheckpointError, match=r"not one to resume from|damaged"):
        resume_tiny(folder)
