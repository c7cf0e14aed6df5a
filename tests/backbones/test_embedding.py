"""Embedders: one value for pretrained backbones, checkpoints of ours and models of timm."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from remp.backbones.efficientnet_lite import LITE0, BuiltWhenUsed
from remp.backbones.embedding import embed_images
from remp.errors import CheckpointError, ConfigError, DataError
from remp.evaluation.evaluate import embed
from remp.models import find_embedder, load


def images(n: int, height: int, width: int, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (n, height, width, channels), dtype=np.uint8)


def test_a_checkpoint_gives_the_features_that_evaluation_makes(train_tiny, test_images):
    checkpoint = train_tiny() / "best.safetensors"
    embedder, trained = find_embedder(str(checkpoint)), load(checkpoint)
    assert (embedder.side, embedder.trained_on) == (16, "toy")
    made = embedder.embed(test_images.images)
    assert made.shape == (len(test_images.images), embedder.dim)
    expected = embed(trained.method, test_images.images, trained.normalisation).flatten(1)
    np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-5)


def test_the_folder_of_a_run_and_its_checkpoint_are_the_same_embedder(train_tiny):
    folder = train_tiny()
    assert find_embedder(str(folder)).hash == find_embedder(str(folder / "best.safetensors")).hash


def test_images_of_another_size_are_scaled_as_pillow_does(train_tiny):
    embedder = find_embedder(train_tiny())
    large = images(2, 40, 40)
    scaled = np.stack([Image.fromarray(image).resize((16, 16), Image.Resampling.BICUBIC) for image in large])
    np.testing.assert_allclose(embedder.embed(large), embedder.embed(scaled), rtol=1e-5, atol=1e-6)


def test_a_grey_image_is_a_colour_image_without_colours(train_tiny):
    embedder = find_embedder(str(train_tiny()))
    grey = images(2, 20, 20, 1)
    np.testing.assert_array_equal(embedder.embed(grey), embedder.embed(np.repeat(grey, 3, axis=3)))


def test_a_checkpoint_takes_no_other_side(train_tiny):
    with pytest.raises(ConfigError, match="trained on images of 16 x 16"):
        find_embedder(str(train_tiny()), side=32)


@pytest.mark.parametrize("side", [0, 31, 5000])
def test_an_absurd_side_is_an_error(side):
    with pytest.raises(ConfigError, match=f"a side of {side} pixels; needed a whole number: 32 … 1024"):
        find_embedder(side=side)


def test_a_name_that_nobody_knows_is_an_error_that_lists_what_there_is():
    with pytest.raises(ConfigError, match=r"no backbone 'resnet'.*efficientnet-lite0, efficientnet-lite2, .*timm:NAME"):
        find_embedder("resnet")


@pytest.fixture
def has_weights() -> None:
    pytest.importorskip(LITE0.package)


def test_it_is_the_default_and_has_1280_numbers(has_weights):
    embedder = find_embedder(side=64)
    assert (embedder.name, embedder.dim, embedder.trained_on) == ("efficientnet-lite0", 1280, "ImageNet")
    assert embedder.embed(images(3, 40, 60)).shape == (3, 1280)
    assert embedder.embed(images(0, 64, 64)).shape == (0, 1280)


def test_the_batch_does_not_matter(has_weights):
    embedder = find_embedder(side=32)
    some = images(5, 32, 32)
    one_by_one = np.concatenate([embedder.embed(some[i : i + 1]) for i in range(5)])
    np.testing.assert_allclose(embedder.embed(some), one_by_one, rtol=1e-3, atol=1e-5)


def test_the_hash_is_the_same_every_time_and_another_for_another_side(has_weights):
    assert find_embedder(side=64).hash == find_embedder(side=64).hash != find_embedder(side=96).hash


class PooledColours(nn.Module):
    """Stands in for a model of timm: the mean colour."""

    def __init__(self, **settings):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
        self.pretrained_cfg = {
            "input_size": (3, 40, 40),
            "mean": (0.5,) * 3,
            "std": (0.25,) * 3,
            "tag": "in1k",
            **settings,
        }

    def forward(self, pixels):
        return pixels.mean((2, 3)) * self.scale


@pytest.fixture
def timm(monkeypatch):
    """A stand-in for the library, with two models; `made` holds the calls."""
    module = ModuleType("timm")
    models = {"colours": {}, "fixed": {"fixed_input_size": True}, "vit_small_patch14_dinov2.lvd142m": {}}
    folder = {"local-dir:here/it/is": {}}  # which timm takes without knowing it by name
    module.made = []

    def create_model(name, **settings):
        module.made.append((name, settings))
        return PooledColours(**{**models, **folder}[name])

    module.create_model, module.is_model = create_model, models.__contains__
    module.list_models = lambda pattern, pretrained: list(models)
    monkeypatch.setitem(sys.modules, "timm", module)
    return module


@pytest.mark.parametrize(
    ("name", "made"),
    [("dinov2-small", "vit_small_patch14_dinov2.lvd142m"), ("timm:local-dir:here/it/is", "local-dir:here/it/is")],
)
def test_short_names_and_folders_lead_to_models_of_timm(timm, name, made):
    assert find_embedder(name).name == f"timm:{made}"
    assert timm.made[0][0] == made


def test_a_model_of_timm_is_made_without_classifier_and_fed_as_it_says(timm):
    embedder = find_embedder("timm:colours")
    assert timm.made == [("colours", {"pretrained": True, "num_classes": 0})]
    assert (embedder.name, embedder.side, embedder.dim) == ("timm:colours", 40, 3)
    some = images(2, 40, 40)
    np.testing.assert_allclose(embedder.embed(some), (some.mean((1, 2)) / 255 - 0.5) / 0.25, rtol=1e-4, atol=1e-5)


def test_other_weights_of_the_same_model_have_another_hash(timm):
    before = find_embedder("timm:colours").hash
    timm.create_model = lambda name, **_: PooledColours().requires_grad_(False).apply(lambda m: m.scale.mul_(2))
    assert find_embedder("timm:colours").hash != before


def test_a_model_of_timm_takes_another_side_unless_it_is_fixed(timm):
    assert find_embedder("timm:colours", side=64).side == 64
    with pytest.raises(ConfigError, match="images of 40 pixels only, got 64: leave the side out"):
        find_embedder("timm:fixed", side=64)


def test_a_model_that_timm_does_not_have_is_an_error(timm):
    with pytest.raises(ConfigError, match=r"timm has no model 'vgg'; it has e\.g\. colours, fixed"):
        find_embedder("timm:vgg")


def test_weights_that_timm_cannot_load_are_an_error(timm):
    timm.create_model = lambda *_, **__: SimpleNamespace().eval
    with pytest.raises(CheckpointError, match="timm could not load the weights of 'colours'"):
        find_embedder("timm:colours")


def test_without_timm_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ConfigError, match=r"timm:resnet18 needs timm.*pip install timm"):
        find_embedder("timm:resnet18")


def test_an_embedder_is_made_for_one_side(train_tiny):
    embedder = find_embedder(str(train_tiny()))
    assert find_embedder(embedder, side=embedder.side) is embedder
    with pytest.raises(ConfigError, match="leave the side out"):
        find_embedder(embedder, side=embedder.side + 1)


def test_threads_that_come_at_once_build_one_network():
    built = []

    def build():
        time.sleep(0.05)
        built.append(1)
        return torch.nn.Identity()

    network, images = BuiltWhenUsed(build), torch.ones(1)
    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(lambda _: bool(network(images)), range(8)))
    assert built == [1]


def test_no_images_to_embed_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(DataError, match="no images to embed: give at least one"):
        embed_images(nn.Identity(), torch.from_numpy, np.empty((0, 8, 8, 3), np.uint8), batch=4)
