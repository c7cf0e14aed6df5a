"""DropBlock: dropout that removes squares of a map instead of single values."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remp.errors import ConfigError


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
        size = self._size(min(height, width))
        rows, columns = height - size + 1, width - size + 1  # where the corner of a square may lie
        share = self.current_rate() / size**2 * (height * width) / (rows * columns)
        corners = torch.rand(n, channels, rows, columns, device=maps.device) < share
        padded = F.pad(corners.to(maps.dtype), [size - 1] * 4)
        return 1 - F.max_pool2d(padded, size, stride=1)

    def _size(self, side: int) -> int:
        wanted = self.size or (5 if side >= 5 else 2)
        return min(wanted, side)
