"""What to label now: groups that look alike while there is no label yet; what Next proposes, which are pictures that
teach most and some that are drawn at random; and whether to go on, by what one more batch is expected to bring."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from remp.labelling.outcome import STATUSES, Advice
from remp.labelling.quality.label_next import advise
from remp.propagation import SEED, sample_of
from remp.studio.collection import Features, Labels, Prediction
from remp.studio.state import NONE

MOST_SHOWN = 12  # pictures of a group that are shown and named together
# They are spread over this share of the group, from its middle outwards. The most typical alone would make a bad start:
# everything else then seems to resemble no class, and the estimate, made from easy ones, is too high.
_SHOWN_SHARE = 0.8
_FEWEST, _MOST = 4, 36  # groups
_SAMPLE = 6000  # items that the middles are computed from


@dataclass(frozen=True)
class Group:
    """Pictures that look alike. items: numbers of those that are shown, the most typical first. size: of the group."""

    items: tuple[int, ...]
    size: int


def find_groups(values: np.ndarray, items: np.ndarray) -> list[Group]:
    """k-means of the features (m, d), centred and of unit length then; items: (m,) their numbers. The tightest first.

    There are more groups than anybody expects classes, √(m / 2): a group of one class is named at a glance, and
    nothing is lost if two groups get the same name.
    """
    from sklearn.cluster import MiniBatchKMeans

    n_groups = min(max(_FEWEST, round(np.sqrt(len(values) / 2))), _MOST, len(values))
    chosen = sample_of(np.arange(len(values)), _SAMPLE)
    centre = values[chosen].mean(0)
    model = MiniBatchKMeans(n_groups, n_init=3, batch_size=1024, random_state=SEED)
    means = model.fit(_centred(values[chosen], centre)).cluster_centers_
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
    nearest, likeness = _nearest(values, centre, means)
    groups, tightness = [], []
    for number in range(n_groups):
        members = np.flatnonzero(nearest == number)
        if not len(members):
            continue
        order = members[np.argsort(-likeness[members], kind="stable")]
        shown = order[_spread(len(order))]
        groups.append(Group(tuple(items[shown].tolist()), len(members)))
        tightness.append(likeness[shown].mean() if len(members) > 2 else -1.0)
    return [groups[number] for number in np.argsort(-np.array(tightness), kind="stable")]


def _spread(n: int) -> np.ndarray:
    """Which of n, ordered from the middle outwards, are shown."""
    if n <= MOST_SHOWN:
        return np.arange(n)
    return np.unique(np.linspace(0, max(_SHOWN_SHARE * n, MOST_SHOWN) - 1, MOST_SHOWN).round().astype(int))


def _centred(values: np.ndarray, centre: np.ndarray) -> np.ndarray:
    centred = values - centre
    return centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-12)


def _nearest(values: np.ndarray, centre: np.ndarray, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each row the number of the nearest mean, and the cosine."""
    nearest, likeness = np.empty(len(values), np.int64), np.empty(len(values), np.float32)
    for start in range(0, len(values), 4096):
        cosines = _centred(values[start : start + 4096], centre) @ means.T
        nearest[start : start + 4096] = cosines.argmax(1)
        likeness[start : start + 4096] = cosines.max(1)
    return nearest, likeness


CHECK = "drawn at random, to check the estimate"  # the reason for a picture of Next
CHECK_SHARE = 1 / 4  # of what Next proposes


def propose(prediction: Prediction, features: Features, given: Labels, n: int) -> list[Advice]:
    """What to label now: what teaches most, and a part that is drawn at random."""
    checks = drawn_at_random(prediction, given, round(CHECK_SHARE * n))
    taken = {one.item for one in checks}
    chosen = [one for one in next_items(prediction, features, given, n) if one.item not in taken]
    return [*chosen[: n - len(checks)], *checks]


def drawn_at_random(prediction: Prediction, given: Labels, n: int) -> list[Advice]:
    """Unlabelled items that have a prediction, in an order that is drawn once for each collection: who skips one will
    be asked again."""
    order = np.random.default_rng(SEED).permutation(len(given.labels))
    free = order[(given.labels[order] == NONE) & (prediction.best[order] >= 0)][:n]
    return [Advice(int(item), f"probably {given.classes[int(prediction.best[item])].name}; {CHECK}") for item in free]


def next_items(prediction: Prediction, features: Features, given: Labels, n_next: int) -> list[Advice]:
    """What to label now, diverse, each with its reason: from the items that the labelling keeps features of."""
    labelling = prediction.labelling
    sample, values = labelling.sample, labelling.sample_features
    free = (given.labels[features.items] == -1) & (labelling.status != STATUSES.index("unknown"))
    is_labelled = labelling.task.is_labelled[sample]
    candidates = np.flatnonzero(free[sample])
    names = [*labelling.task.class_names, None]
    advice = advise(
        sample[candidates],
        torch.from_numpy(values[candidates]),
        labelling.margin[sample[candidates]],
        torch.from_numpy(values[is_labelled]),
        [(names[labelling.best[item]], names[labelling.runner_up[item]]) for item in sample[candidates]],
        n_next,
    )
    return [replace(one, item=int(features.items[one.item])) for one in advice]


# A batch that corrects fewer than this share of its pictures is not worth looking at.
_WORTH = 1 / 8


@dataclass(frozen=True)
class Point:
    """How far the labelling had come at one moment. n_labels: given or accepted. wrong: expected number of wrong
    predictions among the rest."""

    n_labels: int
    wrong: float


@dataclass(frozen=True)
class Gain:
    """What one more batch of labels is expected to bring. pictures: wrong ones that it corrects, by itself and by what
    it changes in the others. wrong: expected now. batch: pictures in the batch."""

    pictures: float
    wrong: float
    batch: int

    @property
    def is_worth_it(self) -> bool:
        return self.pictures >= max(_WORTH * self.batch, 0.5)


def expected_gain(probability: np.ndarray, batch: Sequence[int], history: Sequence[Point]) -> Gain:
    """What one more batch brings. probability: (m,) of the predictions of unlabelled items; batch: which come next.

    What is labelled is right then: that much is sure. Beyond that the others get better, too; how much, the last labels
    have shown.
    """
    wrong = float((1 - probability).sum())
    sure = float((1 - probability[list(batch)]).sum())
    return Gain(min(max(sure, _by_history(history, len(batch))), wrong), wrong, len(batch))


def _by_history(history: Sequence[Point], batch: int) -> float:
    """The mean of what the last labels brought: at least a batch of them, or all there were."""
    if len(history) < 2:
        return 0.0
    last = history[-1]
    earlier = [point for point in history if point.n_labels <= last.n_labels - batch] or [history[0]]
    n_labels = last.n_labels - earlier[-1].n_labels
    if n_labels < max(batch / 2, 1):  # too little to tell from, or an undo took labels away
        return 0.0
    # Later labels bring less than earlier ones.
    return 0.5 * batch * max(earlier[-1].wrong - last.wrong, 0.0) / n_labels
