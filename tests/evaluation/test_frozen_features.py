"""Features of a pretrained backbone: scaled images, the transform, the mean, and no data that it has seen."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from remp.backbones.efficientnet_lite import LITE0
from remp.backbones.embedding import Embedder, Normalisation
from remp.cli import app
from remp.errors import ConfigError
from remp.evaluation.frozen_features import pretrained_features


def left_half(images: torch.Tensor) -> torch.Tensor:
    return images[:, :, :, : images.shape[3] // 2].mean((2, 3)) + 1


@pytest.fixture
def embedder() -> Embedder:
    """Mean colour of the left half, plus one, of images of 32 x 32."""
    plain = Normalisation((0.0,) * 3, (1.0,) * 3)
    return Embedder("left", "ab" * 32, dim=3, side=32, trained_on="ImageNet", network=left_half, normalisation=plain)


def halves(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean colours, plus one, of left and right, (n, 3) each."""
    return tuple(half.mean((1, 2)) / 255 + 1 for half in np.split(images, 2, axis=2))


def test_a_row_is_the_embedding_of_the_scaled_image(embedder, test_images):
    made = pretrained_features(embedder, test_images)
    assert made.base_mean is None
    assert made.checkpoint_hash == embedder.hash
    np.testing.assert_allclose(made.values, halves(test_images.images)[0], atol=0.02)  # bicubic borders


def test_the_transform_is_done_to_the_image_and_its_mirror_image(embedder, test_images):
    made = pretrained_features(embedder, test_images, transform="mirror+power")
    left, right = halves(test_images.images)
    np.testing.assert_allclose(made.values, (np.sqrt(left) + np.sqrt(right)) / 2, atol=0.02)


@pytest.mark.parametrize("sample", [7, 2048])
def test_the_base_mean_is_that_of_an_even_sample_of_the_training_images(
    embedder, test_images, train_images, monkeypatch, sample
):
    monkeypatch.setattr("remp.evaluation.frozen_features.MEAN_IMAGES", sample)
    made = pretrained_features(embedder, test_images, training_images=train_images)
    everything = pretrained_features(embedder, train_images).values
    chosen = everything[[0, 11, 23, 35, 47, 59, 71]] if sample == 7 else everything
    torch.testing.assert_close(made.base_mean, chosen.mean(0))


def test_there_is_no_base_mean_where_each_episode_is_centred(embedder, test_images, train_images):
    assert (
        pretrained_features(embedder, test_images, training_images=train_images, transform="centre").base_mean is None
    )


@pytest.mark.parametrize(
    "changes", [{"name": "mini-imagenet"}, {"name": "tiered-imagenet"}, {"class_names": ("n01930112",) * 5}]
)
def test_data_cut_from_imagenet_are_refused(embedder, test_images, changes):
    with pytest.raises(ConfigError, match="is cut from ImageNet and left was trained on ImageNet"):
        pretrained_features(embedder, replace(test_images, **changes))


def run(*arguments: str):
    return CliRunner().invoke(app, ["compare", *arguments])


def test_the_command_line_compares_on_pretrained_features(prepared, tmp_path):
    pytest.importorskip(LITE0.package)
    wanted = ["--n-way", "3", "--n-query", "4", "--n-episodes", "5", "--methods", "protonet,simpleshot"]
    done = run(
        "--features", "efficientnet-lite0", "--data", prepared, "--side", "32", *wanted, "--out", str(tmp_path / "out")
    )
    assert done.exit_code == 0, done.output
    assert "protonet" in (tmp_path / "out" / "comparison.md").read_text(encoding="utf-8")


def test_a_pretrained_backbone_needs_the_name_of_the_data():
    assert "give --data" in str(run("--features", "efficientnet-lite0").exception)


def test_a_checkpoint_takes_no_side():
    assert "--side 64 is for pretrained backbones" in str(run("--features", "a.safetensors", "--side", "64").exception)
