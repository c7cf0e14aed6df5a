"""Picture files and an embedder for the tests: an embedding is the mean colour."""

import os
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from remp.backbones.embedding import Embedder, Normalisation
from remp.labelling.tasks import Items

SIDE = 128  # large, so that a batch is small


class MeanColour:
    """Counts the images that it was asked about."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        self.count += len(images)
        return images.mean((2, 3))


def mean_colour_embedder(name: str = "mean colour") -> Embedder:
    return Embedder(
        name=name,
        hash=name.encode().hex().ljust(64, "0"),
        dim=3,
        side=SIDE,
        trained_on="nothing",
        network=MeanColour(),
        normalisation=Normalisation((0.0,) * 3, (1.0,) * 3),
    )


def colours(n: int) -> np.ndarray:
    """(n, 3) uint8, all different."""
    numbers = np.arange(n)
    return np.stack([numbers % 256, 200 - numbers % 200, (numbers * 7) % 256], axis=1).astype(np.uint8)


def write_pictures(folder: Path, n: int) -> Items:
    """n pictures of one colour each, last changed a minute ago."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{number:04d}.png" for number in range(n)]
    for path, colour in zip(paths, colours(n), strict=True):
        Image.new("RGB", (20, 30), tuple(colour.tolist())).save(path)
        os.utime(path, (time.time() - 60,) * 2)
    return task_of(paths)


def task_of(paths: Iterable[Path]) -> Items:
    paths = tuple(paths)
    return Items(tuple(path.name for path in paths), np.full(len(paths), -1), ("class",), paths)
