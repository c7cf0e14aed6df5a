"""Does every trained method learn? 500 episodes of CIFAR-FS, start and end on the same validation episodes.

    python benchmarks/trained_methods.py --out runs/trained [--methods tpn,maml] [--set maml.inner_rate=0.1]

Each method is trained with its settings in configs/, shortened, in a process of its own, so that the peak memory is its
own. Its start is the same network before the first step, with the batch norms' statistics of a few training episodes:
a random network, but a usable one. Done methods are kept in the folder and not trained again. Writes OUT/table.md.
500 episodes show that a method learns, not how far it gets.
"""

import argparse
import json
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from remp.augment import Normalisation
from remp.checkpoint import build_method, load_trained
from remp.config import RunConfig, load_config, parse_overrides
from remp.datasets import open_set
from remp.episodes import Protocol
from remp.evaluation import accuracies, draw_episodes
from remp.methods import Method
from remp.statistics import Estimate, mean_interval, paired_difference
from remp.training import resume, train
from remp.training.episodes import TrainingEpisodes

CONFIGS = Path(__file__).parents[1] / "configs"
SHOTS, SEED, STATISTICS_EPISODES = (1, 5), 1000, 20


def config_files() -> dict[str, Path]:
    """The settings from scratch of each method that is trained."""
    own = {"protonet": CONFIGS / "cifar-fs-protonet-base.yaml", "remp": CONFIGS / "cifar-fs-convnet64-base.yaml"}
    prefix = "cifar-fs-"
    return own | {path.stem.removeprefix(prefix): path for path in sorted(CONFIGS.glob(f"methods/{prefix}*.yaml"))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--methods", default=",".join(config_files()))
    parser.add_argument("--set", action="append", default=[], metavar="METHOD.NAME=VALUE", help="another setting")
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--validation-episodes", type=int, default=300)
    parser.add_argument("--only", help="train and score this one method in this process")
    arguments = parser.parse_args()
    if arguments.only:
        return train_and_score(arguments.only, arguments)
    names = arguments.methods.split(",")
    for name in names:
        if not (arguments.out / f"{name}.json").exists():
            subprocess.run([sys.executable, __file__, *sys.argv[1:], "--only", name], check=False)
    table = markdown([json.loads(path.read_text()) for path in sorted(arguments.out.glob("*.json"))])
    (arguments.out / "table.md").write_text(table, encoding="utf-8")
    print(table)


def train_and_score(name: str, arguments: argparse.Namespace) -> None:
    """Train one method, score its start and its end, and write OUT/NAME.json."""
    config = settings(name, arguments)
    trained = load_trained(best_checkpoint(config, arguments.out / name))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seconds = 1 / trained.info["history"][-1]["episodes_per_second"]
    start, end = scores(started(config), arguments), scores(trained.method, arguments)
    row: dict[str, Any] = {
        "method": name,
        "start": [vars(mean_interval(each)) for each in start],
        "end": [vars(mean_interval(each)) for each in end],
        "difference": [vars(paired_difference(after, before)) for before, after in zip(start, end, strict=True)],
        "seconds_per_episode": seconds,
        "peak_mib": peak,
        "settings": config.flat(),
    }
    (arguments.out / f"{name}.json").write_text(json.dumps(row, indent=1), encoding="utf-8")
    print(line(row), flush=True)


def settings(name: str, arguments: argparse.Namespace) -> RunConfig:
    """The settings of the method's file, shortened, validated only at the end."""
    changed = [change.removeprefix(f"{name}.") for change in arguments.set if change.startswith(f"{name}.")]
    overrides = parse_overrides([f"--{change}" for change in changed])
    few = {"validate_every": arguments.episodes, "validation_episodes": 2}
    return load_config(config_files()[name], few | overrides).with_episodes(arguments.episodes)


def best_checkpoint(config: RunConfig, folder: Path) -> Path:
    """Train, or go on where it was interrupted; a few validation images will do, as they are scored afterwards."""
    images = open_set(config.data, "val")
    few = replace(images, images=images.images[::20], labels=images.labels[::20])
    if folder.exists():
        return resume(folder, validation_set=few)
    return train(config, out=folder, validation_set=few, print_settings=False)


def started(config: RunConfig) -> Method:
    """The network before its first step, with batch norm statistics of the training classes."""
    images = open_set(config.data, "train")
    method = build_method(config, images.image_size, images.n_classes).train()
    normalisation = Normalisation(images.mean, images.std)
    episodes = TrainingEpisodes(config, images, normalisation, torch.device("cpu"))
    with torch.no_grad():
        for number in range(STATISTICS_EPISODES):
            method.loss(episodes[number])
    return method


def scores(method: Method, arguments: argparse.Namespace) -> list[Any]:
    """Accuracy of each 5-way validation episode, for each number of shots: arrays (E,)."""
    training, images = open_set("cifar-fs", "train"), open_set("cifar-fs", "val")
    normalisation = Normalisation(training.mean, training.std)
    drawn = [
        draw_episodes(images, Protocol(5, n_shot, 15), n_episodes=arguments.validation_episodes, seed=SEED)
        for n_shot in SHOTS
    ]
    return [accuracies(method, images, normalisation, episodes) for episodes in drawn]


def markdown(rows: list[dict[str, Any]]) -> str:
    shots = "".join(f" {n}-shot start | end | end - start |" for n in SHOTS)
    lines = [f"| method |{shots} s an episode | peak MiB |", "|---" * (3 + 3 * len(SHOTS)) + "|"]
    return "\n".join([*lines, *map(line, rows)]) + "\n"


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    cells = [row["method"]]
    for start, end, difference in zip(row["start"], row["end"], row["difference"], strict=True):
        cells += [percent(start), percent(end), percent(difference)]
    return f"| {' | '.join(cells)} | {row['seconds_per_episode']:.2f} | {row['peak_mib']:.0f} |"


def percent(estimate: dict[str, Any]) -> str:
    return Estimate(**estimate).percent().removesuffix(" %")


if __name__ == "__main__":
    main()
