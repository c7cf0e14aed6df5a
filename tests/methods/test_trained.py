"""Every trained method goes through the one loop, and all it should learn learns."""

import math
from pathlib import Path

import pytest
import torch
from torch import nn

from remp.checkpoint import load_trained
from remp.config import load_config, make_config
from remp.episodes import Episodes
from remp.trained import build_method
from remp.training.state import make_optimiser

CONFIGS = Path(__file__).parents[2] / "configs"
TRAINED = [
    "can", "can-t", "dfmn-mct", "epnet", "feat", "maml", "meta-baseline", "metaoptnet-ridge", "metaoptnet-svm",
    "relationnet", "tadam", "tpn",
]  # fmt: skip
TRANSDUCTIVE = {"can-t", "dfmn-mct", "epnet", "tpn"}


def toy_episode() -> Episodes:
    """3-way, 2-shot, 2 queries per class of images that differ in brightness; maps of 2 x 2."""
    labels = torch.arange(3).repeat(4)[None]
    images = torch.randn(1, 12, 3, 32, 32) + labels[..., None, None, None]
    return Episodes(images[:, :6], labels[:, :6], images[:, 6:], labels[:, 6:], 3, torch.tensor([[4, 0, 3]]))


def cancelled_by_batch_norm(method: nn.Module) -> set[str]:
    """Biases that the batch norm after them takes away."""
    convolutions = {f"{path}.bias" for path, part in method.named_modules() if isinstance(part, nn.Conv2d)}
    return convolutions | {"attention.kernel.0.bias"}


@pytest.mark.parametrize("name", TRAINED)
def test_three_steps_have_finite_losses_and_reach_every_parameter(name):
    torch.manual_seed(0)
    config = make_config({"data": "toy", "method": name, "width": 8, "learning_rate": 0.01, "momentum": 0})
    method, episode = build_method(config, (32, 32, 3), n_classes=5), toy_episode()
    optimiser = make_optimiser(method, config)
    for progress in (0.0, 0.9, 1.0):  # both stages of those that have two; gradients add up over the steps
        terms = torch.stack(list(method.loss(episode, progress).values()))
        assert terms.isfinite().all()
        terms.sum().backward()
        optimiser.step()
    cancelled = cancelled_by_batch_norm(method)
    for path, parameter in method.named_parameters():
        assert parameter.grad is not None, path
        assert parameter.grad.isfinite().all(), path
        assert path in cancelled or parameter.grad.abs().sum() > 0, path


def gradients_of(name: str, episode: Episodes, progress: float, *, lower_precision: bool = False) -> torch.Tensor:
    """Gradients of the backbone's convolutions, of a method that is made for images of 48 x 48."""
    config = make_config({"data": "toy", "method": name, "width": 8})
    method = build_method(config, (48, 48, 3), n_classes=5)
    with torch.autocast("cpu", torch.bfloat16, enabled=lower_precision):
        terms = torch.stack(list(method.loss(episode, progress).values()))
    assert terms.dtype == torch.float32
    terms.sum().backward()
    layers = [part for part in method.backbone.modules() if isinstance(part, nn.Conv2d)]
    return torch.cat([layer.weight.grad.flatten() for layer in layers])


@pytest.mark.parametrize("progress", [0.0, 0.9])
@pytest.mark.parametrize("name", TRAINED)
def test_the_first_images_may_be_smaller(name, progress):
    torch.manual_seed(0)
    gradients = gradients_of(name, toy_episode(), progress)
    assert gradients.isfinite().all()
    assert gradients.abs().sum() > 0


@pytest.mark.parametrize("progress", [0.0, 0.9])
@pytest.mark.parametrize("name", TRAINED)
def test_a_lower_precision_leaves_the_direction_of_the_step(name, progress):
    torch.manual_seed(0)
    episode = toy_episode()
    low, full = (gradients_of(name, episode, progress, lower_precision=lower) for lower in (True, False))
    assert torch.cosine_similarity(low, full, dim=0) > 0.9


@pytest.mark.parametrize("name", TRAINED)
def test_three_episodes_of_the_loop_leave_a_checkpoint_that_can_be_loaded(name, train_tiny):
    folder = train_tiny(method=name, episodes=3, milestones=[2], validate_every=3, learning_rate=0.01)
    trained = load_trained(folder / "best.safetensors")
    (entry,) = trained.info["history"]
    losses = [value for key, value in entry.items() if key.startswith("loss")]
    assert losses
    assert torch.tensor(losses).isfinite().all()
    assert 0 <= trained.info["best"]["validation_accuracy"] <= 1
    assert trained.method.transductive == (name in TRANSDUCTIVE)


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("cifar-fs/*.yaml")), ids=lambda path: path.stem)
def test_an_untrained_network_does_not_start_far_above_chance(path):
    """Patches of colour that say nothing of the class: a softmax that is sure all the same has gradients that throw the
    first steps out."""
    method = build_method(load_config(path), (32, 32, 3), n_classes=5).train()
    torch.manual_seed(1)
    patches = torch.randn(1, 24, 3, 4, 4).repeat_interleave(8, 3).repeat_interleave(8, 4)
    labels = torch.arange(3).repeat(8)[None]
    episode = Episodes(patches[:, :3], labels[:, :3], patches[:, 3:], labels[:, 3:], 3, torch.tensor([[4, 0, 3]]))
    terms = method.loss(episode, progress=1.0)
    assert terms.get("local", torch.zeros(())) < 2 * math.log(3)
