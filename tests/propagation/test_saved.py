"""A labelling as a model: saved, loaded, and used on rows it has never seen."""

import json
import pickle

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import remp
from remp.errors import CheckpointError, ConfigError
from remp.propagation.saved import read_labelling


def clusters(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows around three corners, and which."""
    random = np.random.default_rng(seed)
    truth = np.arange(n) % 3
    return 4 * np.eye(3, 5)[truth] + random.normal(size=(n, 5)), truth


X, TRUTH = clusters(90)
NEW, _ = clusters(30, seed=1)
NAMES = np.array(["ant", "bee", "cow"])
CHOSEN = ("tolerance", "feature_transform", "layers")  # not kept, or resolved when it was fitted


def fitted(**settings) -> remp.ReMPClassifier:
    return remp.ReMPClassifier(**settings).fit(X, np.where(np.arange(90) < 12, NAMES[TRUTH], ""))


@pytest.mark.parametrize(
    "settings",
    [{}, {"layers": 0}, {"balanced": True}, {"rule": "paper"}, {"rule": "paper", "balanced": True, "scale": 5.0}],
    ids=str,
)
def test_a_loaded_model_answers_as_the_one_that_was_saved(tmp_path, settings):
    model = fitted(**settings)
    assert model.save(tmp_path / "model").is_file()
    loaded = remp.load_labelling(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(NEW), model.predict_proba(NEW))
    assert loaded.predict(NEW).tolist() == model.predict(NEW).tolist()
    same = {name: value for name, value in loaded.get_params().items() if name not in CHOSEN}
    assert same == {name: model.get_params()[name] for name in same}


@pytest.mark.parametrize("classes", [[3, 5, 8], [1.0, 2.0, 5.0]], ids=["whole", "fractions"])
def test_classes_keep_their_kind(tmp_path, classes):
    y = np.where(np.arange(90) < 12, np.array(classes)[TRUTH], -1)
    model = remp.ReMPClassifier().fit(X, y)
    model.save(tmp_path / "model")
    loaded = remp.load_labelling(tmp_path / "model" / "model.safetensors")
    assert (loaded.classes_.tolist(), loaded.classes_.dtype) == (classes, model.classes_.dtype)


@pytest.mark.parametrize("rule", ["adaptive", "paper"])
@pytest.mark.filterwarnings("ignore:not converged")
def test_a_model_of_one_class_is_loaded(tmp_path, rule):
    model = remp.ReMPClassifier(rule=rule).fit(X, np.where(np.arange(90) < 12, "ant", ""))
    model.save(tmp_path / "model")
    loaded = remp.load_labelling(tmp_path / "model")
    assert set(loaded.predict(NEW)) == set(loaded.refit(NEW).transduction_) == {"ant"}
    np.testing.assert_array_equal(loaded.prototypes_, model.prototypes_)


def test_settings_of_a_grid_search_are_saved(tmp_path):
    """np.arange and np.geomspace give numbers of NumPy, of which JSON knows nothing."""
    paper = {"rule": "paper", "scale": np.float32(5), "tolerance": 9.0}
    for number, settings in enumerate([{"layers": np.int64(2), "balanced": np.bool_(True)}, paper]):
        model = fitted(**settings)
        model.save(tmp_path / str(number))
        np.testing.assert_array_equal(
            remp.load_labelling(tmp_path / str(number)).predict_proba(NEW), model.predict_proba(NEW)
        )


def test_learning_with_new_rows_is_fitting_the_examples_and_them(tmp_path):
    fitted().save(tmp_path / "model")
    together = remp.load_labelling(tmp_path / "model").refit(NEW)
    afresh = remp.ReMPClassifier().fit(X[:12], NAMES[TRUTH[:12]], NEW)
    np.testing.assert_allclose(together.label_distributions_, afresh.label_distributions_[12:], atol=1e-6)
    assert together.transduction_.tolist() == afresh.transduction_[12:].tolist()


def test_a_model_is_not_overwritten(tmp_path):
    fitted().save(tmp_path / "model")
    with pytest.raises(ConfigError, match="exists already"):
        fitted().save(tmp_path / "model")


def parts(path) -> tuple[dict[str, torch.Tensor], dict]:
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, json.loads(file.metadata()["remp"])  # noqa: SIM118


def spoilt(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Other tensors in its place: of another shape or kind, not finite, or classes that are not there."""
    others = [tensor[:-1], tensor[None], tensor.to(torch.uint8)]
    bad = tensor.clone()
    bad.view(-1)[0] = float("nan") if tensor.is_floating_point() else -1
    return [*others, bad]


@pytest.mark.parametrize("settings", [{}, {"rule": "paper", "balanced": True}], ids=["adaptive", "paper"])
def test_a_part_that_is_missing_or_damaged_is_refused_whichever_it_is(tmp_path, settings):
    tensors, facts = parts(fitted(**settings).save(tmp_path / "model"))
    header = {"remp": json.dumps(facts)}
    path = tmp_path / "bad.safetensors"
    for name, tensor in tensors.items():
        for change in [{}, *({name: bad.contiguous()} for bad in spoilt(tensor))]:
            rest = {key: value for key, value in tensors.items() if key != name}
            save_file({**rest, **change}, path, header)
            with pytest.raises(CheckpointError, match=r"bad\.safetensors is damaged"):
                read_labelling(path)


BAD = [None, 7, "x", [], {}, [[]], {"layers": -1}, float("inf"), ["a", 1], ["a", "a", "b"], -3]


@pytest.mark.parametrize("name", ["classes", "rule", "settings", "numbers", "format", "embedder"])
def test_a_fact_of_another_kind_is_refused(tmp_path, name):
    tensors, facts = parts(fitted().save(tmp_path / "model"))
    for value in BAD:
        if name == "embedder" and value == "x":
            continue
        save_file(tensors, tmp_path / "bad.safetensors", {"remp": json.dumps({**facts, name: value})})
        with pytest.raises(CheckpointError, match=r"bad\.safetensors"):
            read_labelling(tmp_path / "bad.safetensors")


@pytest.mark.parametrize("setting", [{"layers": -1}, {"transform": "mirror"}, {"layers": "9"}, {"more": 1}])
def test_settings_that_the_rule_refuses_are_refused(tmp_path, setting):
    tensors, facts = parts(fitted().save(tmp_path / "model"))
    facts["settings"] |= setting
    save_file(tensors, tmp_path / "bad.safetensors", {"remp": json.dumps(facts)})
    with pytest.raises(CheckpointError, match=r"bad\.safetensors"):
        read_labelling(tmp_path / "bad.safetensors")


def test_another_file_or_none_is_refused_and_no_pickle_is_run(tmp_path):
    (tmp_path / "x").write_bytes(pickle.dumps(print))
    with pytest.raises(CheckpointError, match="cannot be read as a model"):
        remp.load_labelling(tmp_path / "x")
    with pytest.raises(CheckpointError, match="there is no model"):
        remp.load_labelling(tmp_path / "nothing")


@pytest.mark.parametrize("number", [10**400, -(10**400), True, "1", float("nan"), float("-inf"), None])
@pytest.mark.parametrize("name", ["cosine", "size", "moves"])
def test_a_number_that_no_float_holds_is_refused(tmp_path, name, number):
    tensors, facts = parts(fitted().save(tmp_path / "model"))
    facts["numbers"][name] = [number] if name == "moves" else number
    save_file(tensors, tmp_path / "bad.safetensors", {"remp": json.dumps(facts)})
    with pytest.raises(CheckpointError, match=rf"bad\.safetensors is damaged \({name} does not fit\)"):
        read_labelling(tmp_path / "bad.safetensors")


@pytest.mark.parametrize("side", [0, -84, 4097, 10**9, True, 84.0, "84"])
def test_pictures_of_an_absurd_side_are_refused(tmp_path, side):
    tensors, facts = parts(fitted().save(tmp_path / "model"))
    save_file(tensors, tmp_path / "bad.safetensors", {"remp": json.dumps({**facts, "side": side})})
    with pytest.raises(CheckpointError, match=r"bad\.safetensors is damaged \(side does not fit\)"):
        read_labelling(tmp_path / "bad.safetensors")
