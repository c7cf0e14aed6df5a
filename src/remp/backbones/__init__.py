"""The table of backbones: one line a backbone."""

from remp.backbones.base import Backbone
from remp.backbones.conv4 import Conv4
from remp.backbones.resnet12 import ResNet12

BACKBONES: dict[str, type[Backbone]] = {
    "conv4": Conv4,
    "resnet12": ResNet12,
}

__all__ = ["BACKBONES", "Backbone", "Conv4", "ResNet12"]
