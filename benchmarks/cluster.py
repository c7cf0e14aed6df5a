"""What Ray adds to the time of embedding and of propagation, and how much of a layer is the reduction.

    python benchmarks/cluster.py embedding [--pictures 5000] [--side 224] [--rounds 5]
    python benchmarks/cluster.py propagation [--rows 1000000] [--dim 640] [--parts 32] [--layers 10] [--rounds 2]
    python benchmarks/cluster.py reduction [--dim 640] [--classes 100]
    python benchmarks/cluster.py killed [--parts 32]

embedding: two Ray workers (`remp embed --engine ray`) against two processes that torchrun starts (`remp label`'s way of
embedding), start-up aside: the clock starts when both sides have embedded some pictures. All pictures are shared out
over the rounds, and both sides take turns, so that other work on the machine meets both.
propagation: two Ray workers against one process with two threads, on the same Parquet files. Some rows go before, so
that all workers are up. Results are compared bit for bit. Both take turns, all layers in each round; the best counts.
reduction: from the last block's sums being ready to the sums of the layer, for as many blocks as workers, through Ray's
object store, beside what a worker needs for its rows; 100 million rows in all.
killed: a layer of parts that take half a second each, without and with one of the two workers killed in the middle.
With --work FOLDER, pictures and parts are kept there, and found there next time; --only prepare makes them and ends.
Ratios of one run are what counts: other work on the machine disturbs both sides alike at best. So seconds of the
processors are shown, too: of all processes, Ray's own among them.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from remp.rows import ArrayRows, JoinedRows, Shard

BLOCKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
ALL_ROWS = 100_000_000


def start_ray() -> None:
    """Two cores. Ray's workers give way to other programs unless told otherwise: here both sides have the same rank."""
    import ray

    size, rank = 500 * 2**20, {"worker_niceness": 0}
    ray.init(
        "local",
        num_cpus=2,
        object_store_memory=size,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        _system_config=rank,
    )


def processor_seconds() -> float:
    """Of this process and all that it has started, Ray's own among them, as far as they live."""
    import ray  # noqa: F401, I001  (which brings psutil)
    import psutil

    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return sum(sum(process.cpu_times()[:2]) for process in family)


# Embedding


