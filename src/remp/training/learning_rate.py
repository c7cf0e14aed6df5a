"""How the learning rate rises and falls in the course of a run."""

import math

from remp.config import RunConfig


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
