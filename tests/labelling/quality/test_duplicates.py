"""Groups of equal and of nearly equal hashes, against a loop over all pairs."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from remp.labelling.quality.duplicates import equal_groups, near_groups

PATTERN = 0x5A5A_1234_F0F0_99CC


def naive_groups(hashes, near):
    """Connected groups of two or more, by joining sets over all pairs."""
    groups = [{i} for i in range(len(hashes))]
    for i in range(len(hashes)):
        for j in range(i):
            if near(int(hashes[i]), int(hashes[j])):
                first, second = (next(group for group in groups if k in group) for k in (i, j))
                if first is not second:
                    groups.remove(second)
                    first |= second
    return sorted(sorted(group) for group in groups if len(group) > 1)


@given(st.lists(st.integers(0, 5), max_size=30))
def test_equal_groups_are_those_of_all_pairs(values):
    found = [group.tolist() for group in equal_groups(np.array(values, dtype=np.int64))]
    assert found == naive_groups(values, lambda a, b: a == b)


@settings(deadline=None)
@given(st.lists(st.sets(st.integers(0, 63), max_size=4), max_size=25))
def test_near_groups_are_those_of_all_pairs(flips):
    hashes = np.array([PATTERN ^ sum(1 << bit for bit in flipped) for flipped in flips], dtype=np.uint64)
    found = [group.tolist() for group in near_groups(hashes)]
    assert found == naive_groups(hashes, lambda a, b: bin(a ^ b).count("1") <= 3)


def test_plain_pictures_are_not_compared():
    hashes = np.array([0, 0, 1, 2**64 - 1, 2**64 - 1, PATTERN, PATTERN], dtype=np.uint64)
    assert [group.tolist() for group in near_groups(hashes)] == [[5, 6]]


def test_no_items_have_no_duplicates():
    assert equal_groups(np.empty(0, np.int64)) == [] == near_groups(np.empty(0, np.uint64))


def test_equal_groups_of_strings():
    assert [group.tolist() for group in equal_groups(np.array(["b", "a", "b"]))] == [[0, 2]]
