"""Training that starts from the weights of another run."""

from pathlib import Path

import pytest
import torch

from conftest import TINY, image_set
from remp import training
from remp.checkpoint import build_method, read_checkpoint, take_weights
from remp.config import make_config
from remp.errors import CheckpointError


@pytest.fixture
def first_run(tmp_path: Path) -> Path:
    sets = {"train_set": image_set("train"), "validation_set": image_set("val")}
    return training.train(TINY, out=tmp_path / "first", print_settings=False, **sets)


def test_training_starts_from_the_weights_it_is_given(first_run: Path, tmp_path: Path) -> None:
    sets = {"train_set": image_set("train"), "validation_set": image_set("val")}
    still = {**TINY, "episodes": 1, "learning_rate": 1e-12, "weight_decay": 0.0, "start_from": str(first_run)}
    second = training.train(still, out=tmp_path / "second", print_settings=False, **sets)
    before, after = read_checkpoint(first_run)[0], read_checkpoint(second)[0]
    weights = [name for name in before if name.endswith("weight")]
    assert weights
    assert all(torch.allclose(before[name], after[name], atol=1e-6) for name in weights)


def test_weights_of_other_training_classes_are_left_behind(first_run: Path) -> None:
    images = image_set("train")
    method = build_method(make_config(TINY), images.image_size, images.n_classes + 3)
    assert take_weights(method, first_run) == ["global_prototypes"]


def test_a_backbone_that_does_not_fit_is_refused(first_run: Path) -> None:
    images = image_set("train")
    method = build_method(make_config({**TINY, "width": 12}), images.image_size, images.n_classes)
    with pytest.raises(CheckpointError, match="does not fit"):
        take_weights(method, first_run)
