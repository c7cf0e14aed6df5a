"""Threads that share room never hold more than there is, and none waits for ever."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from remp.system.memory import Room


def test_never_more_is_held_than_there_is_room_for() -> None:
    room, lock, held, most = Room(10), threading.Lock(), [0], [0]

    def hold(n: int) -> None:
        with room.take(n):
            with lock:
                held[0] += n
                most[0] = max(most[0], held[0])
            time.sleep(0.001)
            with lock:
                held[0] -= n

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(hold, [1, 2, 3, 4, 5, 6] * 8))
    assert 6 <= most[0] <= 10


def test_what_is_larger_than_the_room_gets_in_alone() -> None:
    room, entered = Room(10), threading.Event()

    def enter() -> None:
        with room.take(1):
            entered.set()

    with room.take(10**6):
        other = threading.Thread(target=enter)
        other.start()
        assert not entered.wait(0.05)
    other.join(5)
    assert entered.is_set()
    with room.take(10):  # all is free again
        pass


def test_an_error_gives_the_room_back() -> None:
    room = Room(10)
    with pytest.raises(ValueError, match="mine"), room.take(10):
        raise ValueError("mine")
    with room.take(10):
        pass
