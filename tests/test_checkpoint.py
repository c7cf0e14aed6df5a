"""Checkpoints: numbers and JSON only, whole or not at all, and every kind of damage is told."""

import hashlib
import json
import os
import pickle
import stat

import pytest
import torch
from safetensors.torch import save

from bounds import bounded
from remp.checkpoint import load_trained, read_checkpoint, take_weights, write_checkpoint
from remp.config import make_config
from remp.errors import CheckpointError, ConfigError
from remp.methods import METHODS
from remp.trained import build_method

SIZE = (16, 16, 3)


@pytest.fixture
def config(tiny):
    return make_config(tiny())


@pytest.fixture
def info(config):
    """What training writes beside the weights."""
    return {
        "config": config.flat(),
        "n_classes": 6,
        "image_size": list(SIZE),
        "mean": [0.5, 0.5, 0.5],
        "std": [0.2, 0.2, 0.2],
    }


@pytest.fixture
def weights(config):
    method = build_method(config, SIZE, 6)
    return {f"weights/{name}": tensor for name, tensor in method.state_dict().items()}


@pytest.fixture
def path(tmp_path, weights, info):
    write_checkpoint(tmp_path / "model.safetensors", weights, info)
    return tmp_path / "model.safetensors"


def with_header(path, header):
    path.write_bytes(save({"weights/a": torch.zeros(1)}, {"remp": header}))
    return path


def test_what_is_read_is_what_was_written(path, weights, info):
    tensors, read = read_checkpoint(path)
    assert info.items() <= read.items()
    assert all(torch.equal(tensors[name], weights[name]) for name in weights)


def test_a_loaded_method_answers_as_the_saved_one(path, config):
    images = torch.randn(4, 3, 16, 16)
    trained = load_trained(path)
    expected = build_method(config, SIZE, 6).eval().embed(images)
    torch.testing.assert_close(trained.method.embed(images), expected)
    assert not trained.method.training


def test_weights_of_many_megabytes_are_read_as_small_ones_are(tmp_path, info):
    """More than may be made for nothing: what is allowed grows with the weights of the file."""
    config = make_config({**info["config"], "width": 570})
    method = build_method(config, SIZE, 6)
    weights = {f"weights/{name}": tensor for name, tensor in method.state_dict().items()}
    assert sum(tensor.nbytes for tensor in weights.values()) > 2**25
    write_checkpoint(tmp_path / "large.safetensors", weights, {**info, "config": config.flat()})
    loaded = load_trained(tmp_path / "large.safetensors").method.state_dict()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in method.state_dict().items())


def test_the_hash_is_that_of_the_file(tmp_path, path, weights, info):
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert load_trained(path).hash == digest
    assert write_checkpoint(tmp_path / "copy.safetensors", weights, info) == digest


class Bomb:
    def __reduce__(self):
        return (os.mkdir, ("exploded",))


DAMAGE = {
    "a pickle": lambda whole: pickle.dumps(Bomb()),
    "random bytes": lambda whole: bytes(range(256)) * 40,
    "nothing": lambda whole: b"",
    "cut short": lambda whole: whole[: len(whole) // 2],
    "cut short in the header": lambda whole: whole[:100],
    "a header longer than the file": lambda whole: (2**62).to_bytes(8, "little") + whole[8:],
    "a foreign safetensors file": lambda whole: save({"a": torch.zeros(2)}),
    "a header that is no JSON": lambda whole: save({"a": torch.zeros(2)}, {"remp": "{"}),
    "a header that is a list": lambda whole: save({"a": torch.zeros(2)}, {"remp": "[1]"}),
    "a header nested too deep": lambda whole: save({"a": torch.zeros(2)}, {"remp": "[" * 100_000}),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damage_is_told_and_nothing_runs(path, tmp_path, monkeypatch, damage):
    monkeypatch.chdir(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(
        CheckpointError, match=r"model\.safetensors is not a checkpoint of remp (or is damaged|.it has no settings)"
    ):
        load_trained(path)
    assert not (tmp_path / "exploded").exists()


def test_a_torch_checkpoint_is_not_unpickled(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"model": Bomb()}, path)
    with pytest.raises(CheckpointError):
        read_checkpoint(path)
    assert not (tmp_path / "exploded").exists()


def test_a_missing_checkpoint_is_named(tmp_path):
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        read_checkpoint(tmp_path / "none.safetensors")


def test_a_file_of_episodes_is_no_checkpoint(path):
    with pytest.raises(CheckpointError, match=r"is not a checkpoint of remp .*: needed a .safetensors file"):
        read_checkpoint(with_header(path, json.dumps({"format": "remp-episodes-1", "seed": 0})))


def test_another_format_is_named(path):
    with pytest.raises(CheckpointError, match="has format 99; this version of remp reads 1"):
        read_checkpoint(with_header(path, json.dumps({"format": 99})))


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_classes": 7},
        {"n_classes": "six"},
        {"image_size": [32, 32, 3]},
        {"image_size": [16, 16]},
        {"image_size": None},
        {"mean": [0.5]},
        {"std": "abc"},
        {"std": 3},
        {"config": None},
        {"config": "text"},
    ],
    ids=str,
)
def test_weights_that_do_not_fit_their_description_are_refused(path, weights, info, wrong):
    write_checkpoint(path, weights, {**info, **wrong})
    with pytest.raises(CheckpointError, match="does not fit"):
        load_trained(path)


