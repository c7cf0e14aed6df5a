"""How much faster a training step is than the same model in a plain PyTorch loop, and where its time goes.

    python benchmarks/training_step.py [--data cifar-fs] [--steps 60] [--rounds 3]

Two child processes take turns on the same episodes' shapes, so that a noisy machine disturbs both alike:
- remp: the training loop of the package (channels-last memory, freed blocks kept, crops and flips on whole batches);
- plain: the same method and optimiser in PyTorch's default memory layout and allocator, fed by a `DataLoader` that
  crops, flips and normalises image by image with Pillow.
Prints the ratio of the medians over rounds, a whole step of ours against its bare forward and backward passes, the
share of a step outside forward, backward and optimiser, and the peak memory of the training process.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from remp.config import RunConfig, make_config
from remp.datasets import open_data
from remp.episodes import Episodes, EpisodeSampler

WARM_UP = 5


def settings(data: str) -> RunConfig:
    return make_config({"data": data, "method": "remp", "alpha": 1.0, "episodes": 100_000, "episodes_per_step": 1})


class Stopwatch:
    """Adds up the seconds spent inside functions."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*arguments: Any, **keywords: Any) -> Any:
            started = time.perf_counter()
            try:
                return function(*arguments, **keywords)
            finally:
                self.seconds += time.perf_counter() - started

        return wrapper


def remp_step_seconds(config: RunConfig, steps: int) -> dict[str, float]:
    """Seconds per step of the package's loop, and the share of it outside forward, backward and optimiser."""
    from remp.system.memory import keep_freed_memory
    from remp.training.processes import Processes
    from remp.training.run_folder import RunFolder
    from remp.training.trainer import Trainer

    keep_freed_memory()
    train_set, folder = open_data(config.data, "train"), RunFolder(Path(tempfile.mkdtemp()))
    trainer = Trainer(config, train_set, open_data(config.data, "val"), folder, Processes())
    trainer.measure(WARM_UP)
    passes, optimiser = Stopwatch(), Stopwatch()
    trainer.method.loss = passes.timed(trainer.method.loss)  # type: ignore[method-assign]
    trainer.processes.backward = passes.timed(trainer.processes.backward)  # type: ignore[method-assign]
    trainer.optimiser.step = optimiser.timed(trainer.optimiser.step)  # type: ignore[method-assign]
    seconds = trainer.measure(steps)
    return {
        "seconds": seconds,
        "share_outside": 1 - (passes.seconds + optimiser.seconds) / steps / seconds,
        "against_passes": seconds * steps / passes.seconds,
    }


class PlainImages(torch.utils.data.Dataset):
    """Image by image: crop, resize, flip, normalise."""

    def __init__(self, data: str, area: tuple[float, float]) -> None:
        self.images, self.area = open_data(data, "train"), area
        self.random = np.random.default_rng(0)
        self.mean = torch.tensor(self.images.mean).view(-1, 1, 1)
        self.std = torch.tensor(self.images.std).view(-1, 1, 1)

    def __len__(self) -> int:
        return len(self.images.labels)

    def __getitem__(self, index: int) -> torch.Tensor:
        picture = Image.fromarray(np.array(self.images.images[index]))
        width, height = picture.size
        share, ratio = self.random.uniform(*self.area), np.exp(self.random.uniform(-1, 1) * np.log(4 / 3))
        w, h = min(width, width * (share * ratio) ** 0.5), min(height, height * (share / ratio) ** 0.5)
        x, y = self.random.uniform(0, width - w), self.random.uniform(0, height - h)
        picture = picture.resize((width, height), Image.Resampling.BILINEAR, box=(x, y, x + w, y + h))
        if self.random.random() < 0.5:
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = torch.from_numpy(np.array(picture)).permute(2, 0, 1).float() / 255
        return (pixels - self.mean) / self.std


def plain_step_seconds(config: RunConfig, steps: int) -> dict[str, float]:
    """Seconds per step of a textbook loop."""
    from remp.trained import build_method

    train_set = open_data(config.data, "train")
    method = build_method(config, train_set.image_size, train_set.n_classes)
    method = method.to(memory_format=torch.contiguous_format)
    optimiser = torch.optim.SGD(
        method.parameters(), lr=config.learning_rate, momentum=config.momentum, weight_decay=config.weight_decay
    )
    drawn = EpisodeSampler(train_set.labels, config.train_protocol).sample(steps + WARM_UP)
    ids = torch.cat([drawn.support, drawn.query], 1).tolist()
    loader = torch.utils.data.DataLoader(PlainImages(config.data, config.crop_area), batch_sampler=ids)
    n_support = drawn.support.shape[1]
    started = 0.0
    for i, pixels in enumerate(loader):
        if i == WARM_UP:
            started = time.perf_counter()
        part = drawn[i : i + 1]
        episode = Episodes(
            support=pixels[None, :n_support],
            support_labels=part.support_labels,
            query=pixels[None, n_support:],
            query_labels=part.query_labels,
            n_way=part.n_way,
            class_ids=part.class_ids,
        )
        optimiser.zero_grad()
        torch.stack(list(method.loss(episode, 0.0).values())).sum().backward()
        optimiser.step()
    return {"seconds": (time.perf_counter() - started) / steps}


def in_child(kind: str, data: str, steps: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", kind, "--data", data, "--steps", str(steps)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="cifar-fs")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", choices=["remp", "plain"])
    arguments = parser.parse_args()
    if arguments.child:
        measure = remp_step_seconds if arguments.child == "remp" else plain_step_seconds
        measured = measure(settings(arguments.data), arguments.steps)
        measured["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(measured))
        return
    rounds = [
        {kind: in_child(kind, arguments.data, arguments.steps) for kind in ("remp", "plain")}
        for _ in range(arguments.rounds)
    ]
    seconds = {kind: statistics.median(r[kind]["seconds"] for r in rounds) for kind in ("remp", "plain")}
    ratios = [r["plain"]["seconds"] / r["remp"]["seconds"] for r in rounds]
    outside = statistics.median(r["remp"]["share_outside"] for r in rounds)
    peak = max(r["remp"]["peak_mib"] for r in rounds)
    threads = torch.get_num_threads()
    print(f"{arguments.data}, ConvNet-64, 15-way 1-shot 8 queries, {threads} threads, torch {torch.__version__}")
    print(f"plain DataLoader loop   {1000 * seconds['plain']:7.1f} ms per step")
    print(f"remp training loop      {1000 * seconds['remp']:7.1f} ms per step")
    print(
        f"ratio                   {statistics.median(ratios):7.2f}   (rounds: {', '.join(f'{r:.2f}' for r in ratios)})"
    )
    against = statistics.median(r["remp"]["against_passes"] for r in rounds)
    print(f"a whole step against its forward and backward passes   {against:.3f} times their time")
    print(f"outside forward, backward and optimiser   {100 * outside:.1f} % of a step")
    print(f"peak memory of the training process       {peak:.0f} MiB")


if __name__ == "__main__":
    main()
