"""How the learning rate falls in the course of a run."""

import math

from remp.config import RunConfig


def learning_rate(config: RunConfig, done: int) -> float:
    """The learning rate of the step after `done` episodes."""
    if config.schedule_of_rate == "cosine":
        return config.learning_rate * 0.5 * (1 + math.cos(math.pi * done / config.episodes))
    return config.learning_rate * 0.1 ** sum(done >= milestone for milestone in config.milestones)