def test_a_missing_weight_is_named(path, weights, info):
    del weights["weights/backbone.blocks.0.weight"]
    write_checkpoint(path, weights, info)
    with pytest.raises(CheckpointError, match=r"backbone\.blocks\.0\.weight"):
        load_trained(path)


def test_settings_of_the_method_can_be_changed_when_it_is_loaded(path):
    trained = load_trained(path, {"layers": 0})
    assert trained.config.method_settings["layers"] == 0


def test_settings_of_the_training_cannot_be_changed_afterwards(path):
    with pytest.raises(ConfigError, match="'n_shot' is fixed by training; of 'remp' you can change: alpha"):
        load_trained(path, {"n_shot": 5})


def test_an_unknown_setting_is_refused_with_the_nearest_name(path):
    with pytest.raises(ConfigError, match="did you mean 'layers'"):
        load_trained(path, {"layer": 5})


@pytest.mark.skipif(os.name == "nt", reason="modes are of POSIX")
def test_others_may_read_what_the_umask_lets_them(tmp_path, weights, info):
    before = os.umask(0o027)
    try:
        write_checkpoint(tmp_path / "c.safetensors", weights, info)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "c.safetensors").stat().st_mode) == 0o640


def test_an_overwritten_checkpoint_leaves_nothing_else(path, weights, info):
    write_checkpoint(path, weights, info)
    assert [entry.name for entry in path.parent.glob("*model*")] == ["model.safetensors"]


def test_building_draws_weights_from_the_seed_alone(config):
    torch.manual_seed(5)
    first = build_method(config, SIZE, 6).state_dict()
    torch.manual_seed(6)
    second = build_method(config, SIZE, 6).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(path, weights, info, value):
    name = next(iter(weights))
    weights[name] = weights[name].clone()
    weights[name].view(-1)[3] = value
    write_checkpoint(path, weights, info)
    with pytest.raises(CheckpointError, match=rf"model\.safetensors: {name[8:]} holds numbers that are not finite"):
        load_trained(path)


def test_large_weights_whose_sum_is_not_finite_are_finite_themselves(path, weights, info):
    name = "weights/global_prototypes"
    weights[name] = torch.full_like(weights[name], 3e38)
    write_checkpoint(path, weights, info)
    assert torch.equal(load_trained(path).method.state_dict()[name[8:]], weights[name])


OTHER_KINDS = ("float8_e4m3fn", "float8_e5m2", "complex64", "uint16")  # torch 2.2 has no uint16


@pytest.mark.parametrize("dtype", [getattr(torch, name) for name in OTHER_KINDS if hasattr(torch, name)])
def test_weights_of_kinds_that_remp_does_not_write_are_refused(path, weights, info, config, validation_images, dtype):
    name = "weights/backbone.blocks.0.weight"
    weights[name] = weights[name].to(dtype)
    try:
        write_checkpoint(path, weights, info)
    except KeyError:
        pytest.skip(f"this version of safetensors cannot write {dtype}, so it cannot read it either")
    with pytest.raises(CheckpointError, match=r"model\.safetensors does not fit: backbone\.blocks\.0\.weight is "):
        load_trained(path)
    with pytest.raises(CheckpointError, match=r"model\.safetensors does not fit: backbone\.blocks\.0\.weight is "):
        take_weights(build_method(config, SIZE, 6), path, "remp", validation_images)


def test_weights_of_another_precision_are_refused(path, weights, info):
    name = "weights/backbone.blocks.0.weight"
    weights[name] = weights[name].double()
    write_checkpoint(path, weights, info)
    message = r"blocks\.0\.weight is float64 \(\d+, 3, 3, 3\), by its settings it is float32 \(\d+, 3, 3, 3\)"
    with pytest.raises(CheckpointError, match=message):
        load_trained(path)


