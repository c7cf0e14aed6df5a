"""Speed of the readers of strangers' files on good input, against another version of remp: ratios within one run.

    git worktree add ../remp-before COMMIT
    python benchmarks/readers.py ../remp-before/src [--rounds 15] [--only csv]

Both versions read the same files in turn, each in a process of its own that stays; the figure is the median over the
rounds of new time / old time, with its quartiles.
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


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of the readers, new against old.")
    parser.add_argument("old", type=Path, help="the folder src of the other version")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", nargs="*", default=[], help="these readers")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _run_worker(HERE, folder, "write")
        workers = {name: _Worker(source, folder) for name, source in (("new", HERE), ("old", options.old))}
        print("| reader | new / old, median | quartiles | new, ms |\n|---|---|---|---|")
        for reader in options.only or workers["new"].readers:
            print(_line(reader, workers, options.rounds), flush=True)


def _line(reader: str, workers: "dict[str, _Worker]", rounds: int) -> str:
    for worker in workers.values():
        worker.seconds(reader)  # warm
    times = []
    for number in range(rounds):
        order = ("new", "old") if number % 2 else ("old", "new")
        times.append({name: workers[name].seconds(reader) for name in order})
    ratios = [both["new"] / both["old"] for both in times]
    low, middle, high = statistics.quantiles(ratios, n=4)
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
            env={**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "REMP_HOME": f"{folder}/home"},
        )
        assert self._process.stdout is not None
        self.readers = self._process.stdout.readline().split()

    def seconds(self, reader: str) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{reader}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())


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
    lines = "\n".join(f"photos/{number}.jpg,class{number % 7}" for number in range(50_000))
    (folder / "labels.csv").write_text(f"file,label\n{lines}\n")


def _readers(folder: Path) -> dict[str, Callable[[], object]]:
    """Imported here: each worker has its own remp. What moved between versions is looked for in both places."""
    from remp.datasets.archives import open_members
    from remp.datasets.decode import decode
    from remp.datasets.safe_pickle import as_text, load_pickle
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

    return {
        "pickle": unpickle,
        "archive": read_archive,
        "png-84": pictures("picture.png", 84, 100),
        "jpeg-500-to-84": pictures("picture.jpeg", 84, 60),
        "checkpoint-conv4": lambda: [load("cifar-fs-convnet64-1shot") for _ in range(5)],
        "checkpoint-resnet12": lambda: load(folder / "resnet12.safetensors"),
        "npz": lambda: _open_array(folder / "values.npz"),
        "parquet": lambda: sum(len(c) for c in ParquetRows(folder / "values.parquet", "embedding").chunks()),
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
