"""Classes that users write: trained, loaded, compared and audited like those of the table."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import nn

import remp
from remp.config import settings_model
from remp.errors import ConfigError, DataError, EpisodeError
from remp.evaluation.evaluate import score_episodes
from remp.methods import ReMP
from remp.methods.protonet import ProtoNet

TASK = remp.Protocol(n_way=3, n_shot=1, n_query=2)


def train_own(method, tiny, train_images, validation_images, out, **changes):
    return remp.train(
        tiny(method=None, **changes),
        method=method,
        out=out,
        train_set=train_images,
        validation_set=validation_images,
        print_settings=False,
    )


class Projected(ProtoNet):
    """Random numbers that are not weights, in three ways that people write them."""

    def __init__(self, *args, n_classes=0, feature_shape=()):
        super().__init__(*args, n_classes=n_classes, feature_shape=feature_shape)
        self.register_buffer("one", torch.empty(4, 4).normal_(), persistent=False)
        self.two = torch.randn(4)
        self.three = torch.empty(4).uniform_()


def test_a_loaded_method_has_the_numbers_that_were_drawn_for_training(tiny, train_images, validation_images, tmp_path):
    drawn = []

    class Noted(Projected):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            drawn.append([self.one, self.two, self.three])

    path = train_own(Noted, tiny, train_images, validation_images, tmp_path / "run")
    loaded = remp.load(path, method=Noted).method
    for before, after in zip(drawn[0], [loaded.one, loaded.two, loaded.three], strict=True):
        assert before.abs().sum() > 0
        assert torch.equal(before, after)


def test_a_class_is_known_by_its_name_whatever_module_it_is_in(tiny, train_images, validation_images, tmp_path):
    def made(module):
        mine = type("Mine", (ProtoNet,), {"__module__": module})
        mine.__qualname__ = "Mine"
        return mine

    path = train_own(made("__main__"), tiny, train_images, validation_images, tmp_path / "run")
    assert type(remp.load(path, method=made("train_mine")).method).__module__ == "train_mine"
    sets = {"train_set": train_images, "validation_set": validation_images}
    assert remp.resume(path.parent, method=made("elsewhere"), **sets) == path


@pytest.mark.parametrize(("name", "whose"), [("momentum", "the run"), ("width", "the backbone")])
def test_a_setting_that_has_the_name_of_another_one_is_refused(tiny, name, whose):
    namespace = {}
    exec(
        f"def __init__(self, *args, {name}: float = 0.5, **kwargs):\n    ProtoNet.__init__(self, *args, **kwargs)",
        {"ProtoNet": ProtoNet},
        namespace,
    )
    mine = type("Clashing", (ProtoNet,), namespace)
    with pytest.raises(ConfigError, match=f"Clashing has a setting '{name}', and so has {whose}: give .* another name"):
        remp.train(tiny(method=None), method=mine)


def test_what_a_class_passes_on_are_settings_too():
    class Mine(ReMP):
        def __init__(self, *args, beta=1.0, **others):
            super().__init__(*args, **others)

    class Plain(ProtoNet):
        def __init__(self, backbone=None, n_classes=0, feature_shape=(), beta=2.0):
            super().__init__(backbone, n_classes=n_classes, feature_shape=feature_shape)

    own, above = settings_model(Mine).model_fields, settings_model(ReMP).model_fields
    assert own.keys() == {"beta", *above}
    assert own["layers"].default == above["layers"].default
    assert settings_model(Plain).model_fields.keys() == {"beta"}


def test_a_setting_called_layers_need_not_be_rectification(tiny, train_images, validation_images, tmp_path, capsys):
    class Deep(ProtoNet):
        def __init__(self, *args, layers: int = 2, **others):
            super().__init__(*args, **others)
            self.head = nn.Sequential(*(nn.Linear(3, 3) for _ in range(layers)))

    train_own(Deep, tiny, train_images, validation_images, tmp_path / "run")
    assert "Rectification" not in capsys.readouterr().out


def test_tied_weights_are_kept(tiny, train_images, validation_images, tmp_path):
    class Tied(ProtoNet):
        def __init__(self, *args, **others):
            super().__init__(*args, **others)
            self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
            self.second.weight = self.first.weight
            self.register_buffer("counts", torch.arange(3, dtype=torch.int16))

    method = remp.load(train_own(Tied, tiny, train_images, validation_images, tmp_path / "run"), method=Tied).method
    assert torch.equal(method.first.weight, method.second.weight)
    assert method.counts.tolist() == [0, 1, 2]


@pytest.mark.parametrize("shape", ["no batch", "transposed", "one more class"])
def test_logits_of_another_shape_are_refused(shape, test_images):
    class Wrong(ProtoNet):
        def logits(self, episodes):
            logits = super().logits(episodes)
            more = torch.cat([logits, logits[..., :1]], -1)
            return {"no batch": logits[0], "transposed": logits.mT, "one more class": more}[shape]

    episodes = remp.EpisodeSampler(test_images.labels, TASK, seed=0).sample(4)
    features = torch.randn(len(test_images.labels), 5)
    with pytest.raises(EpisodeError, match=r"returned logits of shape .* needed \(\d, 6, 3\)"):
        score_episodes(Wrong(), episodes, features)


def test_a_class_of_ones_own_is_compared():
    class Nearest(ProtoNet):
        frozen = True

    class Trained(ProtoNet):
        frozen = False

    random = np.random.default_rng(0)
    y = np.repeat(np.arange(5), 20)
    X = random.normal(size=(100, 8)) + 3 * np.eye(5, 8)[y]
    found = remp.compare(X, y, methods=[Nearest], n_shot=1, n_episodes=10)
    own = f"own:{Nearest.__qualname__}"
    np.testing.assert_array_equal(found[own, 1].accuracies, found["protonet", 1].accuracies)
    with pytest.raises(ConfigError, match="has to be trained, since its class does not say `frozen = True`"):
        remp.compare(X, y, methods=[Trained], n_shot=1, n_episodes=10)


@pytest.mark.parametrize("given", [ProtoNet, "protonet"])
def test_an_audit_needs_an_instance(given):
    with pytest.raises(ConfigError, match="needed an instance"):
        remp.audit(given)


def test_sets_that_do_not_fit_together_are_refused(tiny, train_images, validation_images, tmp_path):
    from dataclasses import replace

    small = replace(validation_images, images=validation_images.images[:, ::2, ::2])
    with pytest.raises(DataError, match="for training are of 16x16x3, those for validation of 8x8x3"):
        train_own(ProtoNet, tiny, train_images, small, tmp_path / "run")
    as_floats = replace(train_images, images=train_images.images / 255)
    with pytest.raises(DataError, match="are float64; needed uint8"):
        train_own(ProtoNet, tiny, as_floats, validation_images, tmp_path / "run")


def test_a_checkpoint_of_another_method_is_not_loaded_as_ones_own():
    with pytest.raises(ConfigError, match="was trained with the method 'remp', not 'own:Projected'"):
        remp.load("cifar-fs-convnet64-1shot", method=Projected)


def test_a_run_that_fails_in_its_first_step_leaves_its_name_free(tiny, train_images, validation_images, tmp_path):
    class Failing(Projected):
        def loss(self, episodes, progress=0.0):
            raise ValueError("a mistake")

    for method in (Failing, Projected):
        with pytest.raises(ValueError, match="a mistake") if method is Failing else nullcontext():
            train_own(method, tiny, train_images, validation_images, tmp_path / "run")
    assert (tmp_path / "run" / "best.safetensors").is_file()


def test_logits_of_a_wrong_shape_are_told_in_training(tiny, train_images, validation_images, tmp_path):
    class Turned(ProtoNet):
        def logits(self, episodes):
            return super().logits(episodes).transpose(-1, -2)

    with pytest.raises(EpisodeError, match="got logits of shape"):
        train_own(Turned, tiny, train_images, validation_images, tmp_path / "run")
