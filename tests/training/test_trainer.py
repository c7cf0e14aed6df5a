"""Training: one loop whose settings, log and checkpoints can be trusted."""

import json
import sys
from types import ModuleType

import numpy as np
import pytest
import torch
import yaml

from remp.backbones.embedding import Normalisation
from remp.checkpoint import load_trained, read_checkpoint
from remp.config import make_config
from remp.datasets import base
from remp.episodes import EpisodeSampler
from remp.errors import ConfigError, DataError, EpisodeError, TrainingError
from remp.evaluation.evaluate import accuracies
from remp.methods import METHODS, ProtoNet
from remp.trained import build_method
from remp.training import episodes as training_episodes
from remp.training import train
from remp.training.processes import _check_precision_of_cpu
from remp.training.state import learning_rate


def log_of(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_a_run_leaves_settings_log_and_two_checkpoints(train_tiny):
    folder = train_tiny()
    assert {path.name for path in folder.iterdir()} == {
        "config.yaml",
        "log.jsonl",
        "best.safetensors",
        "last.safetensors",
    }
    assert [entry["episodes"] for entry in log_of(folder) if entry["event"] == "validation"] == [4, 8, 12]


def test_the_saved_settings_repeat_the_run_bit_for_bit(
    train_tiny, train_images, validation_images, tmp_path, same_tensors
):
    first = train_tiny("first", average=0.9)
    train(first / "config.yaml", out=tmp_path / "second", train_set=train_images, validation_set=validation_images)
    assert same_tensors(first / "last.safetensors", tmp_path / "second" / "last.safetensors")
    assert same_tensors(first / "best.safetensors", tmp_path / "second" / "best.safetensors")


def test_another_seed_gives_another_network(train_tiny, same_tensors):
    first, second = train_tiny("first"), train_tiny("second", seed=1)
    assert not same_tensors(first / "last.safetensors", second / "last.safetensors")


def test_the_printed_settings_are_the_saved_ones_with_everything_settled(train_tiny, capsys):
    folder = train_tiny(budget="6")
    saved = (folder / "config.yaml").read_text()
    assert saved in capsys.readouterr().out
    settings = yaml.safe_load(saved)
    assert (settings["episodes"], settings["milestones"], settings["episodes_per_step"]) == (6, [3, 4], 1)


def test_training_learns_to_tell_new_classes_apart(train_tiny):
    entries = [e for e in log_of(train_tiny(method="protonet", episodes=24)) if e["event"] == "validation"]
    assert entries[-1]["loss_local"] < entries[0]["loss_local"]
    assert entries[-1]["validation_accuracy"] > 0.6


def test_two_steps_are_those_of_sgd_written_out(train_tiny, tiny, train_images, monkeypatch):
    monkeypatch.setattr(training_episodes, "random_resized_crop", lambda images, **settings: images)
    changes = {"method": "protonet", "episodes": 4, "episodes_per_step": 2, "milestones": [2]}
    folder = train_tiny(**changes)
    expected = sgd_written_out(make_config(tiny(**changes)), train_images)
    tensors, _ = read_checkpoint(folder / "last.safetensors")
    for name, value in expected.items():
        torch.testing.assert_close(tensors[f"weights/{name}"], value, atol=1e-6, rtol=1e-5)


def sgd_written_out(config, images):
    """velocity ← 0.9 velocity + gradient + decay · weight; weight ← weight - rate · velocity."""
    method = build_method(config, images.image_size, images.n_classes).train()
    normalisation = Normalisation(images.mean, images.std)
    sampler = EpisodeSampler(images.labels, config.train_protocol, seed=config.seed)
    velocity = {name: torch.zeros_like(p) for name, p in method.named_parameters()}
    for rate in (0.05, 0.005):
        method.zero_grad()
        for _ in range(2):
            episodes = sampler.sample(1).map(lambda ids: normalisation(torch.from_numpy(images.images[ids.numpy()])))
            (method.loss(episodes)["local"] / 2).backward()
        with torch.no_grad():
            for name, parameter in method.named_parameters():
                velocity[name] = 0.9 * velocity[name] + parameter.grad + 5e-4 * parameter
                parameter -= rate * velocity[name]
    return {name: p.detach() for name, p in method.named_parameters()}


def test_the_rate_is_divided_by_ten_after_each_milestone():
    config = make_config({"data": "toy", "learning_rate": 0.1, "milestones": [25_000, 50_000]})
    rates = [learning_rate(config, done) for done in (0, 24_999, 25_000, 49_999, 50_000, 74_999)]
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])


def test_the_cosine_rate_falls_from_its_start_to_zero():
    config = make_config({"data": "toy", "schedule_of_rate": "cosine", "episodes": 100, "learning_rate": 0.2})
    assert [learning_rate(config, done) for done in (0, 50, 100)] == pytest.approx([0.2, 0.1, 0.0])


