"""Speed of the readers of strangers' files on good input, against another version of remp: ratios within one run.

    git worktree add ../remp-before COMMIT
    python benchmarks/readers.py ../remp-before/src [--pairs 5] [--rounds 9] [--only csv]

Both versions read the same files in turn, each in a process of its own; the figure is the median of new time / old time
over the rounds of several pairs of processes, with its quartiles. The processes keep freed memory: whether the C
library happens to hand blocks back makes a reader faster or slower by half, in either version.
"""

import argparse
import io
import os
import pickle
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parents[1] / "src"
_KEEP_MEMORY = {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": str(2**29), "MALLOC_TRIM_THRESHOLD_": str(2**30)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of the readers, new against old.")
    parser.add_argument("old", type=Path, help="the folder src of the other version")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of processes, one of each version")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of each pair")
    parser.add_argument("--only", nargs="*", default=[], help="these readers")
    options = parser.parse_args()
    times: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        _run_worker(HERE, folder, "write")
        for _ in range(options.pairs):
            workers = {name: _Worker(source, folder) for name, source in (("new", HERE), ("old", options.old))}
            for reader in options.only or workers["new"].readers:
                times.setdefault(reader, []).extend(_times(reader, workers, options.rounds))
            for worker in workers.values():
                worker.close()
    print("| reader | new / old, median | quartiles | new, ms |\n|---|---|---|---|")
    for reader, both in times.items():
        print(_line(reader, both))


def _times(reader: str, workers: "dict[str, _Worker]", rounds: int) -> list[dict[str, float]]:
    for worker in workers.values():
        worker.seconds(reader)  # warm
    orders = [("new", "old") if number % 2 else ("old", "new") for number in range(rounds)]
    return [{name: workers[name].seconds(reader) for name in order} for order in orders]


def _line(reader: str, times: list[dict[str, float]]) -> str:
    low, middle, high = statistics.quantiles([both["new"] / both["old"] for both in times], n=4)
    new = 1000 * statistics.median(both["new"] for both in times)
    return f"| {reader} | {middle:.3f} | {low:.3f} … {high:.3f} | {new:.1f} |"


class _Worker:
    """A process with one version of remp."""

    def __init__(self, source: Path, folder: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--worker", folder, "read"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **_KEEP_MEMORY, "PYTHONPATH": str(source), "REMP_HOME": f"{folder}/home"},
        )
        assert self._process.stdout is not None
        self.readers = self._process.stdout.readline().split()

    def seconds(self, reader: str) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{reader}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def _run_worker(source: Path, folder: str, what: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(source), "REMP_HOME": f"{folder}/home"}
    subprocess.run([sys.executable, __file__, "--worker", folder, what], check=True, env=environment)


