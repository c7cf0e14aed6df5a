"""Pictures that are others without their edges: candidates by features and hashes, then a look at the pictures."""

from collections.abc import Callable
from math import sqrt
from statistics import NormalDist

import numpy as np
from torch import Tensor

from remp.rectification.similarity import unit

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