def test_the_warm_up_rises_in_a_straight_line_beside_the_fall_of_the_schedule():
    config = make_config({"data": "toy", "learning_rate": 0.1, "milestones": [2], "warmup": 3, "episodes": 10})
    rates = [learning_rate(config, done) for done in range(6)]
    assert rates == pytest.approx([0.025, 0.05, 0.0075, 0.01, 0.01, 0.01])


def test_milestones_can_have_factors_of_their_own():
    settings = {"data": "toy", "learning_rate": 0.1, "milestones": [5, 7], "milestone_factors": [0.06, 0.2]}
    config = make_config({**settings, "episodes": 10})
    assert [learning_rate(config, done) for done in (4, 5, 7)] == pytest.approx([0.1, 0.006, 0.0012])
    short = config.with_episodes(1)  # both fall on the first episode
    assert (short.milestones, short.milestone_factors) == ((1,), pytest.approx((0.012,)))


@pytest.mark.parametrize("optimiser", ["adam", "adamw"])
def test_a_step_of_adam_is_adam_written_out(train_tiny, tiny, train_images, monkeypatch, optimiser):
    monkeypatch.setattr(training_episodes, "random_resized_crop", lambda images, **settings: images)
    changes = {"method": "protonet", "episodes": 1, "milestones": [], "optimiser": optimiser, "weight_decay": 0.1}
    folder = train_tiny(**changes)
    config = make_config(tiny(**changes))
    method = build_method(config, train_images.image_size, train_images.n_classes).train()
    ids = EpisodeSampler(train_images.labels, config.train_protocol, seed=config.seed).sample(1)
    normalisation = Normalisation(train_images.mean, train_images.std)
    episodes = ids.map(lambda ids: normalisation(torch.from_numpy(train_images.images[ids.numpy()])))
    method.loss(episodes)["local"].backward()
    tensors, _ = read_checkpoint(folder / "last.safetensors")
    for name, parameter in method.named_parameters():
        gradient, weight = parameter.grad, parameter.detach()
        if optimiser == "adam":
            gradient = gradient + 0.1 * weight
        else:
            weight = weight * (1 - 0.05 * 0.1)
        expected = weight - 0.05 * gradient / (gradient.abs() + 1e-8)  # in the first step m / √v is the sign
        clear = gradient.abs() > 1e-5  # near 0 the sign is a matter of rounding
        torch.testing.assert_close(tensors[f"weights/{name}"][clear], expected[clear], atol=1e-5, rtol=1e-4)


def test_clipping_bounds_the_step(train_tiny, tiny, train_images):
    """With plain SGD without decay the weights move by rate · clip at most."""
    still = {"method": "protonet", "episodes": 1, "milestones": [], "momentum": 0.0, "weight_decay": 0.0}
    tensors, _ = read_checkpoint(train_tiny(clip=1e-3, **still) / "last.safetensors")
    start = build_method(make_config(tiny(**still)), train_images.image_size, 6)
    moves = [(tensors[f"weights/{name}"] - p.detach()).norm() for name, p in start.named_parameters()]
    assert float(torch.stack(moves).norm()) == pytest.approx(0.05 * 1e-3, rel=1e-2)


def test_the_first_episodes_can_have_another_shape(tiny, train_images):
    config = make_config(tiny(first_share=0.25, first_way=6, first_shot=2, first_query=1))
    normalisation = Normalisation(train_images.mean, train_images.std)
    episodes = training_episodes.TrainingEpisodes(config, train_images, normalisation, torch.device("cpu"))
    shapes = [tuple(episodes[number].support.shape[:2]) for number in range(5)]
    assert shapes == [(1, 12)] * 3 + [(1, 3)] * 2


def test_the_first_episodes_can_have_smaller_images(tiny, train_images):
    """The global vectors, one for each number of a flattened map, fit both sizes."""
    config = make_config(tiny(first_share=0.25, first_side=20))
    normalisation = Normalisation(train_images.mean, train_images.std)
    episodes = training_episodes.TrainingEpisodes(config, train_images, normalisation, torch.device("cpu"))
    whole = train_images.image_size[0]
    assert [episodes[number].query.shape[-1] for number in range(5)] == [20] * 3 + [whole] * 2
    method = build_method(config, train_images.image_size, 6)
    features = [method.embed(episodes[number].query[0]).shape[1] for number in (0, 4)]
    assert features[0] == features[1]
    assert set(method.loss(episodes[0])) == {"global", "local"}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_takes_a_step_or_says_that_it_cannot_be_trained(name, train_tiny, tmp_path):
    if METHODS[name].trainable:
        train_tiny(method=name, episodes=1, milestones=[], learning_rate=1e-3, validation_episodes=2)
    else:
        with pytest.raises(ConfigError, match=f"'{name}' classifies ready-made features.*train another one"):
            train_tiny(method=name)
        assert not (tmp_path / "run").exists()


