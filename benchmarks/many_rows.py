"""Time and memory to rectify prototypes with a million embeddings that lie in a file.

    python benchmarks/many_rows.py [--rows 10000 100000 1000000] [--dim 640] [--classes 100] [--rounds 3] [--threads 1]

Embeddings around class centres are written to a temporary file and opened as a memory map; five rows of each class
are labelled. Beside `propagate` runs what it cannot do without, the bare matrix products of its layers on the same
chunks of the same map; and `adapt`, the rule of `remp label`, with its own settings. They take turns, and the fastest
round counts. Seconds are those of the processor, which other jobs on the machine disturb least; the last column has
the seconds on the clock. Memory is what the process owns itself (RssAnon: without the pages of the map, which the
system can drop at any time), watched during the rounds.
"""

import argparse
import re
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from remp.propagation.adaptive import adapt
from remp.rectification.propagate import Propagation, propagate
from remp.rows import ArrayRows

SHOTS = 5


def write_embeddings(path: Path, n: int, dim: int, n_classes: int) -> np.ndarray:
    """(n, dim) float32 like those after a ReLU, to a file; returns the labels: SHOTS of each class, others -1."""
    random = np.random.default_rng(0)
    truth = random.integers(n_classes, size=n)
    centres = random.standard_normal((n_classes, dim), dtype=np.float32)
    table = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, dim))
    for first in range(0, n, 10_000):
        of = truth[first : first + 10_000]
        noise = 2 * random.standard_normal((len(of), dim), dtype=np.float32)
        np.maximum(centres[of] + noise, 0, out=table[first : first + len(of)])
    labelled = np.concatenate([np.flatnonzero(truth == number)[:SHOTS] for number in range(n_classes)])
    return np.where(np.isin(np.arange(n), labelled), truth, -1)


def multiply(rows: ArrayRows, n_classes: int, settings: Propagation) -> None:
    """Scores, Σ P z of near rows and, if it is needed, Σ z of far rows: (N, d) (d, m) and (N, m) (m, d) per chunk."""
    prototypes, weights = torch.randn(n_classes, rows.dim), torch.rand(n_classes, rows.chunk)
    n_sums = 2 if settings.repulsion == "negative" else 1
    for _ in range(settings.layers):
        for chunk in rows.chunks():
            prototypes @ chunk.T
            for _ in range(n_sums):
                weights[:, : len(chunk)] @ chunk


def seconds(work: Callable[[], object]) -> tuple[float, float]:
    """Of the processor, and on the clock."""
    processor, clock = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - processor, time.perf_counter() - clock


class OwnMemory:
    """The most memory that the process owned inside a `with` block, in MiB."""

    def __enter__(self) -> "OwnMemory":
        self.before = self.peak = own_mib()
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._look)
        self._watch.start()
        return self

    def _look(self) -> None:
        while not self._over.wait(0.02):
            self.peak = max(self.peak, own_mib())

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._watch.join()


def own_mib() -> float:
    (kib,) = re.findall(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(kib) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--dim", type=int, default=640)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--layers", type=int, default=Propagation.layers)
    parser.add_argument("--repulsion", default=Propagation.repulsion)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    settings = Propagation(layers=arguments.layers, repulsion=arguments.repulsion)
    print(f"{arguments.dim}-d, {arguments.classes} classes, {arguments.threads} thread(s), {settings}\n")
    columns = [
        "rows",
        "propagate",
        "bare products",
        "ratio",
        "adapt",
        "adapt / propagate",
        "µs per row and layer",
        "own memory: before, peak",
        "clock",
    ]
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    with tempfile.TemporaryDirectory() as folder:
        for n in arguments.rows:
            print(line(Path(folder) / "embeddings.npy", n, arguments, settings), flush=True)


def line(path: Path, n: int, arguments: argparse.Namespace, settings: Propagation) -> str:
    labels = write_embeddings(path, n, arguments.dim, arguments.classes)
    rows = ArrayRows(np.load(path, mmap_mode="r"))
    bare, ours, adaptive = [], [], []
    with OwnMemory() as memory:
        for _ in range(arguments.rounds):
            bare.append(seconds(lambda: multiply(rows, arguments.classes, settings)))
            ours.append(seconds(lambda: propagate(rows, labels, arguments.classes, settings)))
            adaptive.append(seconds(lambda: adapt(rows, labels, arguments.classes)))
    (best, clock), (best_bare, _), (best_adaptive, _) = min(ours), min(bare), min(adaptive)
    micros = 1e6 * best / n / max(settings.layers, 1)
    return (
        f"| {n:,} | {best:.2f} s | {best_bare:.2f} s | {best / best_bare:.2f} "
        f"| {best_adaptive:.2f} s | {best_adaptive / best:.2f} | {micros:.2f} "
        f"| {memory.before:.0f}, {memory.peak:.0f} MiB | {clock:.1f} s |"
    )


if __name__ == "__main__":
    main()
