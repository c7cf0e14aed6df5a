"""The tables of backbones, one line each: those to train, and those whose weights others trained and published."""

from collections.abc import Callable

from remp.backbones.base import Backbone
from remp.backbones.conv4 import Conv4
from remp.backbones.efficientnet_lite0 import load_efficientnet_lite0
from remp.backbones.embedding import Embedder
from remp.backbones.resnet12 import ResNet12

BACKBONES: dict[str, type[Backbone]] = {
    "conv4": Conv4,
    "resnet12": ResNet12,
}

PRETRAINED: dict[str, Callable[[int | None], Embedder]] = {
    "efficientnet-lite0": load_efficientnet_lite0,
}

__all__ = ["BACKBONES", "PRETRAINED", "Backbone", "Conv4", "Embedder", "ResNet12"]
