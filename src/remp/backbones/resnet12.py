"""ResNet-12 in the two variants that published few-shot results rest on."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remp.backbones.base import FourBlocks, Readout
from remp.errors import ConfigError


@dataclass(frozen=True)
class Variant:
    """What differs between the networks that are called ResNet-12."""

    widths: tuple[int, int, int, int]
    activation: Callable[[], nn.Module]
    skip_kernel: int
    bias: bool
    ceil_pooling: bool
    epsilon: float
    dropblock_from: int
    """The first block, counted from 0, with DropBlock in place of dropout."""
    initialise: Callable[[Tensor], Tensor]
    """Of the weights of the convolutions."""


VARIANTS = {
    "dfmn": Variant(
        widths=(64, 128, 256, 512),
        activation=partial(nn.ReLU, inplace=True),
        skip_kernel=3,
        bias=True,
        ceil_pooling=True,
        epsilon=2e-5,
        dropblock_from=4,
        initialise=partial(nn.init.kaiming_normal_, mode="fan_in", nonlinearity="linear"),
    ),
    "metaopt": Variant(
        widths=(64, 160, 320, 640),
        activation=partial(nn.LeakyReLU, 0.1, inplace=True),
        skip_kernel=1,
        bias=False,
        ceil_pooling=False,
        epsilon=1e-5,
        dropblock_from=2,
        initialise=partial(nn.init.kaiming_normal_, mode="fan_out", nonlinearity="leaky_relu"),
    ),
}


class ResNet12(FourBlocks):
    """Four residual blocks of three convolutions.

    variant: "dfmn" is the network of DFMN-MCT (Kye et al., 2020), on which ReMP builds: 512 x 6 x 6 for 84 x 84 images;
    "metaopt" the wider one of MetaOptNet (Lee et al., 2019), with DropBlock in its last two blocks: 640 x 5 x 5.
    dropout: share of values dropped after each block. readout: how a map becomes a vector, "flatten"
    or the "average" over its positions. dropblock_size, dropblock_ramp: side of the blocks that are dropped, and steps
    until they are dropped at the full rate; "dfmn" has none and does not read them.
    """

    def __init__(
        self,
        channels: int = 3,
        *,
        variant: Literal["dfmn", "metaopt"] = "dfmn",
        readout: Readout = "flatten",
        dropout: float = 0.1,
        dropblock_size: int | None = None,
        dropblock_ramp: int = 40_000,
    ) -> None:
        super().__init__(readout)
        if variant not in VARIANTS:
            raise ConfigError(f"got variant={variant!r}; ResNet-12 comes as {' or '.join(VARIANTS)}")
        settings = VARIANTS[variant]
        self.width = settings.widths[-1]
        blocks: list[nn.Module] = []
        for i, (before, after) in enumerate(pairwise((channels, *settings.widths))):
            blocks.append(ResidualBlock(before, after, settings))
            if i < settings.dropblock_from:
                blocks.append(nn.Dropout(dropout))
            else:
                blocks.append(DropBlock(dropout, size=dropblock_size, ramp=dropblock_ramp))
        self.blocks = nn.Sequential(*blocks)
        for convolution in (module for module in self.modules() if isinstance(module, nn.Conv2d)):
            settings.initialise(convolution.weight)
            if convolution.bias is not None:
                nn.init.zeros_(convolution.bias)


class ResidualBlock(nn.Module):
    """Three convolutions beside one on the skip path, added before the last activation, then 2x2 max pooling."""

    def __init__(self, before: int, after: int, variant: Variant) -> None:
        super().__init__()
        self.path = nn.Sequential(
            *_convolution(before, after, 3, variant),
            variant.activation(),
            *_convolution(after, after, 3, variant),
            variant.activation(),
            *_convolution(after, after, 3, variant),
        )
        self.skip = nn.Sequential(*_convolution(before, after, variant.skip_kernel, variant))
        # A maximum commutes with a rising activation: pooling first gives the same numbers for a quarter of the work.
        self.finish = nn.Sequential(nn.MaxPool2d(2, ceil_mode=variant.ceil_pooling), variant.activation())

    def forward(self, maps: Tensor) -> Tensor:
        """(n, before, height, width) -> (n, after, height / 2, width / 2)"""
        return self.finish(self.path(maps) + self.skip(maps))


def _convolution(before: int, after: int, kernel: int, variant: Variant) -> list[nn.Module]:
    return [
        nn.Conv2d(before, after, kernel, padding=kernel // 2, bias=variant.bias),
        nn.BatchNorm2d(after, eps=variant.epsilon),
    ]


class DropBlock(nn.Module):
    """Ghiasi, Lin and Le, "DropBlock: a regularization method for convolutional networks", 2018,
    https://arxiv.org/abs/1810.12890, with the slow start that MetaOptNet gives it.

    In training, squares of size x size are set to zero in each channel, about `rate` of the map in all (less where
    they overlap); what is kept is scaled up so that the mean stays. The identity in evaluation.

    size: None takes 5, or 2 where the map is smaller than 5; a square is never larger than the map. ramp: number of
    training passes over which the rate grows from 0 to `rate`; they are counted in a buffer, so a resumed run goes on
    where it stopped.
    """

    passes: Tensor

    def __init__(self, rate: float = 0.1, *, size: int | None = None, ramp: int = 40_000) -> None:
        super().__init__()
        if not 0 <= rate < 1 or (size is not None and size < 1) or ramp < 0:
            raise ConfigError(f"got rate={rate}, size={size}, ramp={ramp}; needed 0 <= rate < 1, size >= 1, ramp >= 0")
        self.rate, self.size, self.ramp = rate, size, ramp
        self.register_buffer("passes", torch.zeros((), dtype=torch.long))

    def forward(self, maps: Tensor) -> Tensor:
        """(n, channels, height, width) -> the same shape"""
        if not self.training or self.rate == 0:
            return maps
        self.passes += 1
        kept = self._kept(maps)
        return maps * (kept / kept.mean(dtype=torch.float32).clamp(min=1e-6))  # 1e-6: where nothing is kept

    def current_rate(self) -> Tensor:
        """The share to drop at this point of the ramp, 0 … rate."""
        return self.rate * (self.passes / self.ramp).clamp(max=1.0)

    def _kept(self, maps: Tensor) -> Tensor:
        """A random mask of the shape of the maps: 0 in the dropped squares, 1 elsewhere."""
        n, channels, height, width = maps.shape
        side = min(height, width)
        size = min(self.size or (5 if side >= 5 else 2), side)
        rows, columns = height - size + 1, width - size + 1  # where the corner of a square may lie
        share = self.current_rate() / size**2 * (height * width) / (rows * columns)
        corners = torch.rand(n, channels, rows, columns, device=maps.device) < share
        padded = F.pad(corners.to(maps.dtype), [size - 1] * 4)
        return 1 - F.max_pool2d(padded, size, stride=1)
