"""What bfloat16 convolutions and smaller first images save: processor seconds of a training step.

    python benchmarks/precision.py [--steps 4] [--rounds 3]

One thread, random images, the forward and backward passes of the backbone, without data and optimiser. Settings take
turns in each round; the medians are printed.
"""

import argparse
import statistics
import time

import torch

from remp.backbones.base import Backbone
from remp.backbones.conv4 import Conv4
from remp.backbones.resnet12 import ResNet12
from remp.system.memory import keep_freed_memory

IMAGES = 64
CASES = {"ConvNet-64": (Conv4, (84, 48, 32)), "ResNet-12": (ResNet12, (32, 24))}


def seconds(network: Backbone, side: int, lower: bool, steps: int) -> float:
    """Of a step."""
    images = torch.randn(IMAGES, 3, side, side).to(memory_format=torch.channels_last)
    started = 0.0
    for step in range(steps + 1):
        if step == 1:  # the first one takes fresh memory
            started = time.process_time()
        network.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=lower):
            features = network(images)
        features.float().square().mean().backward()
    return (time.process_time() - started) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    print("| network | pixels | float32, ms per image | bfloat16 | ratio |\n|---|---|---|---|---|")
    for name, (make, sides) in CASES.items():
        network = make().to(memory_format=torch.channels_last)
        for side in sides:
            rounds = [
                [seconds(network, side, lower, arguments.steps) for lower in (False, True)]
                for _ in range(arguments.rounds)
            ]
            full, lower = (1000 * statistics.median(column) / IMAGES for column in zip(*rounds, strict=True))
            print(f"| {name} | {side} x {side} | {full:.2f} | {lower:.2f} | {lower / full:.2f} |", flush=True)


if __name__ == "__main__":
    main()
