"""What every backbone is: images in, maps or vectors out; and its batch norms, for those who change them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remp.errors import ConfigError

Readout = Literal["flatten", "average"]
Change = Callable[[int, nn.BatchNorm2d, Tensor, Tensor], Tensor]


class Backbone(nn.Module):
    """Subclasses write `maps`, and `stages` if they have blocks; `readout` says how a map becomes a vector."""

    def __init__(self, readout: Readout = "flatten") -> None:
        super().__init__()
        self.readout = readout
        self.width: int | None = None  # channels of a map, where the backbone says so
        self.map_size: tuple[int, int] | None = None  # rows and columns of the maps of whole images

    def maps(self, images: Tensor) -> Tensor:
        """(n, channels, height, width) -> (n, channels, h, w)"""
        raise NotImplementedError

    def stages(self, images: Tensor) -> list[Tensor]:
        """Maps after each block of the network, (n, channels, h, w) each; the last are those of `maps`."""
        return [self.maps(images)]

    def forward(self, images: Tensor) -> Tensor:
        """(n, channels, height, width) -> vectors (n, dim)"""
        maps = self.enlarged(self.maps(images))
        return maps.mean(dim=(2, 3)) if self.readout == "average" else maps.flatten(1)

    def enlarged(self, maps: Tensor) -> Tensor:
        """Maps as large as those of whole images: training may begin with smaller ones, and what is learned on maps or
        on vectors must fit both."""
        if self.map_size is None or maps.shape[2:] == self.map_size:
            return maps
        return F.interpolate(maps, size=self.map_size, mode="bilinear", align_corners=False)

    def feature_shape(self, map_shape: tuple[int, int, int]) -> tuple[int, ...]:
        """Shape of the vector that a map of this shape becomes."""
        channels, height, width = map_shape
        return (channels,) if self.readout == "average" else (channels * height * width,)

    @torch.no_grad()
    def map_shape(self, image_size: tuple[int, int, int]) -> tuple[int, int, int]:
        """Shape (channels, h, w) of a map for images of size (height, width, channels)."""
        height, width, channels = image_size
        beside = next(self.parameters(), torch.empty(0))  # for its device and type
        training = self.training
        self.eval()
        try:
            _, depth, rows, columns = self.maps(beside.new_zeros(1, channels, height, width)).shape
        except RuntimeError as error:
            raise ConfigError(
                f"{type(self).__name__} does not take images of {height} x {width} x {channels} ({error}): "
                "prepare larger images, or make the backbone for this number of channels"
            ) from error
        finally:
            self.train(training)
        return depth, rows, columns


class FourBlocks(Backbone):
    """A backbone of four blocks: equally long parts of `blocks`, one after the other."""

    blocks: nn.Sequential

    def maps(self, images: Tensor) -> Tensor:
        return self.blocks(images)

    def stages(self, images: Tensor) -> list[Tensor]:
        length, outputs = len(self.blocks) // 4, [images]
        for start in range(0, 4 * length, length):
            outputs.append(self.blocks[start : start + length](outputs[-1]))
        return outputs[1:]


def batch_norms(backbone: nn.Module) -> list[nn.BatchNorm2d]:
    """All batch norms of a backbone, in the order in which it names them."""
    return [module for module in backbone.modules() if isinstance(module, nn.BatchNorm2d)]


@contextmanager
def changed_batch_norms(backbone: nn.Module, change: Change) -> Iterator[None]:
    """While it lasts, batch norm number i gives `change(i, layer, input, output)` instead of its output: batch norms of
    any backbone, changed from task to task without touching its code."""

    def hook(number: int) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], Tensor]:
        def changed(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
            assert isinstance(layer, nn.BatchNorm2d)
            return change(number, layer, inputs[0], output)

        return changed

    handles = [layer.register_forward_hook(hook(i)) for i, layer in enumerate(batch_norms(backbone))]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
