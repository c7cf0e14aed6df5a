"""How long a run is, and how its learning rate rises and falls."""

import math
import re
from collections.abc import Callable

from remp.config import RunConfig
from remp.errors import ConfigError

SHARE_FOR_STEPS = 0.9  # the rest is for validation and checkpoints


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

    budget: "20000" or 20000 episodes, or minutes as "30min". Minutes are turned into episodes once, by measuring, and
    the resolved config holds the number: it repeats the run.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(min|m|minutes?|episodes?)?\s*", str(budget))
    if not match or float(match[1]) <= 0:
        raise ConfigError(f"budget is {budget!r}; give minutes, e.g. 30min, or episodes, e.g. 20000")
    amount, unit = float(match[1]), match[2] or "episodes"
    if unit.startswith("episode"):
        return config.with_episodes(max(1, int(amount)))
    return config.with_episodes(max(1, int(amount * 60 * SHARE_FOR_STEPS / seconds_per_episode())))
