"""Time of `remp label` on photographs, end to end: at first and again, each in a new process.

    python benchmarks/label_photos.py [--photos FOLDER] [--n 2000] [--width 2016] [--threads 2]

FOLDER has one sub-folder per class, the other pictures loose or in unlabelled/. Without one, JPEGs of WIDTH x 3/4
WIDTH are drawn: ten classes with five examples each. The cache is a folder that is thrown away. Prints the images per
second of each stage, and how many times as fast the second run is, whose labels must be the same.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

CLASSES, EXAMPLES = 10, 5
SHOWN = ("Time for", "Images per second", "All embeddings")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--n", type=int, default=2000, help="photographs to draw")
    parser.add_argument("--width", type=int, default=2016, help="of the photographs to draw, in pixels")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        photos = arguments.photos or draw(folder / "photos", arguments.n, arguments.width)
        environment = {**os.environ, "REMP_HOME": str(folder / "home"), "OMP_NUM_THREADS": str(arguments.threads)}
        first, again = (label(photos, folder / name, environment) for name in ("first", "again"))
        same = [(folder / name / "labels.csv").read_bytes() for name in ("first", "again")]
    print(f"{first:.1f} s, then {again:.1f} s: {first / again:.1f} times as fast, ", end="")
    print("the same labels" if same[0] == same[1] else "OTHER LABELS")


def label(photos: Path, out: Path, environment: dict[str, str]) -> float:
    """Seconds of the whole command."""
    command = [sys.executable, "-m", "remp", "label", str(photos), "--out", str(out)]
    started = time.perf_counter()
    said = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    seconds = time.perf_counter() - started
    print(f"{out.name}: {seconds:.1f} s")
    print("\n".join(f"  {line}" for line in said.splitlines() if line.startswith(SHOWN)))
    return seconds


def draw(folder: Path, n: int, width: int) -> Path:
    """Photographs of blurred noise in the colours of their class, as large as a photograph of that size on disk."""
    random = np.random.default_rng(0)
    tints = random.uniform(0.4, 1, (CLASSES, 3))
    size = (width, width * 3 // 4)
    grain = random.integers(-12, 13, (size[1], size[0], 1), dtype=np.int16)
    for number in range(n):
        kind = number % CLASSES
        place = folder / (f"class {kind}" if number < CLASSES * EXAMPLES else "unlabelled")
        place.mkdir(parents=True, exist_ok=True)
        coarse = random.integers(0, 256, (24, 32, 3)) * tints[kind]
        picture = Image.fromarray(coarse.astype(np.uint8)).resize(size, Image.Resampling.BICUBIC)
        pixels = np.clip(np.asarray(picture, dtype=np.int16) + grain, 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(place / f"{number:05d}.jpg", quality=90)
    return folder


if __name__ == "__main__":
    main()
