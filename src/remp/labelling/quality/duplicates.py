"""Pictures that come twice: the same file, pictures that look the same, and copies that lost their edges."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from torch import Tensor

from remp.datasets.decode import UnreadablePicture, centre_square
from remp.labelling.embedding.pictures import read_file
from remp.labelling.outcome import Finding
from remp.labelling.quality.findings import MOST, MOST_NAMES
from remp.labelling.tasks import Items
from remp.propagation import sample_of
from remp.rectification.similarity import cosine, unit
from remp.untrusted import listed

# Items that near duplicates are measured by, and the range of the least cosine that confirms these.
_COMPARED, _NEAR_COSINES = 500, (0.85, 0.96)
# Pictures whose hashes differ in at most this many of 64 bits look the same.
NEAR_BITS = 3
# A hash with fewer bits set, or fewer unset, is that of a picture too plain to be compared.
_PLAIN_BITS = 8
# Of copies without edges:
THUMBNAIL = 32  # pixels of a side of the grey pictures that are looked at
_CELLS = 16  # spots of a side that two pictures are compared by
_MARGINS = (0.0, 0.03, 0.06, 0.09, 0.12)  # what may be missing at each side
_LEAST_CORRELATION = 0.95  # of the spots of a copy with those of a part; copies of photographs have 0.98 and more
_LEAST_CONTRAST = 4.0  # standard deviation of the grey values (0 … 255) of a picture that can be told from others
# Pairs of different pictures that are expected among the candidates, were both nearnesses normal and independent.
_FALSE_CANDIDATES = 5.0
# Spreads by which the cosine of a candidate is above that of most pairs, whatever the hashes are.
_LEAST_COSINE = 4.0
# Pictures more than which are not compared, since each is with each; compared at once; candidates that are looked at.
_MOST_COMPARED, _BLOCK, _MOST_CANDIDATES = 10_000, 1000, 200
_NORMAL = NormalDist()


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


def duplicates(
    task: Items,
    content_hashes: np.ndarray | None,
    picture_hashes: np.ndarray | None,
    features: Callable[[np.ndarray], Tensor] | None = None,
) -> list[Finding]:
    """Items of a task that are the same file, and pictures that look the same. features: as in find_duplicates."""
    return duplicate_findings(
        task, find_duplicates(len(task.names), content_hashes, picture_hashes, features, task.paths)
    )


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
        rows = unit(features(group))
        component: np.ndarray = np.arange(len(group))
        for start in range(0, len(group), _BLOCK):  # the frames of a camera that stands still are a large group
            near = (rows[start : start + _BLOCK] @ rows[start:].T).numpy() >= least
            component = _linked(component, start + np.argwhere(np.triu(near, 1)))
        parts += [group[part] for part in equal_groups(component)]
    return parts


def joined_groups(groups: list[np.ndarray], pairs: np.ndarray, n: int) -> list[np.ndarray]:
    """Groups of n items, and those that pairs (p, 2) link to them or to each other, as one list of groups."""
    links = [np.stack([group[:-1], group[1:]], axis=1) for group in groups]
    return equal_groups(_linked(np.arange(n), np.concatenate([*links, pairs.astype(np.int64)])))


def _thumbnail(path: Path) -> np.ndarray | None:
    """The centre square of a picture, grey (32, 32); None if it cannot be read (any more)."""
    try:
        return centre_square(read_file(path), THUMBNAIL, channels=1)[..., 0]
    except UnreadablePicture:
        return None


def duplicate_findings(task: Items, found: Duplicates, most: int | None = MOST) -> list[Finding]:
    """Duplicates in words; first those that carry different labels. most: groups of a kind that are told one by one,
    None for all; the rest is one finding."""

    def given(group: np.ndarray) -> list[str]:
        return [task.class_names[label] for label in np.unique(task.labels[group]) if label >= 0]

    findings = []
    kinds: list[tuple[Any, str, list[np.ndarray]]] = [
        ("exact duplicates", "are the same file", found.exact),
        ("near duplicates", "look the same", found.near),
    ]
    for kind, relation, groups in kinds:
        groups = sorted(groups, key=lambda group: (-len(given(group)), int(group[0])))
        for group in groups[:most]:
            classes = given(group)
            conflict = f", but are labelled {listed(classes, MOST_NAMES)}" if len(classes) > 1 else ""
            text = f"{listed([task.names[item] for item in group], MOST_NAMES)} {relation}{conflict}"
            findings.append(Finding(kind, text, tuple(group.tolist()), tuple(classes)))
        if most is not None and len(groups) > most:
            n_more, rest = len(groups) - most, np.concatenate(groups[most:])
            more = "1 more group of items" if n_more == 1 else f"{n_more:,} more groups of items"
            text = f"{more}, {len(rest):,} in all, {relation}"
            findings.append(Finding(kind, text, tuple(rest.tolist())))
    return findings


def equal_groups(hashes: np.ndarray) -> list[np.ndarray]:
    """Numbers of the items of each hash that occurs twice or more: (n,) -> ascending arrays, by their first item."""
    _, group, sizes = np.unique(hashes, return_inverse=True, return_counts=True)
    members = np.flatnonzero(sizes[group] > 1)
    members = members[np.argsort(group[members], kind="stable")]
    parts = np.split(members, np.flatnonzero(np.diff(group[members])) + 1) if len(members) else []
    return sorted(parts, key=lambda part: int(part[0]))


def near_groups(hashes: np.ndarray) -> list[np.ndarray]:
    """Groups linked by hashes (n,) uint64 that differ in at most NEAR_BITS bits; plain pictures are left out."""
    values, group = np.unique(hashes.astype(np.uint64), return_inverse=True)
    ones = bit_count(values)
    telling = np.flatnonzero((ones >= _PLAIN_BITS) & (ones <= 64 - _PLAIN_BITS))
    component: np.ndarray = np.arange(len(values))
    for keys in _shared_keys(values[telling]):
        component = _linked(component, telling[_near_of_a_key(values[telling], keys)])
    component = component[group]
    component[~np.isin(group, telling)] = -1
    return [part for part in equal_groups(component) if component[part[0]] >= 0]


def _linked(component: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """(n,) numbers of components, 0 … n - 1, and the same with these pairs (p, 2) of the n linked, too."""
    links = component[pairs]
    links = links[links[:, 0] != links[:, 1]]
    if not len(links):  # as most often: scipy is slow to import
        return component
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(links), bool), (links[:, 0], links[:, 1])), shape=(len(component),) * 2)
    return connected_components(graph, directed=False)[1][component]


def _shared_keys(values: np.ndarray) -> Iterator[np.ndarray]:
    """Keys (n,) of half of the bits of hashes, so that near ones have the same key at least once: the bits are in six
    bands, and three of these are free of the three bits that may differ. What many pictures have in common, such as a
    white margin, is dealt out to all bands alike."""
    if not len(values):
        return
    bits = np.unpackbits(values[:, None].view(np.uint8), axis=1)
    order = np.argsort(np.abs(bits.mean(0) - 0.5), kind="stable")
    bands = [
        bits[:, order[band::6]] @ (np.uint64(1) << np.arange(len(order[band::6]), dtype=np.uint64)) for band in range(6)
    ]
    for first, second, third in combinations(bands, 3):
        yield first << np.uint64(22) | second << np.uint64(11) | third


def _near_of_a_key(values: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Pairs (p, 2) of near values with the same key."""
    order = np.argsort(keys)
    first: np.ndarray = np.arange(len(order))
    found: list[np.ndarray] = [np.empty((0, 2), np.int64)]
    for offset in range(1, len(order)):  # all pairs that lie `offset` apart in the sorted order, while there are such
        first = first[first + offset < len(order)]
        first = first[keys[order[first]] == keys[order[first + offset]]]
        if not len(first):
            break
        pairs = np.stack([order[first], order[first + offset]], axis=1)
        found.append(pairs[bit_count(values[pairs[:, 0]] ^ values[pairs[:, 1]]) <= NEAR_BITS])
    return np.concatenate(found)


