"""What Ray adds to the time of embedding and of propagation, and how much of a layer is the reduction.

    python benchmarks/cluster.py embedding [--pictures 5000] [--side 224]
    python benchmarks/cluster.py propagation [--rows 1000000] [--dim 640] [--parts 32] [--classes 100] [--layers 10]
    python benchmarks/cluster.py reduction [--dim 640] [--classes 100]

embedding: two Ray workers (`remp embed --engine ray`) against two processes that torchrun starts (`remp label`'s way of
embedding), the same pictures, start-up aside: the clock starts when both workers have embedded a first block.
propagation: two Ray workers against one process with two threads, on the same Parquet files; one pass goes before, so
that all workers are up. Results are compared bit for bit.
reduction: what the machine with the command does with the sums of a layer, for so many workers' blocks, beside what one
worker needs for its rows; 100 million rows in all. Both are measured here, one after the other, in seconds of the
processor.
Ratios of one run are what counts: other work on the machine disturbs both sides alike at best.
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

from remp.rows import ArrayRows, JoinedRows, Shard

BLOCKS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
ALL_ROWS = 100_000_000


def start_ray() -> None:
    import ray

    ray.init("local", num_cpus=2, object_store_memory=500 * 2**20, include_dashboard=False, log_to_driver=False)


# Embedding


def write_photos(folder: Path, n: int) -> None:
    """JPEG files of 500 x 375 pixels, all different."""
    from PIL import Image

    folder.mkdir()
    random = np.random.default_rng(0)
    for number in range(n):
        coarse = random.integers(0, 256, (15, 20, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((500, 375), Image.Resampling.BICUBIC).save(folder / f"{number:06d}.jpg")


TORCHRUN = """
import sys, time
from pathlib import Path
from remp.labelling.embedding.embed import embed_pictures
from remp.labelling.tasks.task import make_task
from remp.models import find_embedder
from remp.rows import current_shard
folder, side = Path(sys.argv[1]), int(sys.argv[2])
shard, embedder = current_shard(), find_embedder(side=side)
names = sorted(path.name for path in folder.iterdir())
warm = make_task(names[:64], [None] * 64, folder=folder)
embed_pictures(warm, embedder, Path(sys.argv[3]) / "warm", shard=shard)
started = time.perf_counter()
embed_pictures(make_task(names, [None] * len(names), folder=folder), embedder, Path(sys.argv[3]) / "all", shard=shard)
if shard.rank == 0:
    print(time.perf_counter() - started)
