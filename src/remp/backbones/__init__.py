"""The tables of backbones, one line each: those to train, and those whose weights others trained and published."""

from collections.abc import Callable
from functools import partial

from remp.backbones.base import Backbone
from remp.backbones.conv4 import Conv4
from remp.backbones.efficientnet_lite import LITE0, LITE2, load_published
from remp.backbones.embedding import Embedder
from remp.backbones.resnet12 import ResNet12
from remp.backbones.timm_models import load_timm

# By the names that `backbone` takes in the settings of a run.
BACKBONES: dict[str, type[Backbone]] = {
    "conv4": Conv4,
    "resnet12": ResNet12,
}

PRETRAINED: dict[str, Callable[[int | None], Embedder]] = {
    "efficientnet-lite0": partial(load_published, LITE0),
    "efficientnet-lite2": partial(load_published, LITE2),
    "dinov2-small": partial(load_timm, "timm:vit_small_patch14_dinov2.lvd142m"),
    "dinov2-base": partial(load_timm, "timm:vit_base_patch14_dinov2.lvd142m"),
    "siglip2-base": partial(load_timm, "timm:vit_base_patch16_siglip_224.v2_webli"),
}

__all__ = ["BACKBONES", "PRETRAINED", "Backbone", "Conv4", "Embedder", "ResNet12"]
