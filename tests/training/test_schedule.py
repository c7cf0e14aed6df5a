"""Budgets: minutes or episodes instead of the full length, with milestones in proportion."""

import pytest
import yaml

from remp import training
from remp.config import make_config
from remp.errors import ConfigError
from remp.training import train, with_budget
from remp.training import trainer as trainer_module
from remp.training.processes import Processes

FULL = make_config({"data": "toy", "episodes": 75_000, "milestones": [25_000, 50_000]})


def unmeasured():
    raise AssertionError("a budget in episodes needs no measuring")


@pytest.mark.parametrize("budget", ["15000", 15000, "15000 episodes", " 15000episodes "])
def test_a_budget_in_episodes_scales_the_milestones(budget):
    config = with_budget(FULL, budget, unmeasured)
    assert (config.episodes, config.milestones) == (15_000, (5_000, 10_000))


@pytest.mark.parametrize("budget", ["30min", "30 m", "30 minutes", "30.0min", "0.5h", "1800s", "20 min 600 seconds"])
def test_a_budget_in_time_becomes_episodes_by_the_measured_speed(budget):
    # 30 minutes, a tenth kept for validation, at 0.1 s per episode
    config = with_budget(FULL, budget, lambda: 0.1)
    assert (config.episodes, config.milestones) == (16_200, (5_400, 10_800))


def test_a_budget_above_the_full_length_stretches_the_milestones():
    assert with_budget(FULL, 150_000, unmeasured).milestones == (50_000, 100_000)


@pytest.mark.parametrize("budget", ["0.3", "0.0001min", 1])
def test_the_smallest_budget_is_one_episode(budget):
    config = with_budget(FULL, budget, lambda: 60.0)
    assert (config.episodes, config.milestones) == (1, (1,))


@pytest.mark.parametrize("budget", ["soon", "0", "-5", "5d", "", "nan", "1e3", "0h", "1h soon", "5mins"])
def test_a_budget_that_is_none_is_refused(budget):
    with pytest.raises(ConfigError, match=r"give a time, e\.g\. 1h, 30min or 300s, or episodes"):
        with_budget(FULL, budget, unmeasured)


def test_a_time_is_measured_on_the_first_episodes_by_their_share(tiny, train_images, validation_images, monkeypatch):
    """First episodes that take no time, for three quarters of the training: a quarter of the time per episode."""
    clock = 0.0

    def step(trainer, window):
        nonlocal clock
        clock += trainer.done >= 0.75 * trainer.config.episodes

    monkeypatch.setattr(trainer_module.Trainer, "_step", step)
    monkeypatch.setattr(trainer_module.time, "perf_counter", lambda: clock)
    config = make_config(tiny(episodes=10_000, first_share=0.75, first_way=2))
    measured = training._seconds_per_episode(config, train_images, validation_images, Processes())
    assert measured == pytest.approx(0.25)


def test_a_run_with_a_budget_in_minutes_is_repeated_by_its_saved_settings(
    train_tiny, train_images, validation_images, tmp_path, monkeypatch, same_tensors
):
    measured = []

    def as_if_slow(*arguments):
        measured.append(genuine(*arguments))
        return 60 * 0.9 / 10

    genuine = training._seconds_per_episode
    monkeypatch.setattr(training, "_seconds_per_episode", as_if_slow)
    timed = train_tiny("timed", budget="1min")
    settings = yaml.safe_load((timed / "config.yaml").read_text())
    sets = {"train_set": train_images, "validation_set": validation_images}
    train(settings, out=tmp_path / "again", **sets)
    assert (settings["episodes"], settings["milestones"]) == (10, [5, 8])
    assert 0 < measured[0] < 60
    assert same_tensors(timed / "last.safetensors", tmp_path / "again" / "last.safetensors")


@pytest.mark.parametrize("budget", ["9" * 400, "9" * 400 + "h", "1" + "0" * 13])
def test_an_endless_budget_is_refused(tiny, budget):
    with pytest.raises(ConfigError, match="give a time"):
        with_budget(make_config(tiny()), budget, lambda: 1.0)
