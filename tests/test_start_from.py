"""Training that starts from the weights of another run."""

import pytest
import torch

from remp.checkpoint import build_method, read_checkpoint, take_weights
from remp.config import make_config
from remp.errors import CheckpointError


def test_training_starts_from_the_weights_it_is_given(train_tiny):
    first = train_tiny("first") / "best.safetensors"
    still = {"episodes": 1, "milestones": [], "learning_rate": 1e-12, "weight_decay": 0.0}
    second = train_tiny("second", start_from=str(first), **still) / "best.safetensors"
    before, after = read_checkpoint(first)[0], read_checkpoint(second)[0]
    weights = [name for name in before if name.endswith("weight")]
    assert weights
    assert all(torch.allclose(before[name], after[name], atol=1e-6) for name in weights)


def test_weights_of_other_training_classes_are_left_behind(train_tiny, tiny, train_images):
    first = train_tiny("first") / "best.safetensors"
    method = build_method(make_config(tiny()), train_images.image_size, train_images.n_classes + 3)
    assert take_weights(method, first) == ["global_prototypes"]


def test_a_backbone_that_does_not_fit_is_refused(train_tiny, tiny, train_images):
    first = train_tiny("first") / "best.safetensors"
    method = build_method(make_config(tiny(width=12)), train_images.image_size, train_images.n_classes)
    with pytest.raises(CheckpointError, match="does not fit"):
        take_weights(method, first)
