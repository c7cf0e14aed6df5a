"""Whether anything got slower since another version: processor seconds of scoring, drawing, labelling and training.

    git worktree add OLD COMMIT
    python benchmarks/against_version.py OLD/src [--rounds 5] [--data cifar-fs]

This version and the other one take turns, each time in a process of its own with one thread. Features are made up;
600 images of 20 classes, 5-way 1-shot with 15 queries per class. Labelling is `remp label --embeddings` of 20 classes
with 12 labels each, from reading the file to the report. Of each process the fastest of four repetitions
counts, and the table has the fastest of all rounds and the ratio of the two: those are what other work on the machine
disturbs least. Training is ReMP on ConvNet-64, 15-way 1-shot with 8 queries per class, in seconds on the clock.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).resolve()
SCORED = {256: (1000, ["remp"]), 640: (300, ["protonet", "laplacian-shot", "pt-map", "tim-adm", "remp"])}

LABELLED = ((1000, 1280), (3000, 1280), (10_000, 640), (50_000, 64))  # rows and their dimensions


def fastest(work: Callable[[], object]) -> float:
    """Processor seconds of the fastest of four repetitions, after one that does not count."""
    seconds = []
    for _ in range(5):
        started = time.process_time()
        work()
        seconds.append(time.process_time() - started)
    return min(seconds[1:])


def measured_here() -> dict[str, float]:
    """The seconds of whatever version of remp this process imports."""
    from remp.episodes import EpisodeSampler, Protocol
    from remp.methods import METHODS

    try:
        from remp.evaluation.evaluate import score_episodes
    except ImportError:  # version 0.1.0
        from remp.evaluation import score_episodes
    torch.set_num_threads(1)
    random, labels, seconds = np.random.default_rng(0), np.repeat(np.arange(20), 600), {}
    for dim, (n, names) in SCORED.items():
        centres = random.normal(size=(20, dim))
        rows = np.abs(centres[labels] + 1.5 * random.normal(size=(len(labels), dim)))
        features = torch.from_numpy(rows.astype(np.float32))
        episodes = EpisodeSampler(labels, Protocol(5, 1, 15), seed=0).sample(n)
        for name in names:
            method = METHODS[name]().eval()
            with torch.inference_mode():
                work = lambda method=method: score_episodes(method, episodes, features)  # noqa: B023, E731
                seconds[f"{name}, {n} tasks of {dim} dimensions"] = fastest(work)
    seconds["draw 2,000 episodes"] = fastest(lambda: EpisodeSampler(labels, Protocol(5, 1, 15), seed=0).sample(2000))
    for n, dim in LABELLED:
        with tempfile.TemporaryDirectory() as folder:
            seconds[f"label {n:,} rows of {dim:,} dimensions"] = fastest(labelling(Path(folder), n, dim))
    return seconds


def labelling(folder: Path, n: int, dim: int) -> Callable[[], object]:
    """The command that labels n rows in a folder, to be called as often as one likes."""
    from remp.cli import main as remp

    random, results = np.random.default_rng(0), count()
    classes = random.integers(0, 20, n)
    rows = random.normal(size=(20, dim))[classes] * 0.3 + random.normal(size=(n, dim))
    np.save(folder / "rows.npy", np.maximum(rows, 0).astype(np.float32))
    given = [f"{row},{number}" for number in range(20) for row in np.flatnonzero(classes == number)[:12]]
    (folder / "labels.csv").write_text("\n".join(["row,label", *given]), encoding="utf-8")

    def label() -> None:
        out = folder / f"result-{next(results)}"
        sys.argv = ["remp", "label", "--embeddings", f"{folder}/rows.npy", "--labels", f"{folder}/labels.csv"]
        sys.argv += ["--out", str(out)]
        with contextlib.suppress(SystemExit):
            remp()
        assert (out / "labels.csv").is_file()

    return label


def in_child(source: Path, data: str) -> dict[str, float]:
    """The same, and a training step, of the version in `source`."""
    variables = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}

    def last_line(*command: str | Path) -> dict[str, float]:
        done = subprocess.run([sys.executable, *command], env=variables, check=True, capture_output=True, text=True)
        return json.loads(done.stdout.splitlines()[-1])

    seconds = last_line(HERE, "--child", source)
    step = source.parent / "benchmarks" / "training_step.py"
    seconds["a training step"] = last_line(step, "--child", "remp", "--steps", "12", "--data", data)["seconds"]
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path, help="the folder src of the other version")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", default="cifar-fs", help="a prepared data set to train on")
    parser.add_argument("--child", action="store_true")
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(measured_here()))
        return
    sides = {"before": arguments.old.resolve(), "now": HERE.parents[1] / "src"}
    rounds = [
        {side: in_child(source, arguments.data) for side, source in sides.items()} for _ in range(arguments.rounds)
    ]
    print("| what | before, s | now, s | ratio |\n|---|---|---|---|")
    for what in rounds[0]["now"]:
        before, now = (min(turn[side][what] for turn in rounds) for side in sides)
        print(f"| {what} | {before:.3f} | {now:.3f} | {now / before:.2f} |")


if __name__ == "__main__":
    main()
