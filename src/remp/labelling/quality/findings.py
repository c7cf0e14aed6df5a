"""What a user should look at before trusting the labels: doubtful labels, duplicates, thin classes, classes alike."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from remp.datasets.decode import UnreadablePicture, centre_square
from remp.labelling.embedding.pictures import read_file
from remp.labelling.outcome import Finding
from remp.labelling.quality.cropped import THUMBNAIL, bit_count, cropped_pairs
from remp.labelling.tasks.task import LabellingTask
from remp.propagation.calibration import Calibration
from remp.propagation.held_out import HeldOut, sample_of
from remp.rectification.similarity import cosine

# Findings of a kind that are told one by one; names in a list.
_MOST, _MOST_NAMES = 20, 5
# Items that near duplicates are measured by, and the range of the least cosine that confirms these.
_COMPARED, _NEAR_COSINES = 500, (0.85, 0.96)
# Suspicious labels that are told.
_MOST_SUSPICIOUS = 200
# The share of right labels that may be suspected, if the probabilities are right.
_FALSE_ALARMS = 0.025
# Two classes are alike if more than this share of their items is expected to get the label of the other.
_MIXED = 0.15
# Pictures whose hashes differ in at most this many of 64 bits look the same.
NEAR_BITS = 3
# A hash with fewer bits set, or fewer unset, is that of a picture too plain to be compared.
_PLAIN_BITS = 8


def suspicious_labels(task: LabellingTask, held_out: HeldOut, calibration: Calibration) -> list[Finding]:
    """Labelled items that would be of another class without their label, by odds that few right labels have against
    them; the worst first, with the nearest other example of either class."""
    if not len(held_out) or held_out.scores.shape[1] == 1:
        return []
    probabilities = calibration.probabilities(held_out.scores).numpy()
    odds = odds_against(probabilities)
    own = odds[np.arange(len(held_out)), held_out.labels]
    doubtful = np.flatnonzero(own > least_odds(probabilities, odds, _FALSE_ALARMS))
    doubtful = doubtful[np.argsort(-own[doubtful], kind="stable")][:_MOST_SUSPICIOUS]
    return [_suspicion(task, held_out, int(i), probabilities[i]) for i in doubtful]


def odds_against(probabilities: np.ndarray) -> np.ndarray:
    """(m, N) logarithm of the largest probability of another class over that of each class."""
    logs = np.log(np.maximum(probabilities, 1e-300))
    best, second = np.sort(logs, axis=1)[:, [-1, -2]].T[:, :, None]
    return np.where(np.arange(logs.shape[1]) == logs.argmax(1)[:, None], second, best) - logs


def least_odds(probabilities: np.ndarray, odds: np.ndarray, share: float) -> float:
    """The odds that this share of right labels has against it or more, were labels drawn by the probabilities; no
    label is doubtful while its own class is the likeliest, so at least 0."""
    order = np.argsort(-odds, axis=None, kind="stable")
    reached = np.cumsum(probabilities.ravel()[order]) / len(probabilities)
    place = min(int(np.searchsorted(reached, share)), len(order) - 1)
    return max(0.0, float(odds.ravel()[order[place]]))


def _suspicion(task: LabellingTask, held_out: HeldOut, place: int, probabilities: np.ndarray) -> Finding:
    """Of the held-out item at this place, with its probabilities (N,)."""
    item, own = int(held_out.items[place]), int(held_out.labels[place])
    other = int(np.where(np.arange(len(probabilities)) == own, -1, probabilities).argmax())
    similar = cosine(held_out.features[place : place + 1], held_out.features)[0].numpy()
    similar[place] = -2
    beside = [
        int(held_out.items[np.where(held_out.labels == number, similar, -3).argmax()])
        for number in (own, other)
        if (held_out.labels[np.arange(len(held_out)) != place] == number).any()
    ]
    text = (
        f"{task.names[item]} is labelled {task.class_names[own]!r}, but without that label it would be "
        f"{task.class_names[other]!r} ({probabilities[other]:.0%})"
    )
    return Finding("suspicious label", text, (item,), (task.class_names[other],), tuple(beside))


@dataclass(frozen=True)
class Duplicates:
    """Numbers of items in each group: exact are the same file, near look the same."""

    exact: list[np.ndarray]
    near: list[np.ndarray]


def find_duplicates(
    n: int,
    content_hashes: np.ndarray | None,
    picture_hashes: np.ndarray | None,
    features: Callable[[np.ndarray], Tensor] | None = None,
    paths: Sequence[Path] = (),
) -> Duplicates:
    """Among n items.

    features: from numbers of items (k,) to their features (k, d), not centred; if given, pictures of near hashes are
    only told if their features are near, too: hashes of line drawings are near by chance. paths: of the n pictures; if
    given as well, copies that lost their edges are looked for.
    """
    exact = [] if content_hashes is None else equal_groups(np.asarray(content_hashes))
    near = [] if picture_hashes is None else near_groups(np.asarray(picture_hashes))
    sample = sample_of(np.arange(n), _COMPARED)
    if near and features is not None:
        near = confirmed_groups(near, features, sample)
    if picture_hashes is not None and features is not None and paths:
        pairs = cropped_pairs(np.asarray(picture_hashes), features, sample, lambda item: _thumbnail(paths[item]))
        near = joined_groups(near, pairs, n)
    if content_hashes is not None:  # what is the same file was said already
        near = [group for group in near if len(np.unique(np.asarray(content_hashes)[group])) > 1]
    return Duplicates(exact, near)


def told(task: LabellingTask, found: Duplicates, most: int | None = _MOST) -> list[Finding]:
    """Duplicates in words; first those that carry different labels. most: groups of a kind that are told one by one,
    None for all; the rest is one finding."""
    return [
        *_told(task, found.exact, "exact duplicates", "are the same file", most),
        *_told(task, found.near, "near duplicates", "look the same", most),
    ]


def duplicates(
    task: LabellingTask,
    content_hashes: np.ndarray | None,
    picture_hashes: np.ndarray | None,
    features: Callable[[np.ndarray], Tensor] | None = None,
) -> list[Finding]:
    """Items of a task that are the same file, and pictures that look the same. features: as in find_duplicates."""
    return told(task, find_duplicates(len(task.names), content_hashes, picture_hashes, features, task.paths))


def confirmed_groups(
    groups: list[np.ndarray], features: Callable[[np.ndarray], Tensor], sample: np.ndarray
) -> list[np.ndarray]:
    """The parts of groups whose features are linked by a cosine that different pictures of this collection seldom have.

    sample: numbers of items (k,), ascending; the limit is the cosine that one in a hundred of them has with another.
    """
    others = cosine(features(sample), features(sample)).numpy()
    np.fill_diagonal(others, -1)
    least = float(np.clip(np.quantile(others.max(1), 0.99), *_NEAR_COSINES))
    parts = []
    for group in groups:
        near = cosine(features(group), features(group)).numpy() >= least
        component = _components(np.argwhere(np.triu(near, 1)), len(group))
        parts += [group[part] for part in equal_groups(component)]
    return parts


def joined_groups(groups: list[np.ndarray], pairs: np.ndarray, n: int) -> list[np.ndarray]:
    """Groups of n items, and those that pairs (p, 2) link to them or to each other, as one list of groups."""
    links = [np.stack([group[:-1], group[1:]], axis=1) for group in groups]
    return equal_groups(_components(np.concatenate([*links, pairs.astype(np.int64)]), n))


def _thumbnail(path: Path) -> np.ndarray | None:
    """The centre square of a picture, grey (32, 32); None if it cannot be read (any more)."""
    try:
        return centre_square(read_file(path), THUMBNAIL, channels=1)[..., 0]
    except UnreadablePicture:
        return None


def _told(
    task: LabellingTask, groups: list[np.ndarray], kind: str, relation: str, most: int | None
) -> Iterator[Finding]:
    groups = sorted(groups, key=lambda group: (-len(_given(task, group)), int(group[0])))
    for group in groups[:most]:
        classes = [task.class_names[label] for label in _given(task, group)]
        conflict = f", but are labelled {_list(classes)}" if len(classes) > 1 else ""
        text = f"{_list([task.names[item] for item in group])} {relation}{conflict}"
        yield Finding(kind, text, tuple(int(item) for item in group), tuple(classes))  # type: ignore[arg-type]
    if most is not None and len(groups) > most:
        rest = np.concatenate(groups[most:])
        text = f"{len(groups) - most:,} more groups of items, {len(rest):,} in all, {relation}"
        yield Finding(kind, text, tuple(int(item) for item in rest))  # type: ignore[arg-type]


def _given(task: LabellingTask, group: np.ndarray) -> np.ndarray:
    """The different labels that were given in a group."""
    return np.unique(task.labels[group][task.labels[group] >= 0])


def single_examples(task: LabellingTask) -> list[Finding]:
    """The classes with one labelled item, in one finding."""
    counts = np.bincount(task.labels[task.is_labelled], minlength=len(task.class_names))
    thin = np.flatnonzero(counts == 1)
    if not len(thin):
        return []
    names = _list([repr(task.class_names[number]) for number in thin])
    subject = f"class {names} has" if len(thin) == 1 else f"{len(thin)} classes ({names}) have"
    text = f"{subject} one labelled item: a second one would tell how well it is recognised"
    items = tuple(np.flatnonzero(np.isin(task.labels, thin)).tolist())
    return [Finding("single example", text, items, tuple(task.class_names[number] for number in thin))]


def similar_classes(task: LabellingTask, confusion: np.ndarray) -> list[Finding]:
    """Pairs of classes that are expected to be mixed up, the worst first. confusion: (N, N) as in Labelling."""
    mixed = np.triu(confusion + confusion.T, 1)
    sizes = confusion.sum(1)
    share = mixed / np.maximum(sizes[:, None] + sizes[None], 1e-9)
    first, second = np.nonzero(share > _MIXED)
    order = np.argsort(-share[first, second], kind="stable")[:_MOST]
    return [
        Finding(
            "similar classes",
            f"{task.class_names[i]!r} and {task.class_names[j]!r} look alike: about {mixed[i, j]:,.0f} of their "
            f"{sizes[i] + sizes[j]:,.0f} items are expected to get the label of the other",
            classes=(task.class_names[i], task.class_names[j]),
        )
        for i, j in zip(first[order], second[order], strict=True)
    ]


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES:,} more"


def equal_groups(hashes: np.ndarray) -> list[np.ndarray]:
    """Numbers of the items of each hash that occurs twice or more: (n,) -> ascending arrays, by their first item."""
    _, group, sizes = np.unique(hashes, return_inverse=True, return_counts=True)
    members = np.flatnonzero(sizes[group] > 1)
    members = members[np.argsort(group[members], kind="stable")]
    parts = np.split(members, np.flatnonzero(np.diff(group[members])) + 1) if len(members) else []
    return sorted(parts, key=lambda part: int(part[0]))


def near_groups(hashes: np.ndarray, bits: int = NEAR_BITS) -> list[np.ndarray]:
    """Groups linked by hashes (n,) uint64 that differ in at most `bits` (< 4) bits; plain pictures are left out."""
    values, group = np.unique(hashes.astype(np.uint64), return_inverse=True)
    ones = bit_count(values)
    telling = np.flatnonzero((ones >= _PLAIN_BITS) & (ones <= 64 - _PLAIN_BITS))
    pairs = [telling[pair] for band in range(4) for pair in _near_in_band(values[telling], band, bits)]
    component = _components(np.concatenate([np.empty((0, 2), np.int64), *pairs]), len(values))[group]
    component[~np.isin(group, telling)] = -1
    return [part for part in equal_groups(component) if component[part[0]] >= 0]


def _components(pairs: np.ndarray, n: int) -> np.ndarray:
    """Linked by pairs (p, 2): the number of its component for each of n."""
    if not len(pairs):  # as most often: scipy is slow to import
        return np.arange(n)
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(pairs), bool), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    return connected_components(graph, directed=False)[1]


def _near_in_band(values: np.ndarray, band: int, bits: int) -> Iterator[np.ndarray]:
    """Pairs (p, 2) of near values with the same 16 bits in this band. Three bits cannot differ in all four bands, so
    that every near pair has the same bits in one of them."""
    keys = (values >> np.uint64(16 * band)).astype(np.uint16)
    order = np.argsort(keys, kind="stable")
    first: np.ndarray = np.arange(len(order))
    for offset in range(1, len(order)):  # all pairs that lie `offset` apart in the sorted order, while there are such
        first = first[first + offset < len(order)]
        first = first[keys[order[first]] == keys[order[first + offset]]]
        if not len(first):
            return
        pairs = np.stack([order[first], order[first + offset]], axis=1)
        yield pairs[bit_count(values[pairs[:, 0]] ^ values[pairs[:, 1]]) <= bits]
