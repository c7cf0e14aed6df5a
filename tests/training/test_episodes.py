"""Normalisation against its formula; random crops against images whose pixels tell where they came from."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from remp.backbones.embedding import Normalisation
from remp.training.episodes import random_resized_crop

SIDE = 32


def crop(images: Tensor, *, seed: int = 0, area: tuple[float, float] = (0.2, 0.7), flip: bool = False) -> Tensor:
    return random_resized_crop(images, area=area, flip=flip, generator=torch.Generator().manual_seed(seed))


def coordinates(n: int) -> Tensor:
    """n equal images (n, 2, SIDE, SIDE) whose two channels are the column and the row of each pixel, in pixels."""
    row, column = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    return torch.stack([column, row]).float().expand(n, 2, SIDE, SIDE)


def shares(cropped: Tensor) -> tuple[Tensor, Tensor]:
    """Width and height of each crop of `coordinates`, as shares of the image: the step between two pixels."""
    middle = SIDE // 2
    width = cropped[:, 0, middle, middle] - cropped[:, 0, middle, middle - 1]
    height = cropped[:, 1, middle, middle] - cropped[:, 1, middle - 1, middle]
    return width, height


def centres(cropped: Tensor) -> Tensor:
    """Middle of each crop of `coordinates` in pixels, (n, 2)."""
    middle = SIDE // 2
    return cropped[:, :, middle - 1 : middle + 1, middle - 1 : middle + 1].mean(dim=(2, 3))


@pytest.mark.parametrize("channels", [1, 3])
def test_normalisation_equals_its_formula(channels):
    pixels = np.random.default_rng(0).integers(0, 256, (2, 5, 7, channels), dtype=np.uint8)
    mean, std = (0.48, 0.45, 0.41)[:channels], (0.27, 0.26, 0.28)[:channels]
    normalised = Normalisation(mean, std)(torch.from_numpy(pixels))
    expected = (pixels.astype(np.float64) / 255 - mean) / std
    assert normalised.dtype == torch.float32
    np.testing.assert_allclose(normalised.numpy(), expected.transpose(0, 3, 1, 2), rtol=1e-5, atol=1e-6)


def test_normalisation_and_crops_leave_channels_last_in_memory():
    normalised = Normalisation((0.5,) * 3, (0.25,) * 3)(torch.zeros(2, 8, 9, 3, dtype=torch.uint8))
    assert normalised.is_contiguous(memory_format=torch.channels_last)
    assert crop(normalised).is_contiguous(memory_format=torch.channels_last)
    assert crop(normalised.contiguous()).is_contiguous(memory_format=torch.channels_last)


def test_a_smaller_crop_shows_the_same_part_of_the_image():
    """Pixels of half the size lie in the middle of two of the whole size, in either direction."""
    images = coordinates(20)
    whole, small = (
        random_resized_crop(images, area=(0.2, 0.7), flip=True, generator=torch.Generator().manual_seed(3), side=side)
        for side in (None, SIDE // 2)
    )
    expected = torch.nn.functional.avg_pool2d(whole, 2)
    assert small.shape == (20, 2, SIDE // 2, SIDE // 2)
    torch.testing.assert_close(small[..., 1:-1, 1:-1], expected[..., 1:-1, 1:-1], atol=1e-3, rtol=0)


def test_a_crop_of_the_whole_area_leaves_one_axis_as_it_was():
    """The aspect ratio is still drawn; a side that would leave the image is cut at its edge."""
    images = coordinates(50)
    cropped = crop(images, area=(1.0, 1.0))
    width, height = shares(cropped)
    assert ((width - 1).abs() < 1e-4).logical_xor((height - 1).abs() < 1e-4).all()
    assert min(width.min(), height.min()) > math.sqrt(3 / 4) - 1e-4
    columns_kept = (width - 1).abs() < 1e-4
    torch.testing.assert_close(cropped[columns_kept, 0], images[columns_kept, 0], rtol=0, atol=1e-3)
    torch.testing.assert_close(cropped[~columns_kept, 1], images[~columns_kept, 1], rtol=0, atol=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_crops_show_what_a_naive_resampling_of_the_window_shows(seed):
    image = torch.rand(1, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(5))
    window = crop(coordinates(1), seed=seed)
    (width,), (height,) = shares(window)
    column, row = centres(window)[0]
    places = np.arange(SIDE)
    from_the_middle = places - (SIDE - 1) / 2
    across, down = column.item() + from_the_middle * width.item(), row.item() + from_the_middle * height.item()
    rows = np.stack([np.interp(across, places, line) for line in image[0, 0].numpy()])
    expected = np.stack([np.interp(down, places, line) for line in rows.T]).T
    np.testing.assert_allclose(crop(image, seed=seed)[0, 0].numpy(), expected, atol=1e-3)


def test_flips_mirror_half_of_the_crops_exactly():
    images = torch.rand(400, 1, 8, 8)
    plain, flipped = crop(images), crop(images, flip=True)
    kept = (flipped == plain).flatten(1).all(dim=1)
    torch.testing.assert_close(flipped[~kept], plain[~kept].flip(3), rtol=0, atol=1e-5)
    assert 0.4 < kept.float().mean() < 0.6


def test_the_seed_decides_the_crops():
    images = torch.rand(4, 3, 16, 16)
    assert torch.equal(crop(images, seed=3, flip=True), crop(images, seed=3, flip=True))
    assert not torch.equal(crop(images, seed=3, flip=True), crop(images, seed=4, flip=True))


def test_the_global_generator_is_neither_used_nor_moved():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = crop(coordinates(3))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(1)
    assert torch.equal(crop(coordinates(3)), first)


def test_values_stay_within_the_range_of_each_image():
    images = torch.randn(30, 3, 9, 14)
    cropped = crop(images, area=(0.05, 1.0), flip=True)
    assert (cropped.amax(dim=(2, 3)) <= images.amax(dim=(2, 3)) + 1e-5).all()
    assert (cropped.amin(dim=(2, 3)) >= images.amin(dim=(2, 3)) - 1e-5).all()


def test_every_image_has_a_crop_of_its_own():
    cropped = crop(coordinates(50))
    assert len(torch.unique(cropped.flatten(1), dim=0)) == 50


def test_other_images_in_the_batch_do_not_leak_into_a_crop():
    images = torch.rand(4, 3, 16, 16)
    changed = images.clone()
    changed[1:] = 0
    assert torch.equal(crop(images)[0], crop(changed)[0])


def test_areas_are_uniform_and_aspect_ratios_log_uniform():
    width, height = shares(crop(coordinates(4000), area=(0.2, 0.7)))
    area, log_ratio = width * height, torch.log(width / height) / math.log(4 / 3)
    for drawn, low, high in ((area, 0.2, 0.7), (log_ratio, -1.0, 1.0)):
        expected = torch.linspace(low, high, 11)[1:-1]
        torch.testing.assert_close(torch.quantile(drawn, torch.linspace(0.1, 0.9, 9)), expected, rtol=0, atol=0.06)
        assert low - 1e-3 < drawn.min()
        assert drawn.max() < high + 1e-3


def test_windows_lie_inside_the_image_and_everywhere_in_it():
    cropped = crop(coordinates(4000))
    sides = torch.stack(shares(cropped), dim=1) * SIDE
    first_edge = centres(cropped) - sides / 2 + 0.5  # a pixel's centre is half a pixel from its edge
    place = first_edge / (SIDE - sides)  # 0: at the near edge of the image, 1: at the far edge
    assert place.min() > -1e-2
    assert place.max() < 1 + 1e-2
    torch.testing.assert_close(place.mean(dim=0), torch.tensor([0.5, 0.5]), rtol=0, atol=0.03)
    torch.testing.assert_close(place.std(dim=0), torch.full((2,), math.sqrt(1 / 12)), rtol=0, atol=0.03)
