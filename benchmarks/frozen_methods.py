"""Time and memory of every classifier on frozen features, for 10,000 tasks.

    python benchmarks/frozen_methods.py [--tasks 10000] [--methods pt-map,tim-gd]

5-way 1-shot with 15 queries per class on 640-d features, made up around class centres and non-negative as after a ReLU.
Settings are the defaults. Each method is scored in a process of its own, so that the peak memory printed is its own:
that of the whole process, with features, episodes and torch.
"""

import argparse
import resource
import subprocess
import sys
import time

import numpy as np
import torch
from torch import Tensor

from remp.episodes import EpisodeSampler, Protocol
from remp.evaluation.compare import chosen_methods
from remp.evaluation.evaluate import score_episodes
from remp.methods import METHODS

DIM, N_CLASSES, PER_CLASS = 640, 20, 600


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--methods", default="all")
    parser.add_argument("--only", help="score this one method in this process")
    arguments = parser.parse_args()
    if arguments.only:
        return score(arguments.only, arguments.tasks)
    print(f"{arguments.tasks} tasks, 5-way 1-shot 15 queries, {DIM}-d, {torch.get_num_threads()} threads")
    print(f"{'method':<18}{'seconds':>9}{'ms per task':>13}{'peak MiB':>10}{'accuracy %':>12}", flush=True)
    for name in chosen_methods(arguments.methods, "protonet"):
        subprocess.run([sys.executable, __file__, "--tasks", str(arguments.tasks), "--only", name], check=True)


def score(name: str, tasks: int) -> None:
    """Score one method and print its line."""
    features, labels = made_up_features()
    episodes = EpisodeSampler(labels, Protocol(5, 1, 15)).sample(tasks)
    method = METHODS[name]()
    method.base_mean = features.mean(0)
    score_episodes(method, episodes[:2], features)  # imports and first allocations are not counted
    started = time.perf_counter()
    accuracies = score_episodes(method, episodes, features)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name:<18}{seconds:>9.1f}{1000 * seconds / tasks:>13.2f}{peak:>10.0f}{100 * accuracies.mean():>12.1f}")


def made_up_features() -> tuple[Tensor, np.ndarray]:
    """Features (n, dim) and labels (n,) of 20 overlapping classes, mostly positive as means over a map after a ReLU."""
    generator = torch.Generator().manual_seed(0)
    labels = np.repeat(np.arange(N_CLASSES), PER_CLASS)
    centres = torch.randn(N_CLASSES, DIM, generator=generator)
    noise = torch.randn(len(labels), DIM, generator=generator)
    return (6 + centres[torch.from_numpy(labels)] + 4 * noise).relu(), labels


if __name__ == "__main__":
    main()
