"""How long a run is, and how its learning rate rises and falls."""

import math
import re
from collections.abc import Callable

from remp.config import RunConfig
from remp.errors import ConfigError

SHARE_FOR_STEPS = 0.9  # the rest is for validation and checkpoints
_MOST = 1e12  # episodes or seconds
_UNITS = {"h": 3600, "m": 60, "s": 1}  # by their first letter
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(h|hours?|min|m|minutes?|s|sec|seconds?)(?![a-z])\s*")


def learning_rate(config: RunConfig, done: int) -> float:
    """The learning rate of the step after `done` episodes.

    It rises in a straight line for `warmup` episodes, beside the fall of the schedule: a first step at full rate
    inflates the weights before a batch norm, which shrinks all later steps.
    """
    rise = min(1.0, (done + 1) / (config.warmup + 1))
    if config.schedule_of_rate == "cosine":
        return config.learning_rate * rise * 0.5 * (1 + math.cos(math.pi * done / config.episodes))
    factors = config.milestone_factors or (0.1,) * len(config.milestones)
    passed = [f for milestone, f in zip(config.milestones, factors, strict=True) if done >= milestone]
    return config.learning_rate * rise * math.prod(passed)


def with_budget(config: RunConfig, budget: str | int, seconds_per_episode: Callable[[], float]) -> RunConfig:
    """The config with as many episodes as the budget allows, and milestones in proportion.

    budget: "20000" or 20000 episodes, or a time: "1h", "30min", "300s", "1h 30min". A time is turned into episodes
    once, by measuring, and the resolved config holds the number: it repeats the run.
    """
    text = str(budget).strip()
    episodes, seconds = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(episodes?)?", text), _seconds(text)
    amount = float(episodes[1]) if episodes else seconds
    if not 0 < amount < _MOST:
        raise ConfigError(f"budget is {budget!r}; give a time, e.g. 1h, 30min or 300s, or episodes, e.g. 20000")
    if episodes:
        return config.with_episodes(max(1, int(amount)))
    return config.with_episodes(max(1, int(seconds * SHARE_FOR_STEPS / seconds_per_episode())))


def _seconds(text: str) -> float:
    """The seconds of "1h 30min"; 0 for what is no time."""
    parts = _TIME.findall(text)
    if _TIME.sub("", text):
        return 0.0
    return sum(float(amount) * _UNITS[unit[0]] for amount, unit in parts)
