"""The table of backbones: one line a backbone."""

from remp.backbones.base import Backbone
from remp.backbones.conv4 import Conv4

BACKBONES: dict[str, type[Backbone]] = {
    "conv4": Conv4,
}

__all__ = ["BACKBONES", "Backbone", "Conv4"]