def test_a_weight_too_many_is_named(path, weights, info):
    write_checkpoint(path, {**weights, "weights/more": torch.zeros(2)}, info)
    with pytest.raises(CheckpointError, match=r"more is float32 \(2,\), by its settings it is not there"):
        load_trained(path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"mean": [float("nan")] * 3},
        {"std": [0.2, 0.2, 0.0]},
        {"std": [0.2, 0.2, -1]},
        {"std": [float("inf")] * 3},
        {"mean": [10**400] * 3},
        {"mean": [1e30] * 3},
        {"mean": [True] * 3},
        {"n_classes": 6.0},
        {"n_classes": -1},
        {"n_classes": float("inf")},
        {"image_size": [float("inf"), 16, 3]},
        {"image_size": [16.5, 16, 3]},
        {"image_size": [0, 16, 3]},
        {"image_size": [[[]], 16, 3]},
        {"config": {}},
        {"config": {"data": "toy", "x" * 10**6: 1}},
        {"config": {"data": ["y" * 10**6]}},
    ],
    ids=lambda wrong: str(wrong)[:40],
)
def test_a_description_that_makes_no_sense_is_refused_in_few_words(path, weights, info, wrong):
    write_checkpoint(path, weights, {**info, **wrong})
    with pytest.raises((CheckpointError, ConfigError), match=r"model\.safetensors does not fit") as caught:
        load_trained(path)
    assert len(str(caught.value)) < 1200


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_classes": 10**6},
        {"n_classes": 10**7},
        {"image_size": [32, 32, 10**6]},
        {"image_size": [4096, 4096, 3]},
        {"image_size": [256, 256, 4096]},
        {"width": 8000},
        {"width": 10**9},
    ],
    ids=str,
)
def test_settings_take_no_memory_before_they_are_compared_with_the_weights(path, weights, info, wrong):
    settings = {**info["config"], **({"width": wrong["width"]} if "width" in wrong else {})}
    write_checkpoint(path, weights, {**info, **wrong, "config": settings})
    outcome = bounded(lambda: load_trained(path), mebibytes=256)
    assert outcome.kind == "CheckpointError", outcome


@pytest.mark.parametrize("method", METHODS)
def test_every_method_comes_back_as_it_was(tiny, method, path, info, monkeypatch):
    config = make_config(tiny(method=method, readout=None))
    built = build_method(config, SIZE, 6).eval()
    weights = {f"weights/{name}": tensor for name, tensor in built.state_dict().items()}
    write_checkpoint(path, weights, {**info, "config": config.flat()})
    loaded = load_trained(path).method
    images = torch.randn(2, 3, 16, 16)
    torch.testing.assert_close(loaded.embed(images), built.embed(images), rtol=0, atol=0)
    for (name, mine), theirs in zip(loaded.state_dict().items(), built.state_dict().values(), strict=True):
        assert torch.equal(mine, theirs), name
        assert mine.stride() == theirs.stride(), name
    assert [p.requires_grad for p in loaded.parameters()] == [p.requires_grad for p in built.parameters()]


@pytest.mark.parametrize(
    "content", [{"class_names": 5}, {"class_names": [[1]], "config": []}, {"config": "x"}], ids=str
)
def test_a_start_from_an_odd_header_is_refused(path, weights, info, content, config, validation_images):
    write_checkpoint(path, weights, {**info, **content})
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        take_weights(build_method(config, SIZE, 6), path, "remp", validation_images)


def test_a_setting_that_the_method_refuses_names_the_file(path, weights, info):
    write_checkpoint(path, weights, {**info, "config": {**info["config"], "step": 1.5}})
    with pytest.raises(ConfigError, match=r"model\.safetensors does not fit: step is 1\.5"):
        load_trained(path)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"image_size": [4097, 16, 3]}, r"its image_size is \[4097, 16, 3\]"),
        ({"image_size": [16, 16, 4097]}, r"its image_size is \[16, 16, 4097\]"),
        ({"image_size": [4096, 16, 3]}, "global_prototypes is"),
        ({"n_classes": 10**6 + 1}, "its n_classes is 1000001"),
        ({"n_classes": 10**6}, "global_prototypes is"),
    ],
    ids=str,
)
def test_sizes_beyond_the_limits_are_told_from_those_that_do_not_fit(path, weights, info, wrong, message):
    write_checkpoint(path, weights, {**info, **wrong})
    with pytest.raises(CheckpointError, match=message):
        load_trained(path)


@pytest.mark.parametrize(("size", "n_classes"), [((128, 128, 3), 6), ((16, 16, 1), 0), ((16, 16, 3), 100)], ids=str)
def test_every_size_that_was_trained_can_be_loaded(path, tiny, info, size, n_classes):
    """A large picture for a small network, one channel, no classes, many classes."""
    config = make_config(tiny(width=1, readout="average"))
    weights = {f"weights/{name}": tensor for name, tensor in build_method(config, size, n_classes).state_dict().items()}
    numbers = {"mean": [0.5] * size[2], "std": [0.2] * size[2]}
    sizes = {"image_size": list(size), "n_classes": n_classes}
    write_checkpoint(path, weights, {**info, **numbers, **sizes, "config": config.flat()})
    assert load_trained(path).image_size == size
