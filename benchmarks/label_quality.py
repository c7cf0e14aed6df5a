"""How far the judgement of a labelling can be trusted, on tasks of real pictures whose truth is known.

    remp data prepare cifar-fs
    python benchmarks/label_quality.py coverage --features lite0 [--split test] [--tasks 300] [--backbone NAME]
    python benchmarks/label_quality.py unknown  --features lite0 [--tasks 60]
    python benchmarks/label_quality.py next     --features lite0 [--tasks 24]
    python benchmarks/label_quality.py doubtful --features lite0 [--tasks 60]

Every table is of seeded tasks of classes of CIFAR-FS: 2 to 20 classes, 1 to 20 labels per class, 15 to 80 unlabelled
pictures per class; half of the tasks have unequal labels and sizes (Dirichlet, concentration 2). The truth is only
looked at to score. The folder of `--features` keeps the embeddings, which take minutes to make.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from label_tasks import Pictures, TrueTask, draw_task, load

from remp.evaluation.statistics import Estimate, paired_difference
from remp.labelling.outcome import STATUSES
from remp.labelling.pipeline import LabelOptions, label_rows
from remp.labelling.tasks import Items
from remp.models import DEFAULT_EMBEDDER
from remp.propagation.adaptive import adapt
from remp.rows import ArrayRows


def coverage(pictures: Pictures, n_tasks: int) -> dict[str, float]:
    """How often the 90 % interval holds the true accuracy, how wide it is, and how right probabilities are."""
    covered, widths, errors, single, shares, right = [], [], [], [], [], []
    probability, correct = [], []
    for seed in range(n_tasks):
        true = draw_task(pictures, np.random.default_rng(seed))
        outcome = true.labelled(reject=0.9)
        rest = ~true.task.is_labelled
        hits, estimate = (outcome.best == true.truth)[rest], outcome.estimate
        if estimate is not None:  # none is stated where it would say little
            covered.append(estimate.low <= hits.mean() <= estimate.high)
            widths.append(estimate.high - estimate.low)
            errors.append(abs(estimate.accuracy - hits.mean()))
            single.append(np.bincount(true.task.labels[~rest]).max() == 1)
        accepted = (outcome.status == STATUSES.index("labelled"))[rest]
        shares.append(accepted.mean())
        right.append(hits[accepted])
        probability.append(outcome.probability[rest])
        correct.append(hits)
    held, alone = np.array(covered), np.array(single)
    return {
        "tasks": n_tasks,
        "with an estimate %": 100 * len(covered) / n_tasks,
        "covered %": 100 * held.mean(),
        "mean width": float(np.mean(widths)),
        "mean error of the estimate": float(np.mean(errors)),
        "of these with one label per class": int(alone.sum()),
        "  of these covered %": 100 * held[alone].mean() if alone.any() else float("nan"),
        "  their mean width": float(np.array(widths)[alone].mean()) if alone.any() else float("nan"),
        "other tasks, covered %": 100 * held[~alone].mean(),
        "other tasks, mean width": float(np.array(widths)[~alone].mean()),
        "accuracy %": 100 * float(np.mean([part.mean() for part in correct])),
        "calibration error %": 100 * calibration_error(np.concatenate(probability), np.concatenate(correct)),
        "  95 % of perfect probabilities are below": 100 * perfect_error(np.concatenate(probability)),
        "labelled at reject 0.9 %": 100 * float(np.mean(shares)),
        "accuracy of these %": 100 * float(np.concatenate(right).mean()),
    }


def calibration_error(probability: np.ndarray, correct: np.ndarray, n_bins: int = 15) -> float:
    """The expected calibration error: |mean probability - share correct| of bins of equal width, weighted by size."""
    bins = np.minimum((probability * n_bins).astype(int), n_bins - 1)
    gaps = [abs((probability[bins == number] - correct[bins == number]).sum()) for number in range(n_bins)]
    return float(sum(gaps) / len(probability))


def perfect_error(probability: np.ndarray, n_draws: int = 200) -> float:
    """What the calibration error of exact probabilities is below in 95 % of draws: it is above 0 by chance alone."""
    random = np.random.default_rng(0)
    draws = [calibration_error(probability, random.random(len(probability)) < probability) for _ in range(n_draws)]
    return float(np.quantile(draws, 0.95))


def unknown(pictures: Pictures, n_tasks: int) -> dict[str, float]:
    """Strangers of three other classes among the unlabelled: how many are called unknown, and how many others are."""
    caught, alarms, quiet = [], [], []
    for seed in range(n_tasks):
        share = 0.2 if seed % 2 else 0.0
        true = draw_task(pictures, np.random.default_rng(seed), ways=(2, 3, 5, 10), strangers=share)
        is_unknown = true.labelled().status == STATUSES.index("unknown")
        known = ~true.task.is_labelled & (true.truth >= 0)
        (alarms if share else quiet).append(is_unknown[known].mean())
        if share:
            caught.append(is_unknown[true.truth < 0].mean())
    return {
        "tasks": n_tasks,
        "known called unknown, no strangers %": 100 * float(np.mean(quiet)),
        "known called unknown, 20 % strangers %": 100 * float(np.mean(alarms)),
        "strangers called unknown %": 100 * float(np.mean(caught)),
    }


def label_next(pictures: Pictures, n_tasks: int, n_rounds: int = 5) -> dict[str, Any]:
    """From one label per class, five rounds of ten labels: advice against random choice, scored on other pictures."""
    scores = {"advice": np.zeros((n_tasks, n_rounds + 1)), "random": np.zeros((n_tasks, n_rounds + 1))}
    for seed in range(n_tasks):
        drawn = draw_task(pictures, np.random.default_rng(seed), ways=(5, 10), shots=(1,), sizes=(80,))
        is_test = (np.random.default_rng(seed).random(len(drawn.truth)) < 0.5) & ~drawn.task.is_labelled
        for name, values in scores.items():
            values[seed] = _rounds(drawn, is_test, name == "advice", n_rounds, np.random.default_rng(seed))
    means = {name: values[:, 1:].mean(1) for name, values in scores.items()}
    return {
        "tasks": n_tasks,
        **{f"{name}, start and rounds %": (100 * values.mean(0)).round(1) for name, values in scores.items()},
        "mean of the rounds, advice - random": paired_difference(means["advice"], means["random"]),
        "last round, advice - random": paired_difference(scores["advice"][:, -1], scores["random"][:, -1]),
    }


def _rounds(
    drawn: TrueTask, is_test: np.ndarray, advised: bool, n_rounds: int, random: np.random.Generator
) -> np.ndarray:
    """Accuracy on the test pictures before the first and after every round (n_rounds + 1,)."""
    pool, labels = drawn.rows[~is_test], drawn.task.labels[~is_test].copy()
    names, accuracies = tuple(map(str, range(len(pool)))), []
    for number in range(n_rounds + 1):
        if number:
            task = Items(names, labels, drawn.task.class_names)
            outcome = label_rows(task, ArrayRows(pool), LabelOptions(n_next=10)) if advised else None
            chosen = [one.item for one in outcome.label_next] if outcome else _any(labels, random)
            labels = labels.copy()
            labels[chosen] = drawn.truth[~is_test][chosen]
        adapted = adapt(ArrayRows(pool), labels, len(drawn.task.class_names))
        answers = adapted.logits(torch.from_numpy(drawn.rows[is_test])).argmax(-1).numpy()
        accuracies.append((answers == drawn.truth[is_test]).mean())
    return np.array(accuracies)


def _any(labels: np.ndarray, random: np.random.Generator) -> np.ndarray:
    return random.choice(np.flatnonzero(labels < 0), 10, replace=False)


def doubtful(pictures: Pictures, n_tasks: int) -> dict[str, float]:
    """One label of a task is made wrong: how often it is found, and how many right ones are suspected."""
    found, suspected = [], []
    for seed in range(n_tasks):
        random = np.random.default_rng(seed)
        true = draw_task(pictures, random, ways=(3, 5, 10), shots=(3, 5, 10))
        labelled, labels = np.flatnonzero(true.task.is_labelled), true.task.labels.copy()
        wrong = random.choice(labelled[np.bincount(labels[labelled])[labels[labelled]] > 1])
        labels[wrong] = (labels[wrong] + 1) % len(true.task.class_names)
        findings = true.with_labels(labels).labelled().findings
        items = {item for finding in findings if finding.kind == "suspicious label" for item in finding.items}
        found.append(wrong in items)
        suspected.append(len(items - {wrong}) / (len(labelled) - 1))
    return {
        "tasks": n_tasks,
        "wrong labels found %": 100 * float(np.mean(found)),
        "right labels suspected %": 100 * float(np.mean(suspected)),
    }


TABLES: dict[str, Callable[[Pictures, int], dict[str, Any]]] = {
    "coverage": coverage,
    "unknown": unknown,
    "next": label_next,
    "doubtful": doubtful,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--split", default="val")
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--backbone", default=DEFAULT_EMBEDDER)
    parser.add_argument("--features", type=Path, required=True, help="folder that keeps the features of this backbone")
    arguments = parser.parse_args()
    pictures = load(arguments.split, arguments.backbone, arguments.features)
    print(f"{arguments.table}: {arguments.backbone}, {arguments.split} classes of CIFAR-FS")
    for name, value in TABLES[arguments.table](pictures, arguments.tasks).items():
        text = value.percent() if isinstance(value, Estimate) else str(np.round(value, 3))
        print(f"{name:<42}{text}")


if __name__ == "__main__":
    main()
