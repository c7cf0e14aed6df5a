"""What every backbone is: images in, maps or vectors out."""

from typing import Literal

import torch
from torch import Tensor, nn

Readout = Literal["flatten", "average"]


class Backbone(nn.Module):
    """Subclasses write `maps`; `readout` says how a map becomes a vector."""

    def __init__(self, readout: Readout = "flatten") -> None:
        super().__init__()
        self.readout = readout

    def maps(self, images: Tensor) -> Tensor:
        """(n, channels, height, width) -> (n, width, h, w)"""
        raise NotImplementedError

    def forward(self, images: Tensor) -> Tensor:
        """(n, channels, height, width) -> vectors (n, dim)"""
        maps = self.maps(images)
        return maps.mean(dim=(2, 3)) if self.readout == "average" else maps.flatten(1)

    @torch.no_grad()
    def map_shape(self, image_size: tuple[int, int, int]) -> tuple[int, int, int]:
        """Shape (width, h, w) of a map for images of size (height, width, channels)."""
        height, width, channels = image_size
        training = self.training
        self.eval()
        shape = self.maps(torch.zeros(1, channels, height, width)).shape[1:]
        self.train(training)
        return tuple(shape)
