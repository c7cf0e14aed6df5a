"""Labels one can rely on: any proportions, one label or fifty, wrong labels, strangers; with rivals on the same draws.

    python benchmarks/label_robustness.py FEATURES.npz ... [--split 1] [--draws 10] [--out results/robustness]

FEATURES.npz holds x (n, d) features, y (n,) classes and s (n,) the half that a row belongs to: 0 to choose settings on,
1 to be scored once. Every row of a table is a kind of task at a number of labels per class, its columns are methods on
the same draws; rows with wrong labels, strangers, easy labels or classes that are alike have no rivals. Written to
--out: NAME.md with the table of a feature set, NAME.png with its coverage plot, README.md with one line per set and the
rows over all sets.

Rivals were tuned on the first halves of seventeen feature sets together (results/tries/robustness.md): logistic
regression, the nearest class mean, label spreading and self-training.
"""

import argparse
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from label_quality import calibration_error
from scipy.special import stdtrit
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from remp.labelling.outcome import STATUSES
from remp.labelling.pipeline import LabelOptions, label_rows
from remp.labelling.tasks import Items
from remp.rectification.propagate import Propagation, propagate
from remp.rows import ArrayRows

# Unlabelled rows of each class; the classes take them in random order.
SIZES: dict[str, list[int]] = {
    "2 classes, 50 : 50": [50, 50],
    "2 classes, 50 : 10": [50, 10],
    "2 classes, 50 : 2": [50, 2],
    "2 classes, 50 : 0": [50, 0],
    "10 classes, 2 present": [50, 50] + [0] * 8,
    "10 classes, long tail 50 … 2": [round(50 * 0.04 ** (place / 9)) for place in range(10)],
    "10 classes, balanced": [50] * 10,
    "all classes, balanced": [],
}
SHOTS = (1, 2, 5, 10, 20, 50)
ALIKE = "classes that are alike"
VARIANTS = ("", "10 % wrong labels", "10 % strangers", "labels from the easy end", ALIKE)
MIXED = ("2 classes, 50 : 10", "10 classes, long tail 50 … 2", "10 classes, balanced")  # with every variant


@dataclass(frozen=True)
class Draw:
    """rows: (n, d). given: (n,) labels with -1, some of which may be wrong. truth: (n,), -1 for a stranger."""

    rows: np.ndarray
    given: np.ndarray
    truth: np.ndarray
    n_classes: int

    @property
    def free(self) -> np.ndarray:
        return self.given < 0