def test_settings_of_first_episodes_of_which_there_are_none_are_refused(train_tiny):
    with pytest.raises(ConfigError, match=r"got first_way: 4, first_side: 20, but first_share is 0"):
        train_tiny(first_way=4, first_side=20)


def test_first_images_that_are_too_small_for_the_backbone_are_refused(train_tiny, tmp_path):
    with pytest.raises(ConfigError, match="first_side is 8; needed more, up to the 16 pixels"):
        train_tiny(first_share=0.5, first_side=8)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("precision", "expected"), [("32-true", torch.float32), ("bf16-mixed", torch.bfloat16)])
def test_convolutions_are_taken_in_the_precision_of_the_run(precision, expected, train_tiny, monkeypatch):
    seen, features = set(), set()

    class Watched(ProtoNet):
        def embed(self, images):
            hook = self.backbone.blocks[0].register_forward_hook(lambda layer, inputs, output: seen.add(output.dtype))
            made = super().embed(images)
            hook.remove()
            features.add(made.dtype)
            return made

    monkeypatch.setitem(METHODS, "watched", Watched)
    monkeypatch.setattr("remp.training.processes._TRY_BFLOAT16", "print(0.6)")  # small ones work everywhere
    train_tiny(method="watched", precision=precision, validate_every=12)
    assert expected in seen  # validation is in float32
    assert features == {torch.float32}


def test_the_last_weights_can_be_kept_instead_of_the_best(train_tiny):
    trained = load_trained(train_tiny(keep="last", average=0.9) / "best.safetensors")
    assert trained.info["best"]["episodes"] == 12


def test_a_parameter_can_have_a_rate_of_its_own(train_tiny, tiny, train_images, monkeypatch):
    class Frozen(ProtoNet):
        def learning_rate_factor(self, parameter_name, progress):
            return 0.0 if parameter_name.startswith("backbone.blocks.0.") else 1.0

    monkeypatch.setitem(METHODS, "frozen", Frozen)
    tensors, _ = read_checkpoint(train_tiny(method="frozen") / "last.safetensors")
    start = build_method(make_config(tiny(method="frozen")), train_images.image_size, 6).state_dict()
    assert torch.equal(tensors["weights/backbone.blocks.0.weight"], start["backbone.blocks.0.weight"])
    assert not torch.equal(tensors["weights/backbone.blocks.4.weight"], start["backbone.blocks.4.weight"])


def test_a_rate_can_follow_the_progress_of_the_training(train_tiny, monkeypatch):
    class Halted(ProtoNet):
        def learning_rate_factor(self, parameter_name, progress):
            return 1.0 if progress < 0.5 else 0.0

    monkeypatch.setitem(METHODS, "halted", Halted)
    settings = {"method": "halted", "milestones": [], "nesterov": False, "momentum": 0.0}
    whole, _ = read_checkpoint(train_tiny("whole", episodes=12, **settings) / "last.safetensors")
    half, _ = read_checkpoint(train_tiny("half", episodes=6, **{**settings, "method": "protonet"}) / "last.safetensors")
    name = "weights/backbone.blocks.0.weight"
    assert torch.equal(whole[name], half[name])


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_the_kept_weights_are_those_that_validated_best(train_tiny, validation_images, tiny, average):
    folder = train_tiny(average=average)
    trained = load_trained(folder / "best.safetensors")
    entries = [entry for entry in log_of(folder) if entry["event"] == "validation"]
    best = max(entries, key=lambda entry: entry["validation_accuracy"])
    sampler = EpisodeSampler(validation_images.labels, trained.config.validation_protocol, seed=1)
    again = accuracies(trained.method, validation_images, trained.normalisation, sampler.sample(6))
    assert trained.info["best"]["episodes"] == best["episodes"]
    assert again.mean() == pytest.approx(best["validation_accuracy"], abs=1e-5)


def test_training_never_opens_the_test_split(prepared, tiny, tmp_path, monkeypatch, own_home):
    (own_home / "data" / "toy" / "test.npy").unlink()
    opened = []
    genuine = np.load
    monkeypatch.setattr(base.np, "load", lambda path, *a, **k: opened.append(path.stem) or genuine(path, *a, **k))
    train(tiny(), out=tmp_path / "run")
    assert opened == ["train", "val"]


def test_a_used_folder_is_never_overwritten(train_tiny):
    folder = train_tiny()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(TrainingError, match=r"exists and is not empty; continue it with --resume"):
        train_tiny(seed=3)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_file_in_place_of_the_folder_is_never_overwritten(train_tiny, tmp_path):
    (tmp_path / "run").write_text("mine")
    with pytest.raises(TrainingError, match="exists"):
        train_tiny()
    assert (tmp_path / "run").read_text() == "mine"


