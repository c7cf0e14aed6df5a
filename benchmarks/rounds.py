"""The time of a piece of work on a machine that is not always quiet."""

import time
from collections.abc import Callable

import numpy as np

SECONDS = 10.0


def timed(work: Callable[..., np.ndarray], *arguments: object) -> tuple[np.ndarray, float]:
    """The answer, and the seconds of the fastest round; rounds go on until ten seconds have passed."""
    rounds: list[float] = []
    while sum(rounds) < SECONDS:
        started = time.perf_counter()
        answer = work(*arguments)
        rounds.append(time.perf_counter() - started)
    return answer, min(rounds)
