"""Methods that learn layers of their own: three steps on maps of 2 x 2, and a run of the one loop."""

import pytest
import torch
from torch import nn

from remp.checkpoint import build_method, load_trained
from remp.config import make_config
from remp.episodes import Episodes
from remp.training.state import make_optimiser

NAMES = ["can", "can-t", "dfmn-mct", "maml", "metaoptnet-ridge", "metaoptnet-svm", "tadam"]


def toy_episode() -> Episodes:
    """3-way, 2-shot, 2 queries a class; classes differ in brightness."""
    labels = torch.arange(3).repeat(4)[None]
    images = torch.randn(1, 12, 3, 32, 32) + labels[..., None, None, None]
    return Episodes(images[:, :6], labels[:, :6], images[:, 6:], labels[:, 6:], 3, torch.tensor([[4, 0, 3]]))


@pytest.mark.parametrize("name", NAMES)
def test_three_steps_have_finite_losses_and_reach_every_parameter(name):
    config = make_config({"data": "toy", "method": name, "width": 8})
    method, episode = build_method(config, (32, 32, 3), n_classes=5), toy_episode()
    optimiser = make_optimiser(method, lr=0.01)
    for _ in range(3):
        optimiser.zero_grad()
        terms = torch.stack(list(method.loss(episode).values()))
        assert terms.isfinite().all()
        terms.sum().backward()
        optimiser.step()
    before_norm = {f"{path}.bias" for path, part in method.named_modules() if isinstance(part, nn.Conv2d)}
    before_norm.add("attention.kernel.0.bias")
    for path, parameter in method.named_parameters():
        assert parameter.grad is not None, path
        assert parameter.grad.isfinite().all(), path
        assert path in before_norm or parameter.grad.abs().sum() > 0, path  # batch norm takes such a bias away


@pytest.mark.parametrize("name", NAMES)
def test_the_one_loop_trains_and_validates_it(name, train_tiny):
    folder = train_tiny(method=name, episodes=3, milestones=[2], validate_every=3, learning_rate=0.01)
    trained = load_trained(folder / "best.safetensors")
    assert 0 <= trained.info["best"]["validation_accuracy"] <= 1
    assert trained.method.transductive == (name in ("can-t", "dfmn-mct"))
