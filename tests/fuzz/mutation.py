"""Good files made bad: the same seed gives the same damage on every machine."""

import json
import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

Damage = Callable[[bytes, np.random.Generator], bytes]

_NUMBERS = [0, 1, -1, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, -(2**63)]
_VALUES: list[Any] = [
    None, True, -1, 0, 1.5, 10**7, 10**12, 10**30, 10**400, 1e308, math.inf, -math.inf, math.nan, "", "x", "x" * 10**4,
    "\ud800", "../../etc/passwd", "<script>alert(1)</script>", "a\0b", [], {}, [[]], [None] * 3, {"a": {"b": []}},
    [0] * 1000,
]  # fmt: skip


def damaged(content: bytes, random: np.random.Generator) -> bytes:
    """The bytes with one to four pieces of damage."""
    made = bytearray(content)
    for _ in range(random.integers(1, 5)):
        if made:
            _DAMAGES[random.integers(len(_DAMAGES))](made, random)
    return bytes(made)


def odd_json(value: Any, random: np.random.Generator) -> Any:
    """A value of JSON with one place of it replaced, removed or added to."""
    if isinstance(value, dict) and value and random.random() < 0.85:
        key = list(value)[random.integers(len(value))]
        if random.random() < 0.1:
            return {name: item for name, item in value.items() if name != key}
        if random.random() < 0.1:
            return {**value, str(random.integers(100)): _odd(random)}
        return {**value, key: odd_json(value[key], random)}
    if isinstance(value, list) and value and random.random() < 0.6:
        place = random.integers(len(value))
        return [*value[:place], odd_json(value[place], random), *value[place + 1 :]]
    return _odd(random)


def odd_text(text: str, random: np.random.Generator) -> str:
    """JSON as text, changed at one place."""
    return json.dumps(odd_json(json.loads(text), random))


def damaged_json(content: bytes, random: np.random.Generator) -> bytes:
    """Damage JSON as JSON, or its bytes; a file that is no JSON always its bytes."""
    if content[:1] in (b"{", b"[") and random.random() < 0.7:
        return odd_text(content.decode(), random).encode()
    return damaged(content, random)


def damaged_safetensors(content: bytes, random: np.random.Generator) -> bytes:
    """Damage the header as JSON, the settings in it as JSON, or any bytes."""
    (length,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    chance = random.random()
    if chance < 0.3:
        return damaged(content, random)
    if chance < 0.45:
        text = json.dumps(json.loads(odd_text(json.dumps(header), random)))
    else:
        header["__metadata__"]["remp"] = odd_text(header["__metadata__"]["remp"], random)
        text = json.dumps(header)
    made = text.encode()
    return struct.pack("<Q", len(made)) + made + data


def within(pack: Callable[[bytes], bytes], unpack: Callable[[bytes], bytes]) -> Damage:
    """Damage of what is packed, so that it is reached behind the check sums of the packing; now and then of both."""

    def damage(content: bytes, random: np.random.Generator) -> bytes:
        if random.random() < 0.3:
            return damaged(content, random)
        return pack(damaged(unpack(content), random))

    return damage


def _odd(random: np.random.Generator) -> Any:
    return _VALUES[random.integers(len(_VALUES))]


def _place(made: bytearray, random: np.random.Generator) -> int:
    """Anywhere, but more often near either end, where headers and tables are."""
    n = len(made)
    near = int(random.integers(min(n, 128)))
    return int(random.choice([random.integers(n), near, n - 1 - near]))


def _flip(made: bytearray, random: np.random.Generator) -> None:
    made[_place(made, random)] ^= 1 << int(random.integers(8))


def _set(made: bytearray, random: np.random.Generator) -> None:
    made[_place(made, random)] = int(random.integers(256))


def _number(made: bytearray, random: np.random.Generator) -> None:
    width = int(random.choice([1, 2, 4, 8]))
    order = "little" if random.random() < 0.6 else "big"
    number = _NUMBERS[random.integers(len(_NUMBERS))] % 256**width
    start = _place(made, random)
    made[start : start + width] = number.to_bytes(width, order)  # type: ignore[arg-type]


def _cut(made: bytearray, random: np.random.Generator) -> None:
    del made[_place(made, random) :]


def _remove(made: bytearray, random: np.random.Generator) -> None:
    start = _place(made, random)
    del made[start : start + int(random.integers(1, 64))]


def _repeat(made: bytearray, random: np.random.Generator) -> None:
    start, length = _place(made, random), int(random.integers(1, 64))
    made[start:start] = made[start : start + length] * int(random.choice([1, 2, 100]))


def _insert(made: bytearray, random: np.random.Generator) -> None:
    start = _place(made, random)
    made[start:start] = random.bytes(int(random.integers(1, 16)))


_DAMAGES = [_flip, _flip, _set, _set, _number, _number, _cut, _remove, _repeat, _insert]
