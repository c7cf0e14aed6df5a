"""Groups of items that are the same, by equal hashes or by hashes that differ in few bits."""

from collections.abc import Iterator

import numpy as np

# Pictures whose hashes differ in at most this many of 64 bits look the same.
NEAR_BITS = 3
# A hash with fewer bits set, or fewer unset, is that of a picture too plain to be compared.
_PLAIN_BITS = 8


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
    ones = _bit_count(values)
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
        yield pairs[_bit_count(values[pairs[:, 0]] ^ values[pairs[:, 1]]) <= bits]


def _bit_count(values: np.ndarray) -> np.ndarray:
    """How many bits of each uint64 are 1 (numpy has this from version 2 on)."""
    bytes_of = np.ascontiguousarray(values)[..., None].view(np.uint8)
    return _ONES[bytes_of].sum(-1, dtype=np.uint8)


_ONES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(1, dtype=np.uint8)
