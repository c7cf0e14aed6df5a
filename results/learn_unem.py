"""Learn the numbers of UNEM on validation classes, and print them.

    python results/learn_unem.py cifar-fs-convnet64-1shot [--classes even] [--steps 600]

Embeds the validation images once. A step of Adam sees 25 tasks of 5 classes, in turn with 1 and 5 labelled images and
with queries that are balanced or in Dirichlet proportions (0.5, 1, 2, 5); what is made small is the mean probability of
wrong answers. --classes even or odd learns on every second class and prints the accuracies on the others, too. The test
split is not opened.
"""

import argparse
from collections.abc import Iterator
from itertools import product

import numpy as np
import torch
from torch import Tensor

from remp.datasets import open_data
from remp.episodes import Episodes, EpisodeSampler, Protocol
from remp.evaluation.evaluate import embed
from remp.evaluation.statistics import mean_interval
from remp.methods import METHODS
from remp.methods.base import Method
from remp.methods.unem import UNEM
from remp.models import load
from remp.rectification.transform import FeatureTransform

LAYERS, FIRST_SCALE, FIRST_PENALTY, TASKS, RATE = 10, 50.0, 1.0, 25, 0.1
PROTOCOLS = [
    Protocol(5, n_shot, 15, distribution)
    for n_shot, distribution in product(
        (1, 5), ("dirichlet:0.5", "dirichlet:1", "dirichlet:2", "dirichlet:5", "balanced")
    )
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint")
    parser.add_argument("--classes", choices=("all", "even", "odd"), default="all")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--n-episodes", type=int, default=250, help="of each protocol, for --classes even or odd")
    parser.add_argument("--methods", nargs="*", default=["unem", "paddle"])
    arguments = parser.parse_args()
    trained = load(arguments.checkpoint)
    images = open_data(trained.config.data, "val")
    features = embed(trained.method, images.images, trained.normalisation, FeatureTransform.parse("none"))
    parity = images.labels % 2
    own = {"all": parity >= 0, "even": parity == 0, "odd": parity == 1}[arguments.classes]
    method = learn(features, images.labels, own, arguments.steps)
    for name, values in (("scales", method.log_scales), ("penalties", method.log_penalties)):
        print(name, ", ".join(f"{value:.3g}" for value in values.exp().tolist()))
    if arguments.classes != "all":
        methods = {name: method if name == "unem" else METHODS[name]() for name in arguments.methods}
        for protocol in PROTOCOLS:
            episodes = next(draw(features, images.labels, ~own, protocol, arguments.n_episodes, seed=11))
            print(protocol, {name: str(accuracy(one, episodes)) for name, one in methods.items()}, flush=True)


def learn(features: Tensor, labels: np.ndarray, own: np.ndarray, steps: int) -> UNEM:
    """own: (n,) which images to learn from."""
    method = UNEM()
    method.log_scales = torch.nn.Parameter(torch.full((LAYERS,), FIRST_SCALE).log())
    method.log_penalties = torch.nn.Parameter(torch.full((LAYERS,), FIRST_PENALTY).log())
    optimizer = torch.optim.Adam(method.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    drawn = [draw(features, labels, own, protocol, TASKS, seed=1000) for protocol in PROTOCOLS]
    for step in range(steps):
        episodes = next(drawn[step % len(drawn)])
        assert episodes.query_labels is not None
        right = method.logits(episodes).exp().gather(-1, episodes.query_labels.unsqueeze(-1))
        optimizer.zero_grad()
        (1 - right).mean().backward()
        optimizer.step()
        schedule.step()
    return method


def draw(
    features: Tensor, labels: np.ndarray, own: np.ndarray, protocol: Protocol, n: int, *, seed: int
) -> Iterator[Episodes]:
    """Episodes of features, n at a time, of the images that are `own`."""
    rows = torch.from_numpy(np.flatnonzero(own))
    sampler = EpisodeSampler(np.unique(labels[own], return_inverse=True)[1], protocol, seed=seed)
    while True:
        yield sampler.sample(n).gather(features[rows])


@torch.no_grad()
def accuracy(method: Method, episodes: Episodes) -> str:
    hits = (method.logits(episodes).argmax(-1) == episodes.query_labels).float().mean(1)
    found = mean_interval(hits.numpy().astype(np.float64))
    return f"{100 * found.mean:.2f} ± {100 * found.half_width:.2f}"


if __name__ == "__main__":
    main()
