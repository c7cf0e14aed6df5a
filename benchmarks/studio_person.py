"""How many actions a person needs in the studio until 90 % of a collection is right, and how true its estimate is.

    python benchmarks/studio_person.py FEATURES.npz [--split 1] [--seeds 5] [--goal 0.9] [--figure FILE]

FEATURES.npz is as for label_robustness.py: x (n, d) features, y (n,) classes, s (n,) the half that a row belongs to,
1 for the test classes. 20 classes of 60 pictures are drawn from it for each seed. Everybody labels correctly, and all
of them are scored alike: the share of all pictures whose label or prediction is right. The predictions, the proposals
of Next and the estimate are those of the studio.

An action is what the journal has a line for: naming or accepting what is selected. Beside it stand the presses, which
also count each click that takes a picture out of a selection or puts one in.

- studio: first the groups, each named after the class that most of its pictures are of, the others taken out. Then
  Next: what is predicted wrongly is named one by one, and the rest of the batch accepted at once.
- studio, accepting: besides, after each batch, in the class with the most predictions everything above the first wrong
  one is accepted.
- random: random pictures, named one by one, the others predicted as in the studio.
- forest: random pictures, named one by one, the others predicted by a balanced random forest on the same features where
  it gives a class at least 0.5, as LightlyStudio does; `forest, any` counts its likeliest class whatever it gives.
"""

import argparse
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from remp.labelling.tasks import Items
from remp.rectification.transform import FeatureTransform, fit_transform
from remp.rows import ArrayRows, Shard
from remp.studio.checked_estimate import Check, checks_of, judge
from remp.studio.collection import Features, Labels, Prediction, predict
from remp.studio.proposals import find_groups, propose
from remp.studio.session import BATCH
from remp.studio.state import NONE, StudioClass

N_CLASSES, N_PICTURES = 20, 60
Curve = list[tuple[int, float]]  # actions, share right


class Collection:
    """Pictures by their features, and what they truly are."""

    def __init__(self, features: np.ndarray, truth: np.ndarray) -> None:
        n = len(truth)
        names = tuple(f"{number:05d}.png" for number in range(n))
        self.truth, self.n = truth, n
        self.task = Items(names, np.full(n, -1), (), tuple(map(Path, names)))
        transform, _ = fit_transform(ArrayRows(features), FeatureTransform.parse("power+l2"), Shard())
        values = transform(next(iter(ArrayRows(features, chunk=n).chunks()))).numpy()
        unique = np.array([f"{number:032x}" for number in range(n)])
        self.features = Features(np.arange(n), values, unique, np.zeros(n, np.uint64))
        self.classes = {number: StudioClass(f"class {number:02d}", "#000000") for number in range(N_CLASSES)}

    def predict(self, labels: np.ndarray) -> tuple[Prediction, Labels]:
        given = Labels(labels, {number: one for number, one in self.classes.items() if (labels == number).any()})
        return predict(self.task, self.features, given), given

    def right(self, labels: np.ndarray, predicted: np.ndarray) -> float:
        return float((np.where(labels >= 0, labels, predicted) == self.truth).mean())


def draw(features: np.ndarray, labels: np.ndarray, seed: int) -> Collection:
    """20 classes of 60 pictures, in random order."""
    random = np.random.default_rng(seed)
    classes = random.permutation(np.unique(labels))[:N_CLASSES]
    rows = np.concatenate([random.permutation(np.flatnonzero(labels == one))[:N_PICTURES] for one in classes])
    truth = np.repeat(np.arange(len(classes)), N_PICTURES)
    order = random.permutation(len(rows))
    return Collection(features[rows][order].astype(np.float32), truth[order])


