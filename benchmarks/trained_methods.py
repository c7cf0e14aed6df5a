"""Does every trained method learn? 500 episodes of CIFAR-FS, start and end on the same episodes of validation classes.

    python benchmarks/trained_methods.py --out runs/trained [--methods tpn,maml] [--set maml.inner_rate=0.1]

Each method is trained with its settings in configs/, but briefly, in a process of its own, so that the peak memory is
its own. Its start is the same network before the first step, with the batch norms' statistics of a few training
episodes: a random network, but a usable one. Both are scored 5-way 1-shot on every fourth image of the validation
classes. Methods whose file is in the folder are not trained again. Writes OUT/table.md.
500 episodes show that a method learns, not how far it gets.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from remp.backbones.embedding import Normalisation
from remp.checkpoint import load_trained
from remp.cli.options import file_and_settings
from remp.config import RunConfig, load_config
from remp.datasets import ImageSet, open_data
from remp.episodes import Protocol
from remp.evaluation.evaluate import accuracies, draw_episodes
from remp.evaluation.statistics import Estimate, mean_interval, paired_difference
from remp.methods import Method
from remp.trained import build_method
from remp.training import train
from remp.training.episodes import TrainingEpisodes

CONFIGS = Path(__file__).parents[1] / "configs"
PROTOCOL, SEED = Protocol(n_way=5, n_shot=1, n_query=15), 1000
STATISTICS_EPISODES = 20


def config_files() -> dict[str, Path]:
    """The settings from scratch of each method that is trained."""
    own = {
        name: CONFIGS / "cifar-fs" / f"{file}.yaml" for name, file in (("protonet", "protonet-1shot"), ("remp", "remp"))
    }
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
    before = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        # There is one validation, so the best weights are the last.
        best = train(config, out=Path(folder) / name, validation_set=validation_images(), print_settings=False)
        seconds, trained = time.process_time() - before, load_trained(best)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start, end = (scores(method, arguments.validation_episodes) for method in (untrained(config), trained.method))
    row: dict[str, Any] = {
        "method": name,
        "start": vars(mean_interval(start)),
        "end": vars(mean_interval(end)),
        "difference": vars(paired_difference(end, start)),
        "cpu_seconds_per_episode": seconds / config.episodes,
        "peak_mib": peak,
        "settings": config.flat(),
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / f"{name}.json").write_text(json.dumps(row, indent=1), encoding="utf-8")
    print(line(row), flush=True)


def settings(name: str, arguments: argparse.Namespace) -> RunConfig:
    """The settings of the method's file, shortened, validated only at the end."""
    changed = [change.removeprefix(f"{name}.") for change in arguments.set if change.startswith(f"{name}.")]
    brief = {"validate_every": arguments.episodes, "validation_episodes": 2}
    overrides = brief | file_and_settings(None, [f"--{change}" for change in changed])[1]
    return load_config(config_files()[name], overrides).with_episodes(arguments.episodes)


def untrained(config: RunConfig) -> Method:
    """The network before its first step, with batch norm statistics of the training classes."""
    images = open_data(config.data, "train")
    method = build_method(config, images.image_size, images.n_classes).train()
    episodes = TrainingEpisodes(config, images, Normalisation(images.mean, images.std), torch.device("cpu"))
    with torch.no_grad():
        for number in range(STATISTICS_EPISODES):
            method.loss(episodes[number])
    return method


def scores(method: Method, n_episodes: int) -> np.ndarray:
    """Accuracy of each validation episode -> (E,)."""
    images = validation_images()
    episodes = draw_episodes(images, PROTOCOL, n_episodes=n_episodes, seed=SEED)
    return accuracies(method, images, Normalisation(images.mean, images.std), episodes)


def validation_images() -> ImageSet:
    """Every fourth image of the validation classes: enough, and embedded in a quarter of the time."""
    images = open_data("cifar-fs", "val")
    return replace(images, images=images.images[::4], labels=images.labels[::4])


def markdown(rows: list[dict[str, Any]]) -> str:
    head = ["| method | start | end | end - start | CPU s per episode | peak MiB |", "|---|---|---|---|---|---|"]
    return "\n".join([*head, *map(line, rows)]) + "\n"


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    estimates = " | ".join(Estimate(**row[column]).percent() for column in ("start", "end", "difference"))
    return f"| {row['method']} | {estimates} | {row['cpu_seconds_per_episode']:.2f} | {row['peak_mib']:.0f} |"


if __name__ == "__main__":
    main()
