"""Choose the settings of rectification on validation classes, and log every try.

    python results/choose_on_validation.py CHECKPOINT --n-shot 1 --transform none --out results/tries/NAME.csv

Embeds the validation images once and scores the same episodes for each combination of settings below. Writes a CSV with
one line a try, best first, and prints the best ten. The test split is not opened.
"""

import argparse
import csv
import itertools
from pathlib import Path

from remp.datasets import open_data
from remp.episodes import Protocol
from remp.evaluation.evaluate import draw_episodes, embed, score_embedded
from remp.evaluation.statistics import mean_interval
from remp.methods import METHODS
from remp.models import load
from remp.rectification.transform import FeatureTransform

GRID = {
    "projection": ["absent"],
    "repulsion": ["negative", "zero", "none"],
    "scale": [5.0, 10.0, 20.0],
    "layers": [2, 5, 10],
    "step": [0.3, 1.0],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint")
    parser.add_argument("--n-shot", type=int, default=1)
    parser.add_argument("--n-episodes", type=int, default=2000)
    parser.add_argument("--transform", default="none")
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    trained, transform = load(arguments.checkpoint), FeatureTransform.parse(arguments.transform)
    images = open_data(trained.config.data, "val")
    features = embed(trained.method, images.images, trained.normalisation, transform)
    protocol = Protocol(5, arguments.n_shot, 15)
    episodes = draw_episodes(images, protocol, n_episodes=arguments.n_episodes, seed=arguments.seed)
    rows = []
    for values in itertools.product(*GRID.values()):
        settings = dict(zip(GRID, values, strict=True))
        method = METHODS["remp"](**settings)
        estimate = mean_interval(score_embedded(method, episodes, features, transform))
        rows.append({**settings, "accuracy": round(estimate.mean, 5), "half_width_95": round(estimate.half_width, 5)})
    rows.sort(key=lambda row: -row["accuracy"])
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with arguments.out.open("w", newline="", encoding="utf-8") as file:
        file.write(
            f"# {arguments.checkpoint}, validation classes, 5-way {arguments.n_shot}-shot 15 queries, "
            f"n = {arguments.n_episodes}, seed {arguments.seed}, transform {transform}\n"
        )
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    for row in rows[:10]:
        print(row)


if __name__ == "__main__":
    main()
