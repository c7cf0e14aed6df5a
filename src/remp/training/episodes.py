"""The episodes of a training run: drawn, loaded and augmented by number."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from remp.backbones.embedding import Normalisation
from remp.config import RunConfig
from remp.datasets.base import ImageSet
from remp.episodes import Episodes, EpisodeSampler


class TrainingEpisodes:
    """Episode number i of a run; its random numbers depend on nothing but the run's seed and i."""

    def __init__(self, config: RunConfig, images: ImageSet, normalisation: Normalisation, device: torch.device) -> None:
        self._config, self._images, self._normalisation, self._device = config, images, normalisation, device
        self._n_first = round(config.first_share * config.episodes)
        self._first, self._sampler = (
            EpisodeSampler(images.labels, protocol, seed=config.seed, class_names=images.class_names)
            for protocol in (config.first_protocol, config.train_protocol)
        )

    def __getitem__(self, number: int) -> Episodes:
        """A batch of one episode of normalised images, cropped and mirrored at random. Seeds torch, for dropout."""
        is_first = number < self._n_first
        sampler = self._first if is_first else self._sampler
        sampler.position = number
        seed = int(np.random.SeedSequence([self._config.seed, number]).generate_state(1, np.uint64)[0]) >> 1
        torch.manual_seed(seed)
        generator = torch.Generator().manual_seed(seed)

        def load(ids: Tensor) -> Tensor:
            return random_resized_crop(
                self._normalisation.of(self._images.images[ids.numpy()], self._device),
                area=self._config.crop_area,
                generator=generator,
                flip=self._config.flip,
                side=self._config.first_side if is_first else None,
            )

        return sampler.sample(1).map(load).to(self._device)


def random_resized_crop(
    images: Tensor,
    *,
    area: tuple[float, float],
    generator: torch.Generator,
    flip: bool = True,
    side: int | None = None,
) -> Tensor:
    """Crop each image at random to a share of its area and stretch it back; mirror half of them.

    images: float (n, channels, height, width); area: smallest and largest share kept, in (0, 1]. The aspect ratio of
    the crop, against that of the image, is drawn from 3/4 … 4/3, log-uniformly; a side that would then be longer than
    the image is cut to it. side: what crops are scaled to, in place of the size of the images. One bilinear resampling
    for the whole batch.
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
    size = images.shape[2:] if side is None else (side, side)
    grid = F.affine_grid(matrix, [n, images.shape[1], *size], align_corners=False)
    cropped = F.grid_sample(images, grid, mode="bilinear", padding_mode="reflection", align_corners=False)
    return cropped.contiguous(memory_format=torch.channels_last)
