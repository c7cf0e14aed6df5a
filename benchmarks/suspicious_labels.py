"""Wrong labels and strangers found against false alarms, for every limit; those of `remp label` are one point each.

    python benchmarks/suspicious_labels.py FEATURES.npz ... [--split 1] [--draws 2] [--out results/robustness]

FEATURES.npz is as for label_robustness.py: x (n, d), y (n,) and s (n,), 0 for the half to choose on and 1 for the one
to be scored once. Tasks: 2 classes 50 : 10, 10 classes in a long tail and 10 balanced ones, 5, 10 and 20 labels of each
class; 10 % of them are wrong, or 10 % of the unlabelled items are of three other classes. Writes suspicious.md and
suspicious.png, strangers.md and strangers.png.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from label_robustness import MIXED, SIZES, Draw, draw_task

from remp.labelling.decision import _BELOW_WITH_NEIGHBOURS, decide, familiarities, least_familiar
from remp.labelling.quality.findings import LEAST_WRONG, wrong_probabilities
from remp.propagation.fit import Fitted, fit_rows
from remp.rows import ArrayRows, Shard

SHOTS = (5, 10, 20)


@dataclass(frozen=True)
class Search:
    """Something to be found. limits: from strict to lax; taken: the one of `remp label`; meaning: of a limit."""

    name: str
    variant: str
    limits: tuple[float, ...]
    taken: float
    meaning: str
    wanted: float
    allowed: float
    searched: str
    others: str


WRONG = Search(
    "suspicious",
    "10 % wrong labels",
    (0.9, 0.7, 0.5, 0.4, 0.35, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05),
    LEAST_WRONG,
    "the least probability at which a label counts as wrong",
    75,
    3,
    "wrong labels",
    "right labels",
)
STRANGERS = Search(
    "strangers",
    "10 % strangers",
    (0.005, 0.01, 0.02, 0.03, _BELOW_WITH_NEIGHBOURS, 0.06, 0.08, 0.1, 0.15, 0.2),
    _BELOW_WITH_NEIGHBOURS,
    "the share of held-out items that are less familiar",
    35,
    5,
    "strangers",
    "items of the classes",
)


def look_for_wrong(draw: Draw, fitted: Fitted) -> tuple[np.ndarray, list[np.ndarray]]:
    """Which held-out labels (m,) are wrong, and which are suspected at each limit."""
    held_out = fitted.held_out
    wrong = wrong_probabilities(fitted.calibration.probabilities(held_out.scores).numpy(), held_out.labels)
    return (draw.given != draw.truth)[held_out.items], [wrong > limit for limit in WRONG.limits]


def look_for_strangers(draw: Draw, fitted: Fitted) -> tuple[np.ndarray, list[np.ndarray]]:
    """Which unlabelled items (m,) are strangers, and which are called unknown at each limit."""
    rows = ArrayRows(draw.rows)
    decision = decide(fitted, rows, draw.given, Shard())
    assert decision is not None
    of_held_out, of_items, _ = familiarities(decision, fitted, rows, draw.given)
    of_free = of_items[draw.free]
    found = [of_free < least_familiar(of_held_out, of_free, limit) for limit in STRANGERS.limits]
    return (draw.truth < 0)[draw.free], found


LOOKING = {WRONG: look_for_wrong, STRANGERS: look_for_strangers}


def draws_of(x: np.ndarray, y: np.ndarray, n_draws: int, variant: str) -> Iterator[Draw]:
    for kind in MIXED:
        for n_shot in SHOTS:
            for seed in range(n_draws):
                random = np.random.default_rng([seed, n_shot, len(kind)])
                draw = draw_task(x, y, SIZES[kind], n_shot, variant, random)
                if draw is not None:
                    yield draw


def measure(search: Search, x: np.ndarray, y: np.ndarray, n_draws: int) -> np.ndarray:
    """(limits, 4): found, all that were to be found, false alarms, all others."""
    counts = np.zeros((len(search.limits), 4), np.int64)
    for draw in draws_of(x, y, n_draws, search.variant):
        fitted = fit_rows(ArrayRows(draw.rows), draw.given, draw.n_classes)
        searched, found = LOOKING[search](draw, fitted)
        for row, here in zip(counts, found, strict=True):
            row += [(here & searched).sum(), searched.sum(), (here & ~searched).sum(), (~searched).sum()]
    return counts


def table(search: Search, found: dict[str, np.ndarray], title: str) -> str:
    head = ["feature set", search.searched, search.others, *(f"{limit:.1%}" for limit in search.limits)]
    lines = [
        f"# {search.searched.capitalize()}: {title}",
        "",
        f"Of the {search.searched} found / of the {search.others} called so, in %, by",
        f"{search.meaning}. `remp label` takes {search.taken:.1%}.",
        "",
    ]
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name, counts in (found | {"all": np.sum(list(found.values()), 0)}).items():
        cells = [f"{100 * a / max(b, 1):.1f} / {100 * c / max(d, 1):.1f}" for a, b, c, d in counts]
        lines.append("| " + " | ".join([name, str(counts[0, 1]), str(counts[0, 3]), *cells]) + " |")
    return "\n".join(lines) + "\n"


def plot(search: Search, found: dict[str, np.ndarray], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.6, 4.4), layout="constrained")
    axes.axvspan(0, search.allowed, color="0.93")
    axes.axhline(search.wanted, color="0.6", linewidth=1)
    colours, taken = pyplot.get_cmap("tab10"), search.limits.index(search.taken)
    for number, (name, counts) in enumerate(found.items()):
        hits, alarms = 100 * counts[:, 0] / counts[:, 1], 100 * counts[:, 2] / counts[:, 3]
        style = "-" if number < 10 else "--"  # colours repeat after ten
        axes.plot(alarms, hits, style, color=colours(number % 10), label=f"{name} ({counts[0, 1]})")
        axes.plot(alarms[taken], hits[taken], "o", color=colours(number % 10))
    axes.set(xlabel=f"{search.others} called so, %", ylabel=f"{search.searched} found, %", ylim=(0, 101))
    axes.set(xlim=(0, 4 * search.allowed))
    figure.legend(fontsize=8, loc="outside right center")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("features", type=Path, nargs="+")
    parser.add_argument("--split", type=int, default=1)
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("robustness"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for search in LOOKING:
        found = {}
        for path in arguments.features:
            read = np.load(path)
            half = read["s"] == arguments.split
            counts = measure(search, read["x"][half], read["y"][half], arguments.draws)
            if counts[0, 1]:
                found[path.stem] = counts
            print(search.name, path.stem, counts.tolist(), flush=True)
        title = f"half {arguments.split}, {arguments.draws} draws"
        (arguments.out / f"{search.name}.md").write_text(table(search, found, title), encoding="utf-8")
        plot(search, found, arguments.out / f"{search.name}.png")


if __name__ == "__main__":
    main()