def draw_task(
    x: np.ndarray, y: np.ndarray, sizes: list[int], n_shot: int, variant: str, random: np.random.Generator
) -> Draw | None:
    """None where the set has too few classes or rows for it."""
    classes = random.permutation(np.unique(y))
    sizes = sizes or [50] * min(len(classes), 100)
    if len(sizes) + (variant == ALIKE) > len(classes):
        return None
    if variant == ALIKE:
        classes = random.permutation(classes[nearest_means(x, y, classes)[: len(sizes)]])
    chosen, sizes = classes[: len(sizes)], list(random.permutation(sizes))
    room = min(int((y == label).sum()) for label in chosen) - n_shot
    if room < 5:
        return None
    shrink = min(1.0, room / max(sizes))
    rows, given, truth = [], [], []
    for number, label in enumerate(chosen):
        own = random.permutation(np.flatnonzero(y == label))
        if variant == "labels from the easy end":
            distances = np.linalg.norm(x[own] - x[own].mean(0), axis=1)
            easy = own[np.argsort(distances)[: max(n_shot, len(own) // 2)]]
            shown = random.permutation(easy)[:n_shot]
        else:
            shown = own[:n_shot]
        others = own[~np.isin(own, shown)][: int(np.ceil(sizes[number] * shrink))]
        rows += [shown, others]
        given += [np.full(n_shot, number), np.full(len(others), -1)]
        truth.append(np.full(n_shot + len(others), number))
    if variant == "10 % strangers":
        if len(classes) == len(chosen):
            return None
        n = max(1, round(sum(len(part) for part in rows[1::2]) / 9))
        strangers = random.permutation(np.flatnonzero(np.isin(y, classes[len(chosen) : len(chosen) + 3])))[:n]
        rows.append(strangers)
        given.append(np.full(len(strangers), -1))
        truth.append(np.full(len(strangers), -1))
    labels = np.concatenate(given)
    if variant == "10 % wrong labels":
        labelled = np.flatnonzero(labels >= 0)
        wrong = random.permutation(labelled)[: round(0.1 * len(labelled))]
        labels[wrong] = (labels[wrong] + random.integers(1, len(chosen), len(wrong))) % len(chosen)
        if len(wrong) == 0 or len(np.unique(labels[labelled])) < len(chosen):
            return None
    return Draw(x[np.concatenate(rows)], labels, np.concatenate(truth), len(chosen))


def nearest_means(x: np.ndarray, y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Places of the classes, the first one first, then by how near their means are to its mean, all as seen from the
    mean of all means."""
    means = np.stack([_unit(x[y == label]).mean(0) for label in classes])
    means = _unit(means - means.mean(0))
    return np.argsort(-(means @ means[0]), kind="stable")


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def _centred(draw: Draw) -> np.ndarray:
    """Rooted, of norm 1, minus the mean of all rows, of norm 1 again."""
    rooted = _unit(np.sign(draw.rows) * np.sqrt(np.abs(draw.rows)))
    return _unit(rooted - rooted.mean(0))


def logistic_regression(draw: Draw) -> np.ndarray:
    rows, known = _unit(draw.rows), ~draw.free
    if known.sum() < rows.shape[1]:  # the weights lie in the span of the labelled rows: the same, but faster
        rows = rows @ np.linalg.qr(rows[known].T)[0]
    return LogisticRegression(C=10, max_iter=200).fit(rows[known], draw.given[known]).predict(rows)


def nearest_class_mean(draw: Draw) -> np.ndarray:
    rows = _unit(draw.rows)
    means = np.stack([rows[draw.given == number].mean(0) for number in range(draw.n_classes)])
    return (2 * rows @ means.T - (means**2).sum(1)).argmax(1)


def label_spreading(draw: Draw) -> np.ndarray:
    return LabelSpreading("rbf", gamma=10, alpha=0.8, max_iter=60).fit(_centred(draw), draw.given).transduction_


def self_training(draw: Draw) -> np.ndarray:
    rows = _unit(draw.rows)
    if len(rows) < rows.shape[1]:
        rows = rows @ np.linalg.qr(rows.T)[0]
    model = SelfTrainingClassifier(LogisticRegression(C=10, max_iter=200), threshold=0.9)
    return model.fit(rows, draw.given).predict(rows)


def paper_rule(draw: Draw) -> np.ndarray:
    """What was the default before the adaptive rule, but for the smaller weight of few labels."""
    n_shot = np.bincount(draw.given[~draw.free]).min()
    settings = Propagation(label_share=min(0.5, n_shot / (n_shot + 10)))
    propagated = propagate(ArrayRows(draw.rows), draw.given, draw.n_classes, settings)
    return propagated.logits(torch.from_numpy(draw.rows)).argmax(1).numpy()


RIVALS: dict[str, Callable[[Draw], np.ndarray]] = {
    "logistic regression": logistic_regression,
    "nearest class mean": nearest_class_mean,
    "label spreading": label_spreading,
    "self-training": self_training,
}


def score(draw: Draw, with_rivals: bool) -> dict[str, Any]:
    """All that is measured of one draw."""
    names = tuple(map(str, range(len(draw.given))))
    task = Items(names, draw.given, tuple(map(str, range(draw.n_classes))))
    labelling = label_rows(task, ArrayRows(draw.rows), LabelOptions(n_next=0))
    assert labelling is not None
    free, known = draw.free, draw.free & (draw.truth >= 0)
    hits = labelling.best == draw.truth
    found: dict[str, Any] = {"remp": hits[free].mean(), "left out": labelling.rectified == 0}
    for name, rival in (RIVALS | {"paper's rule": paper_rule}).items() if with_rivals else ():
        found[name] = (rival(draw) == draw.truth)[free].mean()
    estimate = labelling.estimate
    if estimate is not None:
        found |= {"stated": estimate.accuracy, "low": estimate.low, "high": estimate.high}
    found["probability"], found["hit"] = labelling.probability[known].round(4).tolist(), hits[known].tolist()
    is_wrong = ~free & (draw.given != draw.truth)
    suspected = np.zeros(len(free), bool)
    suspected[[item for one in labelling.findings if one.kind == "suspicious label" for item in one.items]] = True
    found["wrong"] = [int((suspected & is_wrong).sum()), int(is_wrong.sum())]
    found["right"] = [int((suspected & ~is_wrong).sum()), int((~free & ~is_wrong).sum())]
    unknown, strange = labelling.status == STATUSES.index("unknown"), free & (draw.truth < 0)
    found["strangers"] = [int((unknown & strange).sum()), int(strange.sum())]
    found["alarms"] = [int((unknown & known).sum()), int(known.sum())]
    return found


def measure(x: np.ndarray, y: np.ndarray, n_draws: int, shots: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """One entry per kind of task, number of labels and variant."""
    for kind, sizes in SIZES.items():
        for n_shot in shots:
            for variant in VARIANTS if kind in MIXED else VARIANTS[:1]:
                draws = [
                    draw_task(x, y, sizes, n_shot, variant, np.random.default_rng([seed, n_shot, len(kind)]))
                    for seed in range(n_draws)
                ]
                scores = [score(draw, not variant) for draw in draws if draw is not None]
                if scores:
                    print(f"{kind}, {n_shot} labels, {variant or 'plain'}", flush=True)
                    yield _summary(kind, n_shot, variant, scores)


def _summary(kind: str, n_shot: int, variant: str, scores: list[dict[str, Any]]) -> dict[str, Any]:
    methods = [name for name in ("remp", "paper's rule", *RIVALS) if name in scores[0]]
    stated = [one for one in scores if "low" in one]
    probability, hit = (np.concatenate([one[name] for one in scores]) for name in ("probability", "hit"))
    return {
        "kind": kind,
        "labels": n_shot,
        "variant": variant,
        "draws": len(scores),
        **{name: 100 * float(np.mean([one[name] for one in scores])) for name in methods},
        **_behind(scores),
        "stated": len(stated),
        "covered": 100 * float(np.mean([one["low"] <= one["remp"] <= one["high"] for one in stated]))
        if stated
        else None,
        "width": 100 * float(np.mean([one["high"] - one["low"] for one in stated])) if stated else None,
        "probability": probability,
        "hit": hit,
        "ece": 100 * calibration_error(probability, hit),
        "left out": sum(one["left out"] for one in scores),
        **{
            name: np.sum([one[name] for one in scores], 0).tolist()
            for name in ("wrong", "right", "strangers", "alarms")
        },
        "intervals": [[one["stated"], one["low"], one["high"], float(one["remp"])] for one in stated],
    }


def _behind(scores: list[dict[str, Any]]) -> dict[str, float | None]:
    """Points that the best rival is ahead, by the means of all draws; less than 0 if we are. Then half of the 95 %
    interval of that, paired by draw."""
    if not all(name in scores[0] for name in RIVALS):
        return {"behind": None, "behind ±": None}
    best = max(RIVALS, key=lambda name: np.mean([one[name] for one in scores]))
    ahead = 100 * np.array([one[best] - one["remp"] for one in scores])
    half_width = (
        float(stdtrit(len(ahead) - 1, 0.975) * ahead.std(ddof=1) / len(ahead) ** 0.5) if len(ahead) > 1 else np.inf
    )
    return {"behind": float(ahead.mean()), "behind ±": half_width}


def table(rows: list[dict[str, Any]], title: str) -> str:
    """Markdown: accuracy of all methods, how far we are behind the best rival, coverage, width, calibration error."""
    names = ["remp", "paper's rule", *RIVALS]
    head = ["task", "labels", *names, "behind the best rival", "stated", "holds the truth", "width", "ECE"]
    lines = [f"## {title}", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        task = f"{row['kind']}, {row['variant']}" if row["variant"] else row["kind"]
        cells = [task, str(row["labels"]), *(f"{row[name]:.1f}" if name in row else "" for name in names)]
        cells += [
            "" if row["behind"] is None else f"{row['behind']:+.1f} ± {row['behind ±']:.1f}",
            f"{row['stated']} of {row['draws']}",
        ]
        cells += [_percent(row["covered"]), _percent(row["width"]), f"{row['ece']:.1f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *_shares(rows), ""])


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} %"


def _shares(rows: list[dict[str, Any]]) -> list[str]:
    many = [row for row in rows if row["labels"] >= 5]
    wrong, right = (
        np.sum([row[name] for row in many if row["variant"] == "10 % wrong labels"] or [[0, 0]], 0)
        for name in ("wrong", "right")
    )
    strangers, alarms = (
        np.sum([row[name] for row in many if row["variant"] == "10 % strangers"] or [[0, 0]], 0)
        for name in ("strangers", "alarms")
    )
    lines = [
        f"Wrong labels found, 5 and more labels: {_ratio(wrong)}; right ones suspected: {_ratio(right)}.",
        f"Strangers found, 5 and more labels: {_ratio(strangers)}; others called unknown: {_ratio(alarms)}.",
    ]
    compared = [row for row in rows if row["behind"] is not None]
    worst = max(compared, key=lambda row: row["behind"])
    behind, surely = _counts_behind(compared)
    lines.append(
        f"More than a point behind the best rival in {behind} of {len(compared)} rows, at most {worst['behind']:.1f} "
        f"({worst['kind']}, {worst['labels']} labels); in {surely} of them the whole interval is above one point."
    )
    return [f"- {line}" for line in lines]


def _counts_behind(rows: list[dict[str, Any]]) -> tuple[int, int]:
    """How many rows are more than a point behind the best rival, and how many with the whole interval."""
    return sum(row["behind"] > 1 for row in rows), sum(row["behind"] - row["behind ±"] > 1 for row in rows)


def _ratio(counts: np.ndarray) -> str:
    return f"{100 * counts[0] / counts[1]:.1f} % of {counts[1]}" if counts[1] else "none there"


def plot_coverage(rows: list[dict[str, Any]], path: Path, title: str) -> None:
    """Stated against true accuracy, each with its interval; a good one touches the diagonal."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5, 5), layout="constrained")
    axes.plot([0, 1], [0, 1], color="grey", linewidth=1)
    for held, colour in ((True, "tab:blue"), (False, "tab:red")):
        values = np.array(
            [v for row in rows for v in row["intervals"] if (v[1] <= v[3] <= v[2]) == held] or np.empty((0, 4))
        )
        errors = [np.maximum(values[:, 0] - values[:, 1], 0), np.maximum(values[:, 2] - values[:, 0], 0)]
        label = "interval holds the truth" if held else "does not"
        axes.errorbar(values[:, 3], values[:, 0], errors, fmt=".", color=colour, alpha=0.3, label=label)
    axes.set(xlabel="true accuracy", ylabel="stated accuracy, 90 % interval", title=title, xlim=(0, 1), ylim=(0, 1))
    axes.legend()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def summary(found: dict[str, list[dict[str, Any]]], draws: int) -> str:
    """Markdown: one line per feature set, then every kind of task and number of labels, as means over the sets."""
    head = [
        "feature set",
        "rows",
        "behind by more than 1",
        "with its whole interval",
        "mean difference to the best rival",
    ]
    head += [
        "to the previous rule",
        "interval holds the truth",
        "wrong labels found",
        "right ones suspected",
        "strangers found",
        "others unknown",
    ]
    lines = ["# Labels for any proportions: all feature sets", "", f"Second halves, {draws} draws.", ""]
    lines += [_line(head), "|" + "---|" * len(head)]
    for name, rows in found.items():
        many, plain = [row for row in rows if row["labels"] >= 5], [row for row in rows if row["behind"] is not None]
        held = [low <= true <= high for row in rows for _, low, high, true in row["intervals"]]
        wrong, right = (_counts(many, "10 % wrong labels", what) for what in ("wrong", "right"))
        strange, alarms = (_counts(many, "10 % strangers", what) for what in ("strangers", "alarms"))
        cells = [f"[{name}]({name}.md)", str(len(plain)), *map(str, _counts_behind(plain))]
        cells += [f"{-np.mean([row['behind'] for row in plain]):+.1f}"]
        cells += [f"{np.mean([row['remp'] - row[_BEFORE] for row in plain]):+.1f}", f"{100 * np.mean(held):.0f} %"]
        lines.append(_line(cells + [_ratio(one) for one in (wrong, right, strange, alarms)]))
    names = ["remp", _BEFORE, *RIVALS]
    head = ["task", "labels", "sets", *names, "difference to the best in each set", "stated", "holds the truth"]
    head += ["ECE of a set", "ECE of all together"]
    lines += ["", "## Means over the sets", "", _line(head), "|" + "---|" * len(head)]
    for key in dict.fromkeys((row["kind"], row["variant"], row["labels"]) for rows in found.values() for row in rows):
        same = [row for rows in found.values() for row in rows if (row["kind"], row["variant"], row["labels"]) == key]
        held = [low <= true <= high for row in same for _, low, high, true in row["intervals"]]
        cells = [", ".join(part for part in key[:2] if part), str(key[2]), str(len(same))]
        cells += [f"{np.mean([row[name] for row in same]):.1f}" if name in same[0] else "" for name in names]
        cells += ["" if key[1] else f"{-np.mean([row['behind'] for row in same]):+.1f}"]
        cells += [f"{100 * len(held) / sum(row['draws'] for row in same):.0f} %"]
        probability, hit = (np.concatenate([row[name] for row in same]) for name in ("probability", "hit"))
        cells += [
            _percent(100 * float(np.mean(held)) if held else None),
            f"{np.mean([row['ece'] for row in same]):.1f}",
        ]
        cells += [f"{100 * calibration_error(probability, hit):.1f}"]
        lines.append(_line(cells))
    return "\n".join(lines) + "\n"


_BEFORE = "paper's rule"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _counts(rows: list[dict[str, Any]], variant: str, what: str) -> np.ndarray:
    return np.sum([row[what] for row in rows if row["variant"] == variant] or [[0, 0]], 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("features", type=Path, nargs="+")
    parser.add_argument("--split", type=int, default=1)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--shots", type=int, nargs="+", default=SHOTS, help="labels of each class")
    parser.add_argument("--workers", type=int, default=1, help="feature sets at the same time")
    parser.add_argument("--out", type=Path, default=Path("robustness"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    everything: dict[str, list[dict[str, Any]]] = {}
    with ProcessPoolExecutor(arguments.workers) as pool:
        measuring = [pool.submit(measure_file, path, arguments) for path in arguments.features]
        for path, done in zip(arguments.features, measuring, strict=True):
            everything[path.stem] = done.result()
            (arguments.out / "README.md").write_text(summary(everything, arguments.draws), encoding="utf-8")
    print(summary(everything, arguments.draws))


def measure_file(path: Path, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of a feature set, whose table and plot are written."""
    warnings.simplefilter("ignore")  # of rivals that do not converge
    found, name = np.load(path), path.stem
    half = found["s"] == arguments.split
    title = f"{name}, half {arguments.split}, {arguments.draws} draws"
    rows = list(measure(found["x"][half], found["y"][half], arguments.draws, tuple(arguments.shots)))
    (arguments.out / f"{name}.md").write_text(table(rows, title), encoding="utf-8")
    plot_coverage(rows, arguments.out / f"{name}.png", title)
    return rows


if __name__ == "__main__":
    main()
