"""Time of `remp label` on photographs: from files to embeddings, and the whole command, at first and again.

    python benchmarks/label_photos.py [--photos FOLDER] [--n 2000] [--side 224] [--threads 2]

FOLDER has a sub-folder a class, the other pictures loose or in unlabelled/. Without one, JPEGs of 640 x 480 are drawn:
ten classes with five examples each. Embeddings are cached in a folder that is thrown away. Prints the images a second
of each stage, and how many times as fast the second run is. Then the command itself runs twice, each in a new process.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from remp.embedder import find_embedder
from remp.labelling.embedding import Embedded, embed_pictures
from remp.labelling.folder_task import folder_task

CLASSES, EXAMPLES = 10, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--n", type=int, default=2000, help="photographs to draw")
    parser.add_argument("--side", type=int, default=None, help="pixels that the network is fed, of the first part")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as folder:
        photos = arguments.photos or draw(Path(folder) / "photos", arguments.n)
        time_embedding(photos, arguments.side, Path(folder) / "cache")
        time_command(photos, Path(folder), arguments.threads)


def time_embedding(photos: Path, side: int | None, cache: Path) -> None:
    task, embedder = folder_task(photos), find_embedder(side=side)
    print(f"{len(task.paths)} photographs, {embedder.name} at {embedder.side} px, {torch.get_num_threads()} threads")
    first, again = (embed_pictures(task, embedder, cache) for _ in range(2))
    rates = ", ".join(f"{name} {stage.rate:.0f} images/s" for name, stage in first.stages.items())
    print(f"first   {first.seconds:8.2f} s   {len(task.paths) / first.seconds:.0f} images/s; alone: {rates}")
    print(f"again   {again.seconds:8.2f} s   {first.seconds / again.seconds:.0f} times as fast, {_same(first, again)}")


def time_command(photos: Path, folder: Path, threads: int) -> None:
    """`remp label` with an empty home, twice."""
    environment = {**os.environ, "REMP_HOME": str(folder / "home"), "OMP_NUM_THREADS": str(threads)}
    seconds = []
    for name in ("first", "again"):
        started = time.perf_counter()
        command = [sys.executable, "-m", "remp", "label", str(photos), "--out", str(folder / name)]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - started)
    print(f"remp label: {seconds[0]:.1f} s, again {seconds[1]:.1f} s, {seconds[0] / seconds[1]:.1f} times as fast")


def draw(folder: Path, n: int) -> Path:
    """Photographs of blurred noise in the colours of their class, as large as a photograph of that size on disk."""
    random = np.random.default_rng(0)
    tints = random.uniform(0.4, 1, (CLASSES, 3))
    for number in range(n):
        kind = number % CLASSES
        place = folder / (f"class {kind}" if number < CLASSES * EXAMPLES else "unlabelled")
        place.mkdir(parents=True, exist_ok=True)
        coarse = random.integers(0, 256, (24, 32, 3)) * tints[kind]
        picture = Image.fromarray(coarse.astype(np.uint8)).resize((640, 480), Image.Resampling.BICUBIC)
        grain = random.integers(-12, 13, (480, 640, 1))
        pixels = np.clip(np.asarray(picture, dtype=np.int16) + grain, 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(place / f"{number:05d}.jpg", quality=90)
    return folder


def _same(first: Embedded, again: Embedded) -> str:
    return "the same numbers" if np.array_equal(first.values, again.values) else "OTHER NUMBERS"


if __name__ == "__main__":
    main()