"""


def torchrun_seconds(folder: Path, side: int, work: Path) -> float:
    (work / "child.py").write_text(TORCHRUN)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launcher, str(work / "child.py"), str(folder), str(side), str(work)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return float(done.stdout.split()[-1])


def ray_seconds(folder: Path, side: int, work: Path, n: int) -> float:
    from remp.engine.embed import embed
    from remp.engine.ray import RayEngine

    start_ray()
    few = work / "few"
    few.mkdir()
    for path in sorted(folder.iterdir())[:64]:
        (few / path.name).symlink_to(path)
    embed(few, work / "warm-ray", side=side, block=4, engine=RayEngine())  # both workers are up, with the network
    started = time.perf_counter()
    done = embed(folder, work / "ray", side=side, block=min(256, max(1, n // 8)), engine=RayEngine())
    assert done.n == n
    return time.perf_counter() - started


def embedding(settings: argparse.Namespace, work: Path) -> None:
    write_photos(work / "photos", settings.pictures)
    theirs = torchrun_seconds(work / "photos", settings.side, work)
    ours = ray_seconds(work / "photos", settings.side, work, settings.pictures)
    print("| pictures | side | two torchrun processes, s | two Ray workers, s | ratio |\n|---|---|---|---|---|")
    print(f"| {settings.pictures} | {settings.side} | {theirs:.1f} | {ours:.1f} | {ours / theirs:.2f} |")


# Propagation


def write_parts(folder: Path, settings: argparse.Namespace) -> np.ndarray:
    """Embeddings like those after a ReLU around class centres; returns the labels: five of each class, others -1."""
    import pyarrow
    import pyarrow.parquet as parquet

    folder.mkdir()
    random = np.random.default_rng(0)
    centres = random.standard_normal((settings.classes, settings.dim), dtype=np.float32)
    truth = random.integers(settings.classes, size=settings.rows)
    for number, of in enumerate(np.array_split(truth, settings.parts)):
        noise = 2 * random.standard_normal((len(of), settings.dim), dtype=np.float32)
        values = pyarrow.array(np.maximum(centres[of] + noise, 0).reshape(-1))
        table = pyarrow.table({"embedding": pyarrow.FixedSizeListArray.from_arrays(values, settings.dim)})
        parquet.write_table(table, folder / f"part-{number:05d}.parquet", compression="none", use_dictionary=False)
    labelled = np.concatenate([np.flatnonzero(truth == number)[:5] for number in range(settings.classes)])
    labels = np.full(settings.rows, -1)
    labels[labelled] = truth[labelled]
    return labels


def propagation(settings: argparse.Namespace, work: Path) -> None:
    from remp.engine.ray import RayEngine
    from remp.rectification.propagate import Propagation, propagate
    from remp.rows.dataset import parquet_dataset

    labels = write_parts(work / "rows", settings)
    rows, layers = parquet_dataset(work / "rows"), Propagation(layers=settings.layers)
    start_ray()
    torch.set_num_threads(2)
    seconds, results = {}, {}
    for name, shard in (("local", Shard()), ("ray", RayEngine().shard())):
        propagate(rows, labels, settings.classes, Propagation(layers=1), shard=shard)
        started = time.perf_counter()
        results[name] = propagate(rows, labels, settings.classes, layers, shard=shard).prototypes
        seconds[name] = time.perf_counter() - started
    same = "yes" if torch.equal(results["local"], results["ray"]) else "NO"
    print(
        "| rows | parts | layers | two threads, s | two Ray workers, s | ratio | the same bits |\n" + 7 * "|---" + "|"
    )
    print(
        f"| {settings.rows} x {settings.dim} | {settings.parts} | {settings.layers} | {seconds['local']:.1f} | "
        f"{seconds['ray']:.1f} | {seconds['ray'] / seconds['local']:.2f} | {same} |"
    )


# Reduction


def row_seconds(classes: int, dim: int) -> float:
    """Seconds that one thread needs for a row and layer, of rows in memory: with Parquet it is more."""
    from remp.rectification.propagate import Propagation, propagate

    random = np.random.default_rng(0)
    n = 100_000
    truth = random.integers(classes, size=n)
    values = np.maximum(random.standard_normal((classes, dim), dtype=np.float32)[truth] + 1, 0)
    labels = np.where(np.arange(n) < 20 * classes, truth, -1)
    rows = JoinedRows(ArrayRows(values[: n // 2]), ArrayRows(values[n // 2 :]))

    def timed(layers: int) -> float:
        started = time.process_time()
        propagate(rows, labels, classes, Propagation(layers=layers))
        return time.process_time() - started

    timed(1)
    return (timed(5) - timed(1)) / 4 / n


def reduction(settings: argparse.Namespace, work: Path) -> None:
    """The sums of as many blocks as there are workers travel through Ray's object store and are added in order."""
    import ray

    from remp.engine.ray import RayEngine

    start_ray()
    torch.set_num_threads(1)
    engine, shape = RayEngine(), (settings.classes, settings.dim)
    a_row = row_seconds(*shape)
    handle = [ray.put(_Sums(shape))]
    ray.get([engine.begin(handle, number) for number in range(8)])
    print(f"one thread: {1e6 * a_row:.1f} µs per row and layer ({settings.classes} classes, {settings.dim} dimensions)")
    print(
        "| workers | reduction of a layer, ms | layer of 100 million rows, s | share of the reduction |\n"
        + 4 * "|---"
        + "|"
    )
    for workers in BLOCKS:
        sent = [engine.begin(handle, number) for number in range(workers)]
        ray.wait(sent, num_returns=workers, fetch_local=True)
        started = time.process_time()
        near, far = torch.zeros(shape, dtype=torch.float64), torch.zeros(shape, dtype=torch.float64)
        for reference in sent:
            one, other = ray.get(reference)
            near, far = near + one, far + other
        seconds, layer = time.process_time() - started, a_row * ALL_ROWS / workers
        print(f"| {workers} | {1000 * seconds:.1f} | {layer:.1f} | {seconds / (seconds + layer):.2%} |")


class _Sums:
    """What a block sends for a layer."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape

    def __call__(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        return tuple(torch.full(self.shape, float(number), dtype=torch.float64) for _ in range(2))  # type: ignore[return-value]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"embedding": embedding, "propagation": propagation, "reduction": reduction}
    parser.add_argument("what", choices=parts)
    sizes = {"pictures": 5000, "side": 224, "rows": 1_000_000, "dim": 640, "parts": 32, "classes": 100, "layers": 10}
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    settings = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        parts[settings.what](settings, Path(work))


if __name__ == "__main__":
    main()
