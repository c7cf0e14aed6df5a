"""Time and memory to score 10,000 episodes on cached features.

    python benchmarks/scoring.py [--episodes 10000] [--dim 256] [--layers 10]

5-way 1-shot with 15 queries per class, ReMP with ten layers of rectification. Features are random numbers around class
centres, since time does not depend on them. Prints the seconds for drawing and for scoring the episodes, and by how
much the peak memory of the process grew.
"""

import argparse
import resource
import time

import numpy as np
import torch

from remp.episodes import EpisodeSampler, Protocol
from remp.evaluation.evaluate import score_episodes
from remp.methods import METHODS


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--layers", type=int, default=10)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    labels = np.repeat(np.arange(20), 600)
    centres = torch.randn(20, arguments.dim)
    features = (centres[torch.from_numpy(labels)] + 3 * torch.randn(len(labels), arguments.dim)).relu()
    method = METHODS["remp"](layers=arguments.layers)
    before, started = peak_mib(), time.perf_counter()
    episodes = EpisodeSampler(labels, Protocol(5, 1, 15)).sample(arguments.episodes)
    drawn = time.perf_counter()
    accuracy = score_episodes(method, episodes, features)
    scored = time.perf_counter()
    print(f"{arguments.episodes} episodes, 5-way 1-shot 15 queries, {arguments.dim}-d, {arguments.layers} layers")
    print(f"drawing {drawn - started:.2f} s   scoring {scored - drawn:.2f} s   accuracy {100 * accuracy.mean():.1f} %")
    print(f"peak memory {before:.0f} MiB before, {peak_mib():.0f} MiB after: {peak_mib() - before:.0f} MiB more")


if __name__ == "__main__":
    main()
