"""A budget in minutes or episodes instead of the full length of a run."""

import re
from collections.abc import Callable

from remp.config import RunConfig
from remp.errors import ConfigError

SHARE_FOR_STEPS = 0.9  # the rest is for validation and checkpoints


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
