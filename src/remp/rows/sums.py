"""Sums over blocks, added in an order that depends on nothing but their number.

Blocks are added in groups, each from its first to its last, and then the sums of the groups, likewise. A group can be
added wherever it is convenient: the numbers come out the same to the last bit.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Any

# Blocks in a group. 256 of them are then 16 groups of 16: as few additions one after the other as two steps allow.
GROUP = 16


def add(*parts: Any) -> Any:
    """The sum of one or more, from the first to the last: of what can be added, or of tuples of that."""
    total = parts[0]
    for part in parts[1:]:
        total = tuple(map(add, total, part)) if isinstance(total, tuple) else total + part
    return total


def total(parts: Iterable[Any]) -> Any:
    """The sum of what all blocks have made, one or more, which come in their order."""
    parts = iter(parts)
    whole = add(*islice(parts, GROUP))
    while group := tuple(islice(parts, GROUP)):
        whole = add(whole, add(*group))
    return whole