def _write(folder: Path) -> None:
    """Good files of each kind, of a size at which reading them takes tens of milliseconds."""
    import numpy as np
    import pyarrow
    import pyarrow.parquet
    from PIL import Image

    from remp.checkpoint import write_checkpoint
    from remp.config import make_config
    from remp.datasets.base import ImageSet
    from remp.episodes import EpisodeSampler, Protocol
    from remp.episodes.files import save_episodes
    from remp.trained import build_method

    random = np.random.default_rng(0)
    rows = random.integers(0, 256, (5000, 3072), dtype=np.uint8)
    labels = [int(label) for label in random.integers(0, 100, 5000)]
    content = pickle.dumps({b"data": rows, b"fine_labels": labels, b"filenames": [b"a.png"] * 5000}, 2)
    (folder / "train.pkl").write_bytes(content)
    for kind, size in (("PNG", 84), ("JPEG", 500)):
        pixels = random.integers(0, 256, (size // 4, size // 4, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((size, size)).save(folder / f"picture.{kind.lower()}", kind)
    picture = (folder / "picture.png").read_bytes()
    with tarfile.open(folder / "pictures.tar.gz", "w:gz") as archive:
        for number in range(300):
            member = tarfile.TarInfo(f"class{number % 10}/{number}.png")
            member.size = len(picture)
            archive.addfile(member, io.BytesIO(picture))
    values = random.normal(size=(20_000, 64)).astype(np.float32)
    np.savez_compressed(folder / "values.npz", values)
    pyarrow.parquet.write_table(pyarrow.table({"embedding": list(values)}), folder / "values.parquet")
    settings = {"data": "toy", "backbone": "resnet12"}  # and defaults, as not every version knows all settings
    config = make_config(settings)
    weights = {f"weights/{name}": t for name, t in build_method(config, (84, 84, 3), 64).state_dict().items()}
    info = {"config": settings, "n_classes": 64, "image_size": [84, 84, 3], "mean": [0.5] * 3, "std": [0.2] * 3}
    write_checkpoint(folder / "resnet12.safetensors", weights, info)
    np.save(folder / "values.npy", values)
    labels = np.repeat(np.arange(20), 100)
    images = ImageSet(
        "toys",
        "test",
        np.zeros((2000, 2, 2, 1), np.uint8),
        labels,
        tuple("abcdefghijklmnopqrst"),
        "f1" * 32,
        (0.5,),
        (1.0,),
    )
    sampler = EpisodeSampler(labels, Protocol(5, 1, 15), seed=3)
    save_episodes(folder / "x.episodes", sampler.sample(2000), sampler.protocol, images, seed=3)
    lines = "\n".join(f"photos/{number}.jpg,class{number % 7}" for number in range(50_000))
    (folder / "labels.csv").write_text(f"file,label\n{lines}\n")


def _readers(folder: Path) -> dict[str, Callable[[], object]]:
    """Imported here: each worker has its own remp."""
    import numpy as np

    from remp.datasets.archives import open_members
    from remp.datasets.decode import decode
    from remp.datasets.safe_pickle import as_text, load_pickle
    from remp.episodes.files import load_episodes
    from remp.labelling.embedding.cache import EmbeddingCache, KnownFiles, digest, identity
    from remp.labelling.tasks.embeddings import _open_array
    from remp.labelling.tasks.label_table import read_label_table
    from remp.models import load
    from remp.rows.parquet import ParquetRows

    def read_archive() -> None:
        members = open_members(folder / "pictures.tar.gz")
        for name in members.names():
            members.read(name)

    def unpickle() -> None:
        for _ in range(4):
            with (folder / "train.pkl").open("rb") as file:
                as_text(load_pickle(file, "train.pkl"))

    def pictures(name: str, size: int, times: int) -> Callable[[], None]:
        content = (folder / name).read_bytes()

        def read() -> None:
            for _ in range(times):
                decode(content, name, size)

        return read

    # Caches are of the version that wrote them.
    kept = Path(tempfile.mkdtemp(dir=folder))
    contents = [digest(number.to_bytes(4, "little")) for number in range(5000)]
    cache = EmbeddingCache(kept, "e" * 64, 64)
    cache.add(contents, np.load(folder / "values.npy")[:5000], np.arange(5000, dtype=np.uint64))
    cache.close()
    (kept / "files-to-know").mkdir()
    files = [kept / "files-to-know" / f"{number}.jpg" for number in range(1000)]
    known = KnownFiles(kept)
    for file, content in zip(files, contents, strict=False):
        file.touch()
        os.utime(file, (0, 0))
        found = identity(file)
        assert found is not None
        known.add(found, content)
    known.close()

    return {
        "pickle": unpickle,
        "archive": read_archive,
        "png-84": pictures("picture.png", 84, 100),
        "jpeg-500-to-84": pictures("picture.jpeg", 84, 60),
        "checkpoint-conv4": lambda: [load("cifar-fs-convnet64-1shot") for _ in range(5)],
        "checkpoint-resnet12": lambda: load(folder / "resnet12.safetensors"),
        "npz": lambda: _open_array(folder / "values.npz"),
        "parquet": lambda: sum(len(c) for c in ParquetRows(folder / "values.parquet", "embedding").chunks()),
        "episodes": lambda: load_episodes(folder / "x.episodes"),
        "embedding-cache": lambda: list(EmbeddingCache(kept, "e" * 64, 64).take(set(contents))),
        "known-files": lambda: KnownFiles(kept).contents([identity(file) for file in files]),
        "csv": lambda: read_label_table(folder / "labels.csv", ("file",)),
    }


def _serve(folder: Path) -> None:
    readers = _readers(folder)
    print(*readers, flush=True)
    for line in sys.stdin:
        started = time.process_time()
        readers[line.strip()]()
        print(time.process_time() - started, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        {"write": _write, "read": _serve}[sys.argv[3]](Path(sys.argv[2]))
    else:
        main()
