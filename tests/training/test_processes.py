"""Two processes with an episode each give the weights and running statistics of one with both."""

import json
import subprocess
import sys
from copy import deepcopy

import pytest
import torch
import yaml
from torch import nn

from remp.checkpoint import read_checkpoint
from remp.config import make_config
from remp.errors import ConfigError
from remp.training import train
from remp.training.processes import Processes, RunningStatistics


def trained_by_two(settings, tmp_path):
    """`torchrun --nproc-per-node 2 -m remp train`; returns the folder and what was printed."""
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(settings))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launcher, "-m", "remp", "train", tmp_path / "tiny.yaml", "--out", tmp_path / "two"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert finished.returncode == 0, finished.stderr
    return tmp_path / "two", finished.stdout


def check_two_equal_one(settings, n_episodes, tmp_path):
    two, printed = trained_by_two(settings, tmp_path)
    train({**settings, "episodes_per_step": n_episodes}, out=tmp_path / "one")
    one, _ = read_checkpoint(tmp_path / "one" / "last.safetensors")
    both, info = read_checkpoint(two / "last.safetensors")
    assert info["config"]["episodes_per_step"] == n_episodes
    assert one.keys() == both.keys()
    for name in one:
        torch.testing.assert_close(both[name], one[name], atol=1e-5, rtol=0, msg=name)
    return two, printed


def test_two_processes_give_the_weights_of_one(prepared, tiny, tmp_path):
    settings = tiny(episodes=6, milestones=[4], validate_every=4, average=0.9)
    two, printed = check_two_equal_one(settings, 2, tmp_path)
    log = [json.loads(line) for line in (two / "log.jsonl").read_text().splitlines()]
    assert [entry["event"] for entry in log] == ["started", "validation", "validation", "without rectification"]
    assert printed.count("data: toy") == printed.count("weights to use") == 1


@pytest.mark.slow
def test_two_processes_with_two_episodes_each_and_two_phases_give_the_weights_of_one(prepared, tiny, tmp_path):
    settings = tiny(schedule="global-then-local", episodes_per_step=4, nesterov=True)
    check_two_equal_one(settings, 4, tmp_path)


@pytest.mark.parametrize("n_own", [1, 3])
def test_merged_running_statistics_are_those_of_all_episodes_in_turn(n_own):
    start = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3), nn.BatchNorm1d(3, momentum=0.3))
    batches = torch.randn(2 * n_own, 8, 4) + torch.arange(2.0 * n_own)[:, None, None]
    in_turn = run(deepcopy(start), batches)
    parts = [deepcopy(start) for _ in range(2)]
    before = [RunningStatistics(part) for part in parts]
    for rank, part in enumerate(parts):
        run(part, batches[rank * n_own : (rank + 1) * n_own])
    merge_as_if_in_two_processes(parts, before, n_own)
    for part in parts:
        for name, buffer in in_turn.named_buffers():
            torch.testing.assert_close(dict(part.named_buffers())[name], buffer)


def test_a_batch_norm_without_momentum_cannot_be_shared():
    with pytest.raises(ConfigError, match="momentum=None, which several processes cannot share"):
        RunningStatistics(nn.Sequential(nn.BatchNorm1d(4, momentum=None)))


def run(network, batches):
    for batch in batches:
        network(batch)
    return network


def merge_as_if_in_two_processes(parts, before, n_own):
    """First hear what each process would send, then let each receive the sums."""
    sent: list[list[torch.Tensor]] = []
    for rank, (part, statistics) in enumerate(zip(parts, before, strict=True)):
        heard: list[torch.Tensor] = []
        after = deepcopy(part.state_dict())
        statistics.merge(n_own, rank=rank, count=2, sum_over_processes=lambda t, to=heard: to.append(t.clone()) or t)
        part.load_state_dict(after)
        sent.append(heard)
    for rank, statistics in enumerate(before):
        sums = iter([first + second for first, second in zip(*sent, strict=True)])
        statistics.merge(n_own, rank=rank, count=2, sum_over_processes=lambda t, sums=sums: next(sums))


def test_an_episode_cannot_be_cut_in_two(tiny):
    processes = Processes()
    processes.count = 2
    with pytest.raises(
        ConfigError, match="3 episodes per step cannot be shared by 2 processes: set --episodes-per-step"
    ):
        processes.share_episodes(make_config(tiny(episodes_per_step=3)))
    assert processes.share_episodes(make_config(tiny())).episodes_per_step == 2


def test_only_the_first_process_talks(monkeypatch, capsys):
    from remp.system.progress import progress

    monkeypatch.setenv("RANK", "1")
    with progress("training", 3) as bar:
        bar.advance()
        bar.say("a line")
    assert capsys.readouterr().out == ""