def write_photos(folder: Path, n: int) -> None:
    """JPEG files of 500 x 375 pixels, all different."""
    from PIL import Image

    if folder.exists():
        return
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    for number in range(n):
        coarse = random.integers(0, 256, (15, 20, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((500, 375), Image.Resampling.BICUBIC).save(folder / f"{number:06d}.jpg")


TORCHRUN = """
import sys, time, torch
from pathlib import Path
from remp.labelling.embedding import embed_pictures
from remp.labelling.tasks import make_task
from remp.models import find_embedder
from remp.rows import current_shard
folder, side = Path(sys.argv[1]), int(sys.argv[2])
shard, embedder = current_shard(), find_embedder(side=side)
names = sorted(path.name for path in folder.iterdir())
warm = make_task(names[:32], [None] * 32, folder=folder)
embed_pictures(warm, embedder, Path(sys.argv[3]) / "warm", shard=shard)
started, work = time.perf_counter(), time.process_time()
embed_pictures(make_task(names, [None] * len(names), folder=folder), embedder, Path(sys.argv[3]) / "all", shard=shard)
took = torch.tensor(time.process_time() - work)
both = float(shard.sum(took))
if shard.rank == 0:
    print(time.perf_counter() - started, both)
"""


def torchrun_seconds(folder: Path, side: int, work: Path) -> tuple[float, float]:
    """Time, and seconds of the processor."""
    work.mkdir()
    (work / "child.py").write_text(TORCHRUN)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launcher, str(work / "child.py"), str(folder), str(side), str(work)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=True)
    seconds, worked = map(float, done.stdout.split()[-2:])
    return seconds, worked


def start_workers(folder: Path, side: int, work: Path) -> None:
    """Ray, with two workers that have the network."""
    from remp.engine.embed import embed
    from remp.engine.ray import RayEngine

    start_ray()
    few = work / "few"
    few.mkdir()
    for path in sorted(folder.iterdir())[:64]:
        (few / path.name).symlink_to(path)
    embed(few, work / "warm", side=side, block=4, engine=RayEngine())


def ray_seconds(folder: Path, side: int, work: Path) -> tuple[float, float]:
    """Time, and seconds of the processor."""
    from remp.engine.embed import embed
    from remp.engine.ray import RayEngine

    n = len(list(folder.iterdir()))
    started, worked = time.perf_counter(), processor_seconds()
    done = embed(folder, work, side=side, block=min(256, max(1, n // 8)), engine=RayEngine())
    assert done.n == n
    return time.perf_counter() - started, processor_seconds() - worked


def embedding(settings: argparse.Namespace, work: Path) -> None:
    photos = (settings.work or work) / f"photos-{settings.pictures}"
    write_photos(photos, settings.pictures)
    if settings.only:
        return
    start_workers(photos, settings.side, work)
    sides = {"two torchrun processes": torchrun_seconds, "two Ray workers": ray_seconds}
    seconds = {name: list[tuple[float, float]]() for name in sides}
    for number, some in enumerate(np.array_split(sorted(photos.iterdir()), settings.rounds)):
        share = work / f"share {number}"
        share.mkdir()
        for path in some:
            (share / path.name).symlink_to(path)
        for name, run in list(sides.items())[:: 1 if number % 2 else -1]:
            seconds[name].append(run(share, settings.side, work / f"{name} {number}"))
            print(f"{name}: %.1f s, of the processors %.1f s" % seconds[name][-1], file=sys.stderr, flush=True)
    print(
        "| pictures | rounds | | two torchrun processes | two Ray workers | ratio | ratios of the rounds |\n"
        + 7 * "|---"
        + "|"
    )
    for what, at in (("time, s", 0), ("processors, s", 1)):
        one, other = ([times[at] for times in seconds[name]] for name in sides)
        ratios = ", ".join(f"{theirs / ours:.2f}" for ours, theirs in zip(one, other, strict=True))
        print(
            f"| {settings.pictures} | {settings.rounds} | {what} | {sum(one):.1f} | {sum(other):.1f} | "
            f"{sum(other) / sum(one):.2f} | {ratios} |"
        )


# Propagation


def write_parts(folder: Path, settings: argparse.Namespace) -> np.ndarray:
    """Embeddings like those after a ReLU around class centres; returns the labels: five of each class, others -1."""
    import pyarrow
    import pyarrow.parquet as parquet

    random = np.random.default_rng(0)
    centres = random.standard_normal((settings.classes, settings.dim), dtype=np.float32)
    truth = random.integers(settings.classes, size=settings.rows)
    is_there = folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    for number, of in enumerate(np.array_split(truth, settings.parts) if not is_there else ()):
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

    folder = (settings.work or work) / "rows"
    labels = write_parts(folder, settings)
    if settings.only:
        return
    rows, layers = parquet_dataset(folder), Propagation(layers=settings.layers)
    start_ray()
    torch.set_num_threads(2)
    few, few_labels = JoinedRows(*rows.parts[:4]), np.arange(sum(map(len, rows.parts[:4]))) % settings.classes
    shards = {"local": Shard(), "ray": RayEngine().shard()}
    seconds, results = {name: list[tuple[float, float]]() for name in shards}, {}
    for shard in shards.values():
        propagate(few, few_labels, settings.classes, Propagation(layers=1), shard=shard)  # all workers are up
    for name, shard in settings.rounds * list(shards.items()):
        started, worked = time.perf_counter(), processor_seconds()
        results[name] = propagate(rows, labels, settings.classes, layers, shard=shard).prototypes
        seconds[name].append((time.perf_counter() - started, processor_seconds() - worked))
        print(f"{name}: %.1f s, of the processors %.1f s" % seconds[name][-1], file=sys.stderr, flush=True)
    same = "yes" if torch.equal(results["local"], results["ray"]) else "NO"
    print("| rows | parts | layers | | two threads | two Ray workers | ratio | the same bits |\n" + 8 * "|---" + "|")
    for what, number in (("time, s", 0), ("processors, s", 1)):
        one, other = (min(times[number] for times in seconds[name]) for name in shards)
        print(
            f"| {settings.rows} x {settings.dim} | {settings.parts} | {settings.layers} | {what} | {one:.1f} | "
            f"{other:.1f} | {other / one:.2f} | {same} |"
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
    """Each group of blocks is added alone, as if on a machine of its own; the slowest counts. Best of five rounds."""
    import ray

    from remp.engine.ray import RayEngine
    from remp.rows.sharding import GROUP, add

    start_ray()
    torch.set_num_threads(1)
    engine, shape = RayEngine(), (settings.classes, settings.dim)
    a_row, megabytes = row_seconds(*shape), 2 * 8 * settings.classes * settings.dim / 1e6
    handle = [ray.put(_Sums(shape))]
    print(f"one thread: {1e6 * a_row:.1f} µs a row and layer ({settings.classes} classes, {settings.dim} dimensions)")
    print(
        "| workers | layer of 100 million rows, s | adding groups, ms | adding their sums, ms | share | "
        "network at 10 Gbit/s, ms, computed | share with it |\n" + 7 * "|---" + "|"
    )
    for workers in BLOCKS:
        made = [engine.begin(handle, number) for number in range(workers)]
        ray.wait(made, num_returns=workers, fetch_local=False)
        groups = [made[at : at + GROUP] for at in range(0, workers, GROUP)]
        one_step, other_step = min((_steps(engine, groups, add) for _ in range(5)), key=sum)
        messages = min(workers, GROUP) - 1 + len(groups)
        seconds, network, layer = one_step + other_step, messages * megabytes * 8e-4, a_row * ALL_ROWS / workers
        shares = [time / (time + layer) for time in (seconds, seconds + network)]
        print(
            f"| {workers} | {layer:.1f} | {1000 * one_step:.1f} | {1000 * other_step:.1f} | {shares[0]:.2%} | "
            f"{1000 * network:.1f} | {shares[1]:.2%} |",
            flush=True,
        )


def _steps(engine: Any, groups: list[list[Any]], add: Any) -> tuple[float, float]:
    """Seconds until the sum of a group is there, for the slowest group, and to fetch the sums and add them."""
    import ray

    sums, slowest = [], 0.0
    for group in groups:
        started = time.perf_counter()
        sums.append(engine.begin_sum(group))
        ray.wait(sums[-1:], fetch_local=False)
        slowest = max(slowest, time.perf_counter() - started)
    started = time.perf_counter()
    add(*(ray.get(reference) for reference in sums))
    return slowest, time.perf_counter() - started


class _Sums:
    """What a block sends for a layer."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape

    def __call__(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        return tuple(torch.full(self.shape, float(number), dtype=torch.float64) for _ in range(2))  # type: ignore[return-value]


# A worker killed


def killed(settings: argparse.Namespace, work: Path) -> None:
    """One of two workers is killed in the middle of a layer: how often blocks were begun, and the seconds it took."""
    import ray

    from remp.engine.ray import RayEngine

    start_ray()
    engine = RayEngine()
    n, seconds = settings.parts, 0.5
    print("| workers killed | parts | begun | seconds |\n" + 4 * "|---" + "|")
    for n_killed in (0, 1):
        notes = work / f"notes-{n_killed}"
        notes.mkdir()

        def kill(number: int, notes: Path = notes, n_killed: int = n_killed) -> None:
            if number == n // 2 and n_killed:
                os.kill(int(max(notes.iterdir(), key=lambda path: path.stat().st_mtime_ns).name.split("-")[1]), 9)

        if not n_killed:
            engine.total(_Slow(str(work), 0.5), list(range(-4, 0)), lambda number: None)  # both workers are up
        started = time.perf_counter()
        total = engine.total(_Slow(str(notes), seconds), list(range(n)), kill)
        took = time.perf_counter() - started
        assert float(total[0]) == sum(range(n))
        print(f"| {n_killed} | {n} | {len(list(notes.iterdir()))} | {took:.1f} |", flush=True)
    ray.shutdown()


class _Slow:
    """Notes who begins what, and takes its time."""

    def __init__(self, folder: str, seconds: float) -> None:
        self.folder, self.seconds = folder, seconds

    def __call__(self, number: int) -> torch.Tensor:
        Path(self.folder, f"{number}-{os.getpid()}-{time.time_ns()}").touch()
        time.sleep(self.seconds)
        return torch.full((100_000,), float(number), dtype=torch.float64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"embedding": embedding, "propagation": propagation, "reduction": reduction, "killed": killed}
    parser.add_argument("what", choices=parts)
    sizes = {"pictures": 5000, "side": 224, "rows": 1_000_000, "dim": 640, "parts": 32, "classes": 100, "layers": 10}
    sizes["rounds"] = 2
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--work", type=Path, help="folder for pictures and parts that are to be kept")
    parser.add_argument("--only", choices=["prepare"], help="make the data and end")
    settings = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        parts[settings.what](settings, Path(work))


if __name__ == "__main__":
    main()
