"""Means of the loss and the speed of training between two validations."""

import time


class TrainingWindow:
    """Means of the loss terms, and the share of time spent on data, since it was made."""

    def __init__(self) -> None:
        self.started, self.data_seconds, self.steps, self.episodes = time.perf_counter(), 0.0, 0, 0
        self.sums: dict[str, float] = {}

    def add(self, terms: dict[str, float], episodes: int) -> None:
        self.steps += 1
        self.episodes += episodes
        for name, value in terms.items():
            self.sums[name] = self.sums.get(name, 0.0) + value

    def summary(self) -> dict[str, float]:
        seconds = time.perf_counter() - self.started
        means = {f"loss_{name}": round(value / max(self.steps, 1), 5) for name, value in self.sums.items()}
        return {
            **means,
            "episodes_per_second": round(self.episodes / max(seconds, 1e-9), 3),
            "data_share": round(self.data_seconds / max(seconds, 1e-9), 4),
        }