def cropped_pairs(
    hashes: np.ndarray,
    features: Callable[[np.ndarray], Tensor],
    sample: np.ndarray,
    thumbnail: Callable[[int], np.ndarray | None],
) -> np.ndarray:
    """Pairs (p, 2) of items, one of which looks like the other with up to 12 % less at each side.

    Not looked for among more than 10,000 items. hashes: (n,) uint64. features: from numbers of items (k,) to features
    (k, d). sample: numbers of items, ascending, that tell how near different pictures are. thumbnail: of an item, grey
    (32, 32); None if it cannot be read.
    """
    near = _candidates(hashes.astype(np.uint64), features, sample)
    pictures = {int(item): thumbnail(int(item)) for item in np.unique(near)}
    return np.array([pair for pair in near if _looks_cropped(*(pictures[int(item)] for item in pair))]).reshape(-1, 2)


def _candidates(hashes: np.ndarray, features: Callable[[np.ndarray], Tensor], sample: np.ndarray) -> np.ndarray:
    """Pairs (p, 2), the nearest first. Nearness is the cosine of features plus the number of equal bits of the hashes,
    each in spreads above what most pairs of the sample have: copies without edges are far up in the sum of both."""
    n = len(hashes)
    if n > _MOST_COMPARED or len(sample) < 3:
        return np.empty((0, 2), np.int64)
    rows = unit(features(np.arange(n)))
    first, second = np.triu_indices(len(sample), 1)
    cosines = (rows[sample] @ rows[sample].T).numpy()[first, second]
    usual, spread = _usual(cosines)
    usual_bits, spread_bits = _usual(_equal_bits(hashes, sample[first], sample[second]))
    needed = _NORMAL.inv_cdf(1 - min(0.5, _FALSE_CANDIDATES / (n * (n - 1) / 2))) * sqrt(2)
    pairs: list[np.ndarray] = []
    nearness: list[np.ndarray] = []
    for start in range(0, n, _BLOCK):
        above = ((rows[start : start + _BLOCK] @ rows[start:].T).numpy() - usual) / spread
        near = np.argwhere(np.triu(above >= _LEAST_COSINE, 1))
        bits = (_equal_bits(hashes, *(start + near).T) - usual_bits) / spread_bits
        pairs.append(start + near)
        nearness.append(above[tuple(near.T)] + bits)
    every, near_by = np.concatenate(pairs), np.concatenate(nearness)
    order = np.argsort(-near_by, kind="stable")[:_MOST_CANDIDATES]
    return every[order[near_by[order] >= needed]]


