"""The CIFAR-FS rows: ReMP and ProtoNet on the same test episodes, with and without the feature transform.

    python results/cifar_fs.py [--runs runs] [--n-episodes 2000]

Reads the two shipped models and the two ProtoNets from runs/cifar-fs-protonet-{1,5}shot. Writes results/cifar-fs.json
(each row with mean, interval, n, seed, hashes and settings) and results/cifar-fs.md (the table).
"""

import argparse
import json
from pathlib import Path

from remp.datasets import open_data
from remp.episodes import Protocol
from remp.evaluation.evaluate import evaluate
from remp.evaluation.result import Result
from remp.evaluation.statistics import paired_difference
from remp.models import load

HERE = Path(__file__).parent
SEED = 2021


def rows_of(n_shot: int, runs: Path, n_episodes: int) -> tuple[list[tuple[str, Result]], list[str]]:
    """Labelled results on the same episodes, and sentences on their paired differences."""
    images, protocol = open_data("cifar-fs", "test"), Protocol(5, n_shot, 15)
    remp, protonet = load(f"cifar-fs-convnet64-{n_shot}shot"), load(runs / f"cifar-fs-protonet-{n_shot}shot")
    rectified_off = load(f"cifar-fs-convnet64-{n_shot}shot", layers=0)

    def run(trained: object, transform: str) -> Result:
        return evaluate(trained, images, protocol, n_episodes=n_episodes, seed=SEED, transform=transform)  # type: ignore[arg-type]

    rows = [
        ("ProtoNet", run(protonet, "none")),
        ("ReMP without rectification (L = 0)", run(rectified_off, "none")),
        ("ReMP", run(remp, "none")),
        ("ProtoNet, transform", run(protonet, "all")),
        ("ReMP, transform", run(remp, "all")),
    ]
    by_name = dict(rows)
    difference = paired_difference(by_name["ReMP"].accuracies, by_name["ProtoNet"].accuracies)
    return rows, [f"{n_shot}-shot: ReMP - ProtoNet, no transform on either, same episodes: {difference.percent()}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--n-episodes", type=int, default=2000)
    arguments = parser.parse_args()
    table, sentences, saved = {}, [], []
    for n_shot in (1, 5):
        rows, said = rows_of(n_shot, arguments.runs, arguments.n_episodes)
        sentences += said
        for name, result in rows:
            table.setdefault(name, []).append(result.estimate.percent())
            summary = {k: v for k, v in result.as_dict().items() if k != "accuracies"}
            saved.append({"row": name, **summary})
            print(f"{n_shot}-shot  {name:36} {result.estimate.percent()}", flush=True)
    lines = [
        "# CIFAR-FS with ConvNet-64\n",
        f"CIFAR-FS test classes, ConvNet-64, 5-way, 15 queries per class, n = {arguments.n_episodes} episodes "
        f"(seed {SEED}), mean and 95 % interval. Command: `python results/cifar_fs.py`.",
        "",
        "| method | 1-shot | 5-shot |",
        "|---|---|---|",
        *(f"| {name} | {one} | {five} |" for name, (one, five) in table.items()),
        "",
        *(f"- {sentence}" for sentence in sentences),
    ]
    (HERE / "cifar-fs.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (HERE / "cifar-fs.json").write_text(json.dumps({"rows": saved, "paired": sentences}, indent=1), encoding="utf-8")
    print("\n".join(sentences))


if __name__ == "__main__":
    main()
