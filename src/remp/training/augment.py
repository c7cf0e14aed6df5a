"""Training images at random: crops of different sizes and places, half of them mirrored."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


def random_resized_crop(
    images: Tensor, *, area: tuple[float, float], generator: torch.Generator, flip: bool = True
) -> Tensor:
    """Crop each image at random to a share of its area and stretch it back; mirror half of them.

    images: float (n, channels, height, width); area: smallest and largest share kept, in (0, 1]. The aspect ratio of
    the crop, against that of the image, is drawn from 3/4 … 4/3, log-uniformly; a side that would then be longer than
    the image is cut to it. One bilinear resampling for the whole batch.
    """
    n = images.shape[0]
    share, ratio, x, y, mirror = torch.rand(5, n, generator=generator).to(images.device)
    share = area[0] + (area[1] - area[0]) * share
    ratio = torch.exp((2 * ratio - 1) * float(np.log(4 / 3)))
    width, height = (share * ratio).sqrt().clamp(max=1.0), (share / ratio).sqrt().clamp(max=1.0)
    sign = torch.where((mirror < 0.5) & flip, -1.0, 1.0)
    matrix = images.new_zeros(n, 2, 3)
    matrix[:, 0, 0], matrix[:, 0, 2] = width * sign, (1 - width) * (2 * x - 1)
    matrix[:, 1, 1], matrix[:, 1, 2] = height, (1 - height) * (2 * y - 1)
    grid = F.affine_grid(matrix, list(images.shape), align_corners=False)
    cropped = F.grid_sample(images, grid, mode="bilinear", padding_mode="reflection", align_corners=False)
    return cropped.contiguous(memory_format=torch.channels_last)