def _usual(values: np.ndarray) -> tuple[float, float]:
    """Median and standard deviation of normal values, by quantiles that a few copies among the pairs do not move."""
    middle, high = np.quantile(values, [0.5, 0.95])
    return float(middle), max(float(high - middle) / _NORMAL.inv_cdf(0.95), 1e-6)


def _equal_bits(hashes: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return 64.0 - bit_count(hashes[first] ^ hashes[second])


def _looks_cropped(first: np.ndarray | None, second: np.ndarray | None) -> bool:
    """Whether one of two grey pictures (32, 32) is a part of the other."""
    if first is None or second is None or min(first.std(), second.std()) < _LEAST_CONTRAST:
        return False
    return max(_best_correlation(first, second), _best_correlation(second, first)) >= _LEAST_CORRELATION


def _best_correlation(whole: np.ndarray, part: np.ndarray) -> float:
    """The largest correlation of a picture with a part of another, over all margins."""
    parts = (_WINDOWS @ whole.astype(float))[:, None] @ _WINDOWS.transpose(0, 2, 1)  # (25, 25, 16, 16)
    seen = _WINDOWS[0] @ part.astype(float) @ _WINDOWS[0].T
    return float((_standard(parts) * _standard(seen)).mean((-2, -1)).max())


def _standard(values: np.ndarray) -> np.ndarray:
    """Mean 0 and standard deviation 1 over the last two axes."""
    values = values - values.mean((-2, -1), keepdims=True)
    return values / np.maximum(values.std((-2, -1), keepdims=True), 1e-9)


def _window(before: float, after: float) -> np.ndarray:
    """(16, 32): the means over 16 equal stretches of 32 pixels, of which these shares are left out at the ends."""
    borders = np.linspace(before * THUMBNAIL, (1 - after) * THUMBNAIL, _CELLS + 1)
    pixel = np.arange(THUMBNAIL)
    covered = np.minimum(borders[1:, None], pixel + 1) - np.maximum(borders[:-1, None], pixel)
    return np.maximum(covered, 0) / (borders[1] - borders[0])


_WINDOWS = np.stack([_window(before, after) for before in _MARGINS for after in _MARGINS])  # (25, 16, 32)


def bit_count(values: np.ndarray) -> np.ndarray:
    """How many bits of each uint64 are 1 (numpy has this from version 2 on)."""
    bytes_of = np.ascontiguousarray(values)[..., None].view(np.uint8)
    return _ONES[bytes_of].sum(-1, dtype=np.uint8)


_ONES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(1, dtype=np.uint8)