def test_what_a_killed_write_left_does_not_stop_a_new_run(train_tiny, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".config.yaml.partial").write_text("episo")
    assert (train_tiny() / "best.safetensors").is_file()


class Diverging(ProtoNet):
    """Its loss is not a number from the fifth episode on."""

    calls = 0

    def loss(self, episodes, progress=0.0):
        type(self).calls += 1
        terms = super().loss(episodes, progress)
        return {"local": terms["local"] * float("nan")} if self.calls > 4 else terms


def test_a_loss_that_is_not_finite_stops_the_run_and_says_what_to_do(train_tiny, monkeypatch, tmp_path):
    monkeypatch.setitem(METHODS, "diverging", Diverging)
    monkeypatch.setattr(Diverging, "calls", 0)
    with pytest.raises(TrainingError, match=r"local nan.*not finite at episode 4.*--learning-rate 0.005") as error:
        train_tiny(method="diverging")
    last = tmp_path / "run" / "last.safetensors"
    assert str(last) in str(error.value)
    tensors, info = read_checkpoint(last)
    assert info["done"] == 3
    assert all(tensor.isfinite().all() for tensor in tensors.values())


class Ruined(ProtoNet):
    """Its loss is finite, its gradient is not: the root of zero has none."""

    def loss(self, episodes, progress=0.0):
        root = (0 * self.backbone.blocks[0].weight.sum()).sqrt()
        return {"local": super().loss(episodes, progress)["local"] + root}


def test_weights_that_are_not_finite_are_never_saved(train_tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, "ruined", Ruined)
    with pytest.raises(
        TrainingError, match=r"not finite at episode 1\. Last good checkpoint: none yet, so start again"
    ):
        train_tiny(method="ruined", checkpoint_every=1, validate_every=1)
    assert not list((tmp_path / "run").glob("*.safetensors"))


def test_too_few_validation_classes_are_told_before_anything_is_written(train_tiny, tmp_path):
    with pytest.raises(EpisodeError, match=r"validation classes: the set has 4 classes.*lower validation_way to 4"):
        train_tiny(validation_way=5)
    assert not (tmp_path / "run").exists()


def test_a_line_cut_short_does_not_spoil_the_rest_of_the_log(train_tiny, resume_tiny):
    folder = train_tiny()
    with (folder / "log.jsonl").open("a") as file:
        file.write('{"event": "valid')
    resume_tiny(folder)
    assert json.loads((folder / "log.jsonl").read_text().splitlines()[-1])["event"] == "resumed"


def test_tensorboard_gets_the_numbers_where_it_is_installed(train_tiny, monkeypatch):
    written = []

    class SummaryWriter:
        def __init__(self, folder):
            self.folder = folder

        def add_scalar(self, name, value, step):
            written.append((name, step))

        def flush(self):
            pass

    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = SummaryWriter
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    train_tiny()
    assert {("validation_accuracy", 4), ("loss_global", 12), ("learning_rate", 8)} <= set(written)


def test_fp16_on_a_cpu_is_refused_instead_of_silently_becoming_something_else(train_tiny):
    if torch.cuda.is_available():
        pytest.skip("has a GPU")
    with pytest.raises(ValueError, match="needs a GPU"):
        train_tiny(precision="16-mixed")


def test_a_schedule_of_two_phases_changes_its_terms_half_way(train_tiny):
    entries = log_of(train_tiny(schedule="global-then-local", validate_every=6))
    terms = [{key for key in entry if key.startswith("loss_")} for entry in entries if entry["event"] == "validation"]
    assert terms == [{"loss_global"}, {"loss_local"}]


def test_bfloat16_is_tried_in_a_process_that_may_die(train_tiny, monkeypatch):
    monkeypatch.setattr("remp.training.processes._TRY_BFLOAT16", "import os; os.abort()")
    with pytest.raises(ConfigError, match="bf16-mixed', which this CPU does not support"):
        train_tiny(precision="bf16-mixed")


@pytest.mark.parametrize(("times", "told"), [("0.6", False), ("2.9", True)])
def test_a_slow_bfloat16_is_told(times, told, monkeypatch, capsys):
    monkeypatch.setattr("remp.training.processes._TRY_BFLOAT16", f"print({times})")
    _check_precision_of_cpu("bf16-mixed")
    assert ("2.9 times as long in bfloat16" in capsys.readouterr().out) == told


def test_images_that_are_trained_on_are_not_validated_on(tiny, train_images, tmp_path):
    with pytest.raises(DataError, match="toy/train is given for training and for validation"):
        train(tiny(), out=tmp_path / "run", train_set=train_images, validation_set=train_images)
    assert not (tmp_path / "run").exists()
