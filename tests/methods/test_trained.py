"""Every trained method goes through the one loop, and all it should learn learns."""

import pytest
import torch
from torch import nn

from remp.augment import Normalisation
from remp.checkpoint import build_method, load_trained
from remp.config import make_config
from remp.training.episodes import TrainingEpisodes

TRAINED = ["epnet", "feat", "meta-baseline", "relationnet", "tpn"]


@pytest.mark.parametrize("name", TRAINED)
def test_three_steps_leave_a_checkpoint_that_can_be_loaded(name, train_tiny):
    folder = train_tiny(method=name, episodes=3, milestones=[2], validate_every=3, learning_rate=0.01)
    trained = load_trained(folder / "best.safetensors")
    (entry,) = trained.info["history"]
    losses = [value for key, value in entry.items() if key.startswith("loss")]
    assert losses
    assert torch.tensor(losses).isfinite().all()
    assert trained.method.transductive == (name in ("epnet", "tpn"))


@pytest.mark.parametrize("name", TRAINED)
def test_every_parameter_learns_in_one_of_the_stages(name, tiny, train_images):
    config = make_config(tiny(method=name))
    method = build_method(config, train_images.image_size, train_images.n_classes)
    normalisation = Normalisation(train_images.mean, train_images.std)
    episodes = TrainingEpisodes(config, train_images, normalisation, torch.device("cpu"))[0]
    for progress in (0.0, 1.0):
        torch.stack(list(method.loss(episodes, progress).values())).sum().backward()
    cancelled = {
        f"{path}.bias" for path, part in method.named_modules() if isinstance(part, nn.Conv2d)
    }  # by batch norm
    for path, parameter in method.named_parameters():
        assert parameter.grad is not None, path
        assert parameter.grad.isfinite().all(), path
        assert path in cancelled or parameter.grad.abs().sum() > 0, path
