"""ConvNet-64: four blocks of 3x3 convolution, batch norm, ReLU and 2x2 max pooling."""

from typing import Literal

from torch import nn

from remp.backbones.base import FourBlocks, Readout
from remp.checks import require_at_least
from remp.errors import ConfigError


class Conv4(FourBlocks):
    """The four-layer network of Vinyals et al. (Matching Networks, 2016) and Snell et al. (ProtoNet, 2017).

    width: channels of each block. readout: how a map becomes a vector, "flatten" or the "average" over its positions.
    pooling: what becomes of an odd row or column; "floor" gives 64 x 5 x 5 for 84 x 84 images, "ceil" 64 x 6 x 6
    (DFMN-MCT). bias: of the convolutions (MetaOptNet and EPNet have none). last_relu: off lets features be negative.
    pools: how many blocks, counted from the first, end in pooling; with 2 (Relation Network) 84 x 84 images have
    64 x 21 x 21 maps and 32 x 32 images 64 x 8 x 8.
    """

    def __init__(
        self,
        channels: int = 3,
        *,
        width: int = 64,
        pooling: Literal["floor", "ceil"] = "floor",
        readout: Readout = "flatten",
        bias: bool = True,
        last_relu: bool = True,
        pools: int = 4,
    ) -> None:
        super().__init__(readout)
        require_at_least(1, width=width)
        if not 0 <= pools <= 4:
            raise ConfigError(f"pools is {pools}; needed 0 … 4, the number of blocks that end in pooling")
        self.width = width
        blocks: list[nn.Module] = []
        for i in range(4):
            blocks += [
                nn.Conv2d(channels if i == 0 else width, width, 3, padding=1, bias=bias),
                nn.BatchNorm2d(width),
                # A maximum commutes with ReLU: pooling first gives the same numbers and rectifies a quarter of them.
                nn.MaxPool2d(2, ceil_mode=pooling == "ceil") if i < pools else nn.Identity(),
                nn.ReLU(inplace=True) if i < 3 or last_relu else nn.Identity(),
            ]
        self.blocks = nn.Sequential(*blocks)
