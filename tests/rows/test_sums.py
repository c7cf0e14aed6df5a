"""Sums over blocks: of everything, in an order that depends on their number alone."""

import numpy as np
import pytest

from remp.rows import ArrayRows, JoinedRows, Shard
from remp.rows.blocks import GROUP, add, total

NUMBERS = 10.0 ** np.random.default_rng(0).integers(-8, 9, size=600)  # whose sum depends on the order


def by_hand(numbers):
    """Groups of sixteen by two loops."""
    sums = []
    for at in range(0, len(numbers), 16):
        here = numbers[at]
        for number in numbers[at + 1 : at + 16]:
            here = here + number
        sums.append(here)
    whole = sums[0]
    for here in sums[1:]:
        whole = whole + here
    return whole


@pytest.mark.parametrize("n", [1, 15, 16, 17, 32, 33, 512, 600])
def test_blocks_are_added_in_groups_and_then_the_groups(n):
    assert total(NUMBERS[:n]) == by_hand(NUMBERS[:n])
    groups = [add(*NUMBERS[at : min(at + GROUP, n)]) for at in range(0, n, GROUP)]  # as tasks do it elsewhere
    assert add(*groups) == by_hand(NUMBERS[:n])


def test_the_order_can_be_seen_in_the_last_bits():
    assert total(NUMBERS) != sum(NUMBERS)
    assert total(NUMBERS) == pytest.approx(sum(NUMBERS))


def test_tuples_are_added_element_by_element():
    assert add((1, (2, 3.5)), (10, (20, 0.5)), (100, (200, 1.0))) == (111, (222, 5.0))


def test_a_pass_adds_up_what_its_blocks_make():
    rows = JoinedRows(*(ArrayRows(np.full((2, 1), number)) for number in NUMBERS[:40]))
    assert Shard().total(lambda block: float(next(block.chunks())[0, 0]), rows) == by_hand(
        np.float32(NUMBERS[:40]).tolist()
    )
