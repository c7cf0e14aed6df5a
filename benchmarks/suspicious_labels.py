"""Wrong labels found against right ones suspected, for every limit; that of `remp label` is one point of the curve.

    python benchmarks/suspicious_labels.py FEATURES.npz ... [--split 1] [--draws 2] [--out results/robustness]

FEATURES.npz is as for label_robustness.py: x (n, d), y (n,) and s (n,), 0 for the half to choose on and 1 for the one
to be scored once. Tasks: 2 classes 50 : 10, 10 classes in a long tail and 10 balanced ones, 5, 10 and 20 labels of each
class, 10 % of them wrong. Writes suspicious.md and suspicious.png.
"""

import argparse
from pathlib import Path

import numpy as np
from label_robustness import MIXED, SIZES, draw_task

from remp.labelling.quality.findings import _FALSE_ALARMS, least_odds, odds_against
from remp.propagation.fit import fit_rows
from remp.rows import ArrayRows

SHARES = (0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.05, 0.07, 0.1)
SHOTS = (5, 10, 20)


def measure(x: np.ndarray, y: np.ndarray, n_draws: int) -> np.ndarray:
    """(len(SHARES), 4): wrong labels found, wrong labels, right ones suspected, right ones."""
    counts = np.zeros((len(SHARES), 4), np.int64)
    for kind in MIXED:
        for n_shot in SHOTS:
            for seed in range(n_draws):
                random = np.random.default_rng([seed, n_shot, len(kind)])
                draw = draw_task(x, y, SIZES[kind], n_shot, "10 % wrong labels", random)
                if draw is None:
                    continue
                fitted = fit_rows(ArrayRows(draw.rows), draw.given, draw.n_classes)
                held_out = fitted.held_out
                probabilities = fitted.calibration.probabilities(held_out.scores).numpy()
                odds = odds_against(probabilities)
                own = odds[np.arange(len(held_out)), held_out.labels]
                is_wrong = (draw.given != draw.truth)[held_out.items]
                for row, share in zip(counts, SHARES, strict=True):
                    suspected = own > least_odds(probabilities, odds, share)
                    row += [
                        (suspected & is_wrong).sum(),
                        is_wrong.sum(),
                        (suspected & ~is_wrong).sum(),
                        (~is_wrong).sum(),
                    ]
    return counts


def table(found: dict[str, np.ndarray], title: str) -> str:
    head = ["feature set", "wrong labels", "right ones", *(f"{share:.1%}" for share in SHARES)]
    lines = [
        f"# Suspicious labels: {title}",
        "",
        "Of the wrong labels found / of the right ones suspected, in %, by the share of",
    ]
    lines += [
        f"right labels that may be suspected if the probabilities are right. `remp label` takes {_FALSE_ALARMS:.1%}.",
        "",
    ]
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name, counts in (found | {"all": np.sum(list(found.values()), 0)}).items():
        cells = [f"{100 * a / max(b, 1):.1f} / {100 * c / max(d, 1):.1f}" for a, b, c, d in counts]
        lines.append("| " + " | ".join([name, str(counts[0, 1]), str(counts[0, 3]), *cells]) + " |")
    return "\n".join(lines) + "\n"


def plot(found: dict[str, np.ndarray], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 4.4), layout="constrained")
    axes.axvspan(0, 3, ymin=0.0, color="0.93")
    axes.axhline(75, color="0.6", linewidth=1)
    colours = pyplot.get_cmap("tab10")
    for number, (name, counts) in enumerate(found.items()):
        wrong, right = 100 * counts[:, 0] / counts[:, 1], 100 * counts[:, 2] / counts[:, 3]
        style = "-" if number < 10 else "--"  # colours repeat after ten
        axes.plot(right, wrong, style, color=colours(number % 10), label=f"{name} ({counts[0, 1]} wrong)")
        taken = SHARES.index(_FALSE_ALARMS)
        axes.plot(right[taken], wrong[taken], "o", color=colours(number % 10))
    axes.set(xlabel="right labels suspected, %", ylabel="wrong labels found, %", xlim=(0, 8), ylim=(0, 101))
    axes.legend(fontsize=8, loc="lower right")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("features", type=Path, nargs="+")
    parser.add_argument("--split", type=int, default=1)
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("robustness"))
    arguments = parser.parse_args()
    found = {}
    for path in arguments.features:
        read = np.load(path)
        half = read["s"] == arguments.split
        found[path.stem] = measure(read["x"][half], read["y"][half], arguments.draws)
        print(path.stem, found[path.stem].tolist(), flush=True)
    arguments.out.mkdir(parents=True, exist_ok=True)
    title = f"half {arguments.split}, {arguments.draws} draws"
    (arguments.out / "suspicious.md").write_text(table(found, title), encoding="utf-8")
    plot(found, arguments.out / "suspicious.png")


if __name__ == "__main__":
    main()
