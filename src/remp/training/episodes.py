"""The episodes of a training run: drawn, loaded and augmented by number."""

import numpy as np
import torch
from torch import Tensor

from remp.backbones.embedding import Normalisation
from remp.config import RunConfig
from remp.datasets.base import ImageSet
from remp.episodes import Episodes, EpisodeSampler
from remp.training.augment import random_resized_crop


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
        sampler = self._first if number < self._n_first else self._sampler
        sampler.position = number
        seed = int(np.random.SeedSequence([self._config.seed, number]).generate_state(1, np.uint64)[0] >> 1)
        torch.manual_seed(seed)
        generator = torch.Generator().manual_seed(seed)

        def load(ids: Tensor) -> Tensor:
            pixels = torch.from_numpy(self._images.images[ids.numpy()]).to(self._device)
            return random_resized_crop(
                self._normalisation(pixels), area=self._config.crop_area, generator=generator, flip=self._config.flip
            )

        return sampler.sample(1).map(load).to(self._device)