@dataclass
class Person:
    """Somebody at work in the studio. labels: (n,). actions, presses: so far. intervals: at each look the share of
    right predictions among what has no label, and the interval that the studio states, if it states one."""

    collection: Collection
    accepts: bool = False
    actions: int = 0
    presses: int = 0
    checks: list[Check] = field(default_factory=list)
    curve: Curve = field(default_factory=list)
    by_presses: Curve = field(default_factory=list)
    intervals: list[tuple[float, float, float] | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.labels = np.full(self.collection.n, NONE)

    def work(self, goal: float) -> "Person":
        """Until this share is right."""
        self.name_groups()
        while (self.labels == NONE).any():
            prediction, given = self.look()
            if self.curve[-1][1] >= goal:
                break
            self.name_next(prediction, given)
            if self.accepts:
                self.accept_a_class(prediction)
        return self

    def look(self) -> tuple[Prediction, Labels]:
        """What the studio predicts and estimates now."""
        prediction, given = self.collection.predict(self.labels)
        free, truth = self.labels == NONE, self.collection.truth
        right = self.collection.right(self.labels, prediction.best)
        self.curve.append((self.actions, right))
        self.by_presses.append((self.presses, right))
        before = np.full(self.collection.n, NONE)
        estimate = judge(prediction, self.labels, before, self.checks).prediction.labelling.estimate
        known = float((prediction.best[free] == truth[free]).mean())
        self.intervals.append(None if estimate is None else (known, estimate.low, estimate.high))
        return prediction, given

    def name_groups(self) -> None:
        features, truth = self.collection.features, self.collection.truth
        for group in find_groups(features.values, features.items):
            shown = np.array(group.items)
            likeliest, n_right = Counter(truth[shown].tolist()).most_common(1)[0]
            self.labels[shown[truth[shown] == likeliest]] = likeliest
            self.actions += 1
            self.presses += 1 + min(n_right, len(shown) - n_right)

    def name_next(self, prediction: Prediction, given: Labels) -> None:
        proposed = propose(prediction, self.collection.features, given, BATCH)
        self.checks += checks_of(prediction, proposed)
        items, truth = np.array([one.item for one in proposed]), self.collection.truth
        n_wrong = int((prediction.best[items] != truth[items]).sum())
        self.labels[items] = truth[items]
        self.actions += n_wrong + (n_wrong < len(items))
        self.presses += min(2 * n_wrong + 2, len(items))  # to click and to name, to select all and to accept; or singly

    def accept_a_class(self, prediction: Prediction) -> None:
        free = self.labels == NONE
        if not free.any():
            return
        number = Counter(prediction.best[free].tolist()).most_common(1)[0][0]
        rows = np.flatnonzero(free & (prediction.best == number))
        rows = rows[np.argsort(-prediction.probability[rows], kind="stable")]
        wrong = np.flatnonzero(self.collection.truth[rows] != number)
        self.labels[rows[: wrong[0] if len(wrong) else len(rows)]] = number
        self.actions += 1
        self.presses += 2  # the picture above which, and that all above it are right


def run_random(collection: Collection, goal: float, random: np.random.Generator) -> Curve:
    labels, curve = np.full(collection.n, NONE), []
    order = random.permutation(collection.n)
    for n in range(60, collection.n, 60):
        labels[order[:n]] = collection.truth[order[:n]]
        prediction, _ = collection.predict(labels)
        curve.append((n, collection.right(labels, prediction.best)))
        if curve[-1][1] >= goal:
            break
    return curve


def run_forest(collection: Collection, goal: float, random: np.random.Generator) -> tuple[Curve, Curve]:
    """With the threshold, and without."""
    from sklearn.ensemble import RandomForestClassifier

    labels, order = np.full(collection.n, NONE), random.permutation(collection.n)
    strict: Curve = []
    loose: Curve = []
    for n in range(60, collection.n, 60):
        labels[order[:n]] = collection.truth[order[:n]]
        forest = RandomForestClassifier(100, class_weight="balanced", random_state=0, n_jobs=1)
        forest.fit(collection.features.values[order[:n]], labels[order[:n]])
        shares = forest.predict_proba(collection.features.values)
        best = forest.classes_[shares.argmax(1)]
        strict.append((n, collection.right(labels, np.where(shares.max(1) >= 0.5, best, -1))))
        loose.append((n, collection.right(labels, best)))
        if strict[-1][1] >= goal:
            break
    return strict, loose


def reached(curve: Curve, goal: float) -> int:
    """Actions to the goal, in a straight line between two looks."""
    before = (0, 0.0)
    for actions, share in curve:
        if share >= goal:
            return round(before[0] + (actions - before[0]) * (goal - before[1]) / max(share - before[1], 1e-9))
        before = (actions, share)
    return -1


def draw_figure(curves: dict[str, list[Curve]], goal: float, file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.2, 4.2), layout="constrained")
    longest = max(curve[-1][0] for several in curves.values() for curve in several)
    grid = np.arange(0, longest + 1, 6)
    for (name, several), colour in zip(
        curves.items(), ("#2f7fd1", "#0f9d76", "#e08a00", "#b5392f", "#93702b"), strict=False
    ):
        table = np.array(
            [np.interp(grid, [0, *(a for a, _ in c)], [0, *(s for _, s in c)], right=np.nan) for c in several]
        )
        has = ~np.isnan(table).any(0)
        axes.plot(grid[has], table[:, has].mean(0), color=colour, label=name, lw=2)
        axes.fill_between(grid[has], table[:, has].min(0), table[:, has].max(0), color=colour, alpha=0.15, lw=0)
    axes.axhline(goal, color="#888", lw=1, ls=":")
    axes.set(xlabel="actions", ylabel="share of all pictures that are right", ylim=(0, 1), xlim=(0, longest))
    axes.legend(frameon=False, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
    file.parent.mkdir(parents=True, exist_ok=True)
    for suffix in (".png", ".svg"):
        figure.savefig(file.with_suffix(suffix), dpi=150)


def _said(curves: list[Curve], goal: float) -> str:
    actions = [reached(curve, goal) for curve in curves]
    return "not reached" if -1 in actions else f"{np.mean(actions):.0f} ({min(actions)} to {max(actions)})"


def _of_people(people: list[Person] | None, goal: float) -> str:
    if people is None:
        return "the same | | |"
    looks = [one for person in people for one in person.intervals]
    stated = [one for one in looks if one is not None]
    covered = np.mean([low <= known <= high for known, low, high in stated])
    width = np.mean([high - low for _, low, high in stated])
    return (
        f"{_said([one.by_presses for one in people], goal)} | {covered:.0%} of {len(stated)} | {width:.2f} | "
        f"{len(looks) - len(stated)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--split", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--goal", type=float, default=0.9)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--alone", action="store_true", help="without the rivals: for the estimate alone")
    options = parser.parse_args()
    with np.load(options.file) as data:
        half = data["s"] == options.split
        features, labels = data["x"][half], data["y"][half]
    names = ("studio", "studio, accepting", "random", "forest at 0.5", "forest, any")
    curves: dict[str, list[Curve]] = {name: [] for name in names}
    people: dict[str, list[Person]] = {name: [] for name in names[:2]}
    for seed in range(options.seeds):
        collection = draw(features, labels, seed)
        for name, accepts in zip(names[:2], (False, True), strict=True):
            people[name].append(Person(collection, accepts).work(options.goal))
            curves[name].append(people[name][-1].curve)
        if not options.alone:
            curves["random"].append(run_random(collection, options.goal, np.random.default_rng(seed)))
            forests = run_forest(collection, options.goal, np.random.default_rng(seed))
            for name, curve in zip(names[3:], forests, strict=True):
                curves[name].append(curve)
        done = [f"{name} {reached(curves[name][-1], options.goal)}" for name in names if curves[name]]
        print(f"seed {seed}: {', '.join(done)}", flush=True)
    print(f"\n| who | actions to {options.goal:.0%}, mean (least to most) | presses | steps whose 90 % interval has "
          "the truth | mean width | steps without an interval |\n|---|---|---|---|---|---|")  # fmt: skip
    for name in names:
        if curves[name]:
            print(f"| {name} | {_said(curves[name], options.goal)} | {_of_people(people.get(name), options.goal)} |")
    if options.figure:
        draw_figure({name: several for name, several in curves.items() if several}, options.goal, options.figure)


if __name__ == "__main__":
    main()
