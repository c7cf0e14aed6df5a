"""Pictures that come twice: the same file, pictures that look the same, and copies that lost their edges."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from remp.datasets.decode import UnreadablePicture, centre_square
from remp.labelling.embedding.pictures import read_file
from remp.labelling.outcome import Finding
from remp.labelling.quality.cropped import THUMBNAIL, bit_count, cropped_pairs
from remp.labelling.quality.findings import MOST, listed
from remp.labelling.tasks.task import LabellingTask
from remp.propagation.held_out import sample_of
from remp.rectification.similarity import cosine

# Items that near duplicates are measured by, and the range of the least cosine that confirms these.
_COMPARED, _NEAR_COSINES = 500, (0.85, 0.96)
# Pictures whose hashes differ in at most this many of 64 bits look the same.
NEAR_BITS = 3
# A hash with fewer bits set, or fewer unset, is that of a picture too plain to be compared.
_PLAIN_BITS = 8


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


def told(task: LabellingTask, found: Duplicates, most: int | None = MOST) -> list[Finding]:
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
        conflict = f", but are labelled {listed(classes)}" if len(classes) > 1 else ""
        text = f"{listed([task.names[item] for item in group])} {relation}{conflict}"
        yield Finding(kind, text, tuple(int(item) for item in group), tuple(classes))  # type: ignore[arg-type]
    if most is not None and len(groups) > most:
        rest = np.concatenate(groups[most:])
        text = f"{len(groups) - most:,} more groups of items, {len(rest):,} in all, {relation}"
        yield Finding(kind, text, tuple(int(item) for item in rest))  # type: ignore[arg-type]


def _given(task: LabellingTask, group: np.ndarray) -> np.ndarray:
    """The different labels that were given in a group."""
    return np.unique(task.labels[group][task.labels[group] >= 0])


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
