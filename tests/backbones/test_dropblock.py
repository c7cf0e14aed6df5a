"""DropBlock against its definition."""

import numpy as np
import pytest
import torch

from remp.backbones.resnet12 import DropBlock
from remp.errors import ConfigError


def dropped(block: DropBlock, *shape: int) -> np.ndarray:
    """Which values of a map of ones are zero after one training pass."""
    torch.manual_seed(0)
    return (block(torch.ones(*shape)) == 0).numpy()


def union_of_squares(holes: np.ndarray, size: int) -> np.ndarray:
    """The part of the holes (height, width) that full squares of this size cover."""
    covered = np.zeros_like(holes)
    for i in range(holes.shape[0] - size + 1):
        for j in range(holes.shape[1] - size + 1):
            if holes[i : i + size, j : j + size].all():
                covered[i : i + size, j : j + size] = True
    return covered


@pytest.mark.parametrize(
    ("size", "shape", "expected"),
    [
        (None, (10, 10), 5),
        (None, (5, 5), 5),
        (None, (4, 4), 2),
        (None, (2, 2), 2),
        (None, (1, 1), 1),
        (None, (11, 4), 2),
        (3, (7, 9), 3),
        (7, (4, 6), 4),
    ],
)
def test_holes_are_full_squares_of_the_chosen_size(size, shape, expected):
    holes = dropped(DropBlock(0.1, size=size, ramp=0), 8, 16, *shape).reshape(-1, *shape)
    assert all(np.array_equal(union_of_squares(hole, expected), hole) for hole in holes)
    assert min(hole.sum() for hole in holes if hole.any()) == expected**2


@pytest.mark.parametrize(("side", "size"), [(5, 5), (4, 2), (10, 5), (6, 3)])
def test_every_place_is_dropped_as_often_as_the_definition_says(side, size):
    gamma = 0.1 / size**2 * side**2 / (side - size + 1) ** 2
    covering = np.convolve(np.ones(side - size + 1), np.ones(size))  # how many squares lie over a row
    over = np.outer(covering, covering)
    holes = dropped(DropBlock(0.1, size=size, ramp=0), 100, 100, side, side)
    np.testing.assert_allclose(holes.mean(axis=(0, 1)), 1 - (1 - gamma) ** over, atol=0.015)


def test_what_is_kept_is_scaled_by_total_over_kept():
    torch.manual_seed(0)
    maps = torch.rand(4, 8, 10, 10) + 1
    scaled = DropBlock(0.3, ramp=0)(maps)
    kept = scaled != 0
    torch.testing.assert_close(scaled[kept], maps[kept] * (kept.numel() / int(kept.sum())))


def test_the_mean_of_many_passes_is_the_input_where_all_places_are_dropped_alike():
    torch.manual_seed(0)
    block, maps = DropBlock(0.1, size=2, ramp=0), torch.rand(1, 20, 2, 2)
    mean = torch.stack([block(maps) for _ in range(1000)]).mean(dim=0)
    torch.testing.assert_close(mean, maps, rtol=0.05, atol=0.0)


def test_gradients_pass_only_where_values_are_kept():
    maps = torch.rand(2, 3, 10, 10, requires_grad=True)
    scaled = DropBlock(0.3, ramp=0)(maps)
    scaled.sum().backward()
    assert torch.equal(maps.grad != 0, scaled != 0)


def test_evaluation_is_the_identity_and_is_not_counted():
    block, maps = DropBlock(0.5, ramp=0).eval(), torch.rand(2, 3, 10, 10)
    assert torch.equal(block(maps), maps)
    assert block.passes == 0


def test_a_map_that_is_dropped_as_a_whole_is_zero_and_not_a_number():
    torch.manual_seed(0)
    block = DropBlock(0.99, ramp=0)
    assert all(block(torch.ones(1, 1, 5, 5)).isfinite().all() for _ in range(20))


@pytest.mark.parametrize("passes", [0, 1, 20_000, 39_999, 40_000, 100_000])
def test_the_rate_grows_over_the_ramp_and_stays(passes):
    block = DropBlock(0.1)
    block.passes.fill_(passes)
    assert 1 - block.current_rate().item() == pytest.approx(max(1 - 0.1 * passes / 40_000, 0.9))


def test_nothing_is_dropped_at_the_foot_of_a_long_ramp():
    assert not dropped(DropBlock(0.1, ramp=10**9), 8, 16, 10, 10).any()


def test_a_copy_resumes_the_ramp_where_it_stopped():
    block, copy = DropBlock(0.5, ramp=6), DropBlock(0.5, ramp=6)
    for _ in range(3):
        block(torch.ones(1, 1, 5, 5))
    copy.load_state_dict(block.state_dict())
    assert copy.passes == 3
    assert np.array_equal(dropped(copy, 4, 4, 10, 10), dropped(block, 4, 4, 10, 10))


@pytest.mark.parametrize("settings", [{"rate": 1.0}, {"rate": -0.1}, {"size": 0}, {"ramp": -1}])
def test_impossible_settings_are_refused(settings):
    with pytest.raises(ConfigError, match="needed 0 <= rate < 1, size >= 1, ramp >= 0"):
        DropBlock(**settings)
