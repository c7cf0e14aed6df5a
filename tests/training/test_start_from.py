"""Training that starts from the weights of another run."""

from dataclasses import replace

import pytest
import torch

from remp.checkpoint import read_checkpoint, take_weights
from remp.config import make_config
from remp.errors import CheckpointError, RempError
from remp.trained import build_method
from remp.training import train


def test_training_starts_from_the_weights_it_is_given(train_tiny):
    first = train_tiny("first") / "best.safetensors"
    still = {"episodes": 1, "milestones": [], "learning_rate": 1e-12, "weight_decay": 0.0}
    second = train_tiny("second", start_from=str(first), **still) / "best.safetensors"
    before, after = read_checkpoint(first)[0], read_checkpoint(second)[0]
    weights = [name for name in before if name.endswith("weight")]
    assert weights
    assert all(torch.allclose(before[name], after[name], atol=1e-6) for name in weights)


def test_a_run_on_the_same_classes_is_a_start_with_a_budget_of_time_too(train_tiny, monkeypatch):
    """The speed is tried on a network that starts from the same weights."""
    first = train_tiny("first") / "best.safetensors"
    monkeypatch.setattr("remp.training.SHARE_FOR_STEPS", 1e-9)
    second = train_tiny("second", budget="1s", start_from=str(first), milestones=[])
    assert read_checkpoint(second / "last.safetensors")[1]["done"] == 1


def test_weights_of_other_training_classes_are_left_behind(train_tiny, tiny, train_images, validation_images):
    first = train_tiny("first") / "best.safetensors"
    method = build_method(make_config(tiny()), train_images.image_size, train_images.n_classes + 3)
    assert take_weights(method, first, "remp", validation_images) == ["global_prototypes"]


def test_a_backbone_that_does_not_fit_is_refused(train_tiny, tiny, train_images, validation_images):
    first = train_tiny("first") / "best.safetensors"
    method = build_method(make_config(tiny(width=12)), train_images.image_size, train_images.n_classes)
    with pytest.raises(
        CheckpointError,
        match=r"\(backbone\.blocks\.0\.weight is float32 \(8, 3, 3, 3\) there, float32 \(12, 3, 3, 3\) here",
    ):
        take_weights(method, first, "remp", validation_images)


def test_only_the_backbone_is_taken_from_another_method(train_tiny, tiny, train_images, validation_images):
    """TADAM and Meta-Baseline both learn a number called scale, which mean different things."""
    first = train_tiny("first", method="meta-baseline") / "best.safetensors"
    method = build_method(make_config(tiny(method="tadam")), train_images.image_size, train_images.n_classes)
    fresh = take_weights(method, first, "tadam", validation_images)
    assert fresh == [name for name in method.state_dict() if not name.startswith("backbone.")]
    assert fresh


def test_classes_that_were_trained_on_cannot_be_validated_on(
    train_tiny, tiny, train_images, validation_images, tmp_path
):
    first = train_tiny("first") / "best.safetensors"
    overlapping = replace(validation_images, class_names=("train-2", *validation_images.class_names[1:]))
    with pytest.raises(RempError, match=r"trained on 1 of the 4 validation classes \(train-2\).*Start from another"):
        train(tiny(start_from=str(first)), out=tmp_path / "b", train_set=train_images, validation_set=overlapping)
    assert not (tmp_path / "b").exists()
