"""The table of backbones whose weights others trained and published: one line a backbone."""

from collections.abc import Callable

from remp.backbones.efficientnet_lite0 import load_efficientnet_lite0
from remp.backbones.published import Pretrained

PRETRAINED: dict[str, Callable[[], Pretrained]] = {
    "efficientnet-lite0": load_efficientnet_lite0,
}

__all__ = ["PRETRAINED", "Pretrained"]
