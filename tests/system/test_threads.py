"""Work on all cores: the answers, their order, and torch's threads afterwards."""

import threading
import time

import pytest
import torch

from remp.system.threads import on_all_cores


def test_answers_come_in_the_order_of_the_parts():
    def late_at_first(part: int) -> int:
        time.sleep(0.02 if part == 0 else 0.0)
        return part * part

    assert list(on_all_cores(late_at_first, range(5))) == [0, 1, 4, 9, 16]


def test_a_part_runs_on_one_thread_of_torch_and_the_setting_comes_back():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert set(on_all_cores(lambda _: torch.get_num_threads(), range(4))) == {1}
        later: list[int] = []
        thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        assert [torch.get_num_threads(), *later] == [2, 2]
    finally:
        torch.set_num_threads(before)


def test_an_error_of_a_part_is_raised_and_the_parts_behind_it_are_dropped():
    done = []

    def work(part: int) -> int:
        if part == 0:
            raise ValueError("part 0")
        time.sleep(0.01)
        done.append(part)
        return part

    with pytest.raises(ValueError, match="part 0"):
        list(on_all_cores(work, range(1000)))
    assert len(done) < 100


def test_without_parts_there_are_no_answers():
    assert list(on_all_cores(str, [])) == []
