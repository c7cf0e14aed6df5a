"""Groups of pictures that look alike: what a person names first, when there is no label yet."""

from dataclasses import dataclass

import numpy as np

from remp.propagation.held_out import sample_of

SEED = 20210620
MOST_SHOWN = 12  # pictures of a group that are shown and named together
# They are spread over this share of the group, from its middle outwards. The most typical alone would make a bad start:
# everything else then seems to resemble no class, and the estimate, made from easy ones, is too high.
_SHOWN_SHARE = 0.8
_FEWEST, _MOST = 4, 36  # groups
_SAMPLE = 6000  # items that the middles are computed from


@dataclass(frozen=True)
class Group:
    """items: numbers of some, the most typical first. size: how many are in the group."""

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
