"""Speed and accuracy against easyfsl on the same features, the same tasks, with the same number of iterations.

    python benchmarks/easyfsl_peer.py [--tasks 1000] [--methods protonet,tim] [--environment FOLDER]

5-way 1-shot, 15 queries per class, 640-d features made up around class centres. easyfsl comes from PyPI into an
environment of its own, made in a temporary folder, or kept in --environment. Both sides run at the settings of easyfsl:
20 steps of LaplacianShot, 50 of TIM, 10 of PT-MAP with a tolerance of 1e-6 in Sinkhorn. The plan of a step of PT-MAP is
found by up to 1,000 sweeps there, by sweeps and steps of Newton here. easyfsl works on one task at a time, with as many
threads as make it fastest. On both sides the fastest round of ten seconds counts, of at least one.

The algorithm is the same in ProtoNet and in "pt-map-prepared", where features were power transformed and normalised
before. Elsewhere the two libraries read the papers differently: in LaplacianShot the weights that complete prototypes
and whether queries are shifted, in TIM cosine or Euclid. In PT-MAP, easyfsl does not normalise after the power, which
makes squared distances some 20 times as large; ours are multiplied by the mean of that factor.
"""

import argparse
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import numpy as np
import torch
from frozen_methods import made_up_features
from rounds import timed
from torch import Tensor

from remp.episodes import Episodes, EpisodeSampler, Protocol
from remp.evaluation.evaluate import score_episodes
from remp.evaluation.statistics import paired_difference
from remp.methods import METHODS, Method
from remp.rectification.similarity import unit

PACKAGES = ("easyfsl==1.5.0", "torch==2.13.0")
TIM = {"cross_entropy": 1.0, "marginal": 1.0, "conditional": 0.1, "temperature": 10.0, "step_size": 1e-4}
OURS = {
    "protonet": ("protonet", {}),
    "laplacian-shot": ("laplacian-shot", {"steps": 20, "knn": 3, "laplacian_weight": 0.7}),
    "tim": ("tim-gd", {"steps": 50, **TIM}),
    "pt-map": ("pt-map", {"steps": 10, "centre": False}),
    "pt-map-prepared": ("pt-map", {"steps": 10, "centre": False, "exponent": 1.0}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--methods", default=",".join(OURS), help="which of: " + ", ".join(OURS))
    parser.add_argument("--environment", type=Path, help="where the environment of easyfsl is, or is to be kept")
    arguments = parser.parse_args()
    names = arguments.methods.split(",")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = make_environment(arguments.environment or folder / "environment")
        features, labels = made_up_features()
        prepared = unit((features + 1e-6).sqrt())
        episodes = EpisodeSampler(labels, Protocol(5, 1, 15)).sample(arguments.tasks)
        save_tasks(folder, features, prepared, episodes)
        subprocess.run([python, Path(__file__).with_name("easyfsl_side.py"), folder, *names], check=True)
        peer = dict(np.load(folder / "peer.npz"))
    print(f"{arguments.tasks} tasks, 5-way 1-shot 15 queries, {features.shape[1]}-d, {torch.get_num_threads()} threads")
    print(
        f"{'ms per task, %':<18}{'easyfsl':>10}{'remp':>10}{'ratio':>8}{'easyfsl':>9}{'remp':>8}   difference, points"
    )
    for name in names:
        method, settings = OURS[name]
        chosen = prepared if name.endswith("prepared") else features
        if name == "pt-map":
            settings = {**settings, "sharpness": 10 * float(unit(features).sum(1).mean())}
        print(line(name, METHODS[method](**settings), chosen, episodes, peer), flush=True)


def make_environment(folder: Path) -> Path:
    """An environment with easyfsl; returns its Python."""
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not python.exists():
        venv.create(folder, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)  # no work if they are there
    return python


def save_tasks(folder: Path, features: Tensor, prepared: Tensor, episodes: Episodes) -> None:
    names = ("support", "support_labels", "query", "query_labels")
    ids = {name: getattr(episodes, name).numpy() for name in names}
    np.savez(folder / "tasks.npz", features=features.numpy(), prepared=prepared.numpy(), **ids)


def line(name: str, method: Method, features: Tensor, episodes: Episodes, peer: dict[str, np.ndarray]) -> str:
    """Time our side and set it beside the other's."""
    score_episodes(method, episodes[:2], features)  # imports and first allocations are not counted
    ours, seconds = timed(score_episodes, method, episodes, features)
    theirs, their_seconds = peer[f"accuracies/{name}"], float(peer[f"seconds/{name}"])
    difference = paired_difference(ours, theirs)
    factor = 1000 / len(ours)
    times = f"{factor * their_seconds:>10.2f}{factor * seconds:>10.3f}{their_seconds / seconds:>8.0f}"
    shares = f"{100 * theirs.mean():>9.1f}{100 * ours.mean():>8.1f}"
    return f"{name:<18}{times}{shares}   {100 * difference.mean:+.2f} ± {100 * difference.half_width:.2f}"


if __name__ == "__main__":
    main()
