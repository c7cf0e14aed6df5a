"""Settings: typed, flat, refused where they are wrong."""

import inspect
from pathlib import Path

import pytest
import yaml

from bounds import bounded
from remp.backbones import BACKBONES
from remp.config import RunConfig, load_config, make_config, settings_model
from remp.errors import ConfigError
from remp.methods import METHODS

CONFIGS = sorted((Path(__file__).parents[1] / "configs").glob("**/*.yaml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_shipped_config_loads_and_is_complete(path):
    written = yaml.safe_load(path.read_text(encoding="utf-8"))
    settled = load_config(path).flat()
    assert not [name for name in settled if name not in written and settled[name] is not None]


def test_settings_of_the_method_and_backbone_are_written_flat():
    config = make_config({"data": "toy", "layers": 3, "width": 32, "learning_rate": 0.2})
    assert (config.method_settings["layers"], config.backbone_settings["width"]) == (3, 32)
    assert {"layers": 3, "width": 32, "learning_rate": 0.2}.items() <= config.flat().items()


def test_written_settings_are_read_as_the_same(tmp_path):
    config = make_config({"data": "toy", "crop_area": [0.3, 0.9], "alpha": 5e-5, "milestones": []})
    (tmp_path / "c.yaml").write_text(config.yaml(), encoding="utf-8")
    assert load_config(tmp_path / "c.yaml") == config


def test_overrides_win_over_the_file(tmp_path):
    (tmp_path / "c.yaml").write_text("data: toy\nseed: 1\nalpha: 0.5\n")
    config = load_config(tmp_path / "c.yaml", {"seed": 2})
    assert (config.seed, config.method_settings["alpha"]) == (2, 0.5)


@pytest.mark.parametrize(
    ("wrong", "right"), [("learning_rte", "learning_rate"), ("layer", "layers"), ("widht", "width"), ("nway", "n_way")]
)
def test_an_unknown_setting_is_refused_with_the_nearest_name(wrong, right):
    with pytest.raises(ConfigError, match=f"unknown setting '{wrong}': did you mean '{right}'"):
        make_config({"data": "toy", wrong: 1})


@pytest.mark.parametrize("flags", [{"backbone": "resnet12"}, {"method": "protonet"}, {"method": "tpn", "alpha": 0.5}])
def test_another_method_or_backbone_over_a_complete_file_leaves_out_the_settings_of_the_one_it_replaces(flags):
    """As in `remp train configs/….yaml --backbone resnet12`."""
    config = load_config(CONFIGS[0], flags)
    expected = make_config({"data": config.data, **flags})
    part = "backbone_settings" if "backbone" in flags else "method_settings"
    assert getattr(config, part) == getattr(expected, part)
    assert config.episodes == load_config(CONFIGS[0]).episodes


def test_a_file_that_names_no_method_has_settings_of_the_one_it_is_used_with(tmp_path):
    """ReMP, the default, has an alpha, too."""
    (tmp_path / "tpn.yaml").write_text("data: toy\nalpha: 0.5\nneighbours: 7\n")
    settings = load_config(tmp_path / "tpn.yaml", {"method": "tpn"}).method_settings
    assert (settings["alpha"], settings["neighbours"]) == (0.5, 7)
    with pytest.raises(ConfigError, match="unknown setting 'alpha'"):
        load_config(tmp_path / "tpn.yaml", {"method": "protonet"})


def test_a_setting_of_another_method_is_unknown():
    with pytest.raises(ConfigError, match="unknown setting 'layers'"):
        make_config({"data": "toy", "method": "protonet", "layers": 3})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_way": "five"}, r"n_way: got 'five'; needed a whole number"),
        ({"n_way": 1}, "n_way: got 1; needed 2 or more"),
        ({"learning_rate": -0.1}, "learning_rate: got -0.1"),
        ({"learning_rate": float("nan")}, "learning_rate: got nan"),
        ({"crop_area": [0.5]}, "crop_area has too few entries: got \\[0.5\\]"),
        ({"learning_rate": float("inf")}, "learning_rate: got inf; needed a finite number"),
        ({"weight_decay": float("inf")}, "weight_decay: got inf"),
        ({"seed": -1}, "seed: got -1"),
        ({"layers": "many"}, "layers: got 'many'"),
        ({"pooling": "round"}, "pooling: got 'round'; .*'floor' or 'ceil'"),
        ({"precision": "8-bit"}, "precision: got '8-bit'"),
        ({"crop_area": [0.9, 0.5]}, r"crop_area is \(0.9, 0.5\); needed 0 < smallest"),
        ({"milestones": [5, 3]}, "they must increase"),
        ({"milestones": [0, 3]}, "from 1 on"),
        ({"milestones": [3], "milestone_factors": [0.1, 0.2]}, "2 numbers for 1 milestones; needed one for each"),
        ({"transform": "l3"}, "unknown part 'l3'"),
        ({"data": 5}, "data: got 5; needed text"),
        ({"method": "rempp"}, "unknown method 'rempp'; .*did you mean 'remp'"),
        ({"method": ["remp"]}, "unknown method"),
        ({"backbone": "conv5"}, "did you mean 'conv4'"),
        ({1: 2}, "unknown setting 1"),
    ],
)
def test_a_wrong_value_is_named_with_what_was_needed(settings, message):
    with pytest.raises(ConfigError, match=message) as error:
        make_config({"data": "toy", **settings})
    assert "\n" not in str(error.value)


def test_the_data_set_must_be_named():
    with pytest.raises(ConfigError, match="data is needed: --data VALUE"):
        make_config({})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"- a\n- b\n", "holds list; needed lines of 'name: value'"),
        (b"data: [toy\n", "is not readable YAML"),
        (b"\xff\xfe\x00", "is not readable YAML"),
        (b"", "holds NoneType"),
        (b"data: !!python/object/apply:os.system ['touch ran']\n", "is not readable YAML"),
    ],
)
def test_a_file_that_is_no_list_of_settings_is_refused(tmp_path, content, message):
    (tmp_path / "c.yaml").write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        load_config(tmp_path / "c.yaml")


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="there is no configuration file"):
        load_config(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path)


def test_a_name_means_one_setting_only():
    own = {name for name in RunConfig.model_fields if not name.endswith("_settings")}
    backbones = set().union(*(settings_model(b).model_fields for b in BACKBONES.values()))
    methods = set().union(*(settings_model(m).model_fields for m in METHODS.values()))
    assert not own & backbones
    assert not own & methods
    assert not backbones & methods


@pytest.mark.parametrize("owner", [*METHODS.values(), *BACKBONES.values()])
def test_a_setting_has_the_name_and_default_of_the_constructor(owner):
    parameters = {}
    for cls in reversed(owner.__mro__):  # a class may pass settings on to the one above it
        parameters.update(inspect.signature(vars(cls).get("__init__", object.__init__)).parameters)
    for name, field in settings_model(owner).model_fields.items():
        assert parameters[name].default == field.default


def test_validation_takes_the_shots_of_training_unless_it_has_its_own():
    assert make_config({"data": "toy", "n_shot": 5}).validation_protocol.n_shot == 5
    assert make_config({"data": "toy", "n_shot": 5, "validation_shot": 1}).validation_protocol.n_shot == 1


def test_settings_cannot_be_changed_after_they_were_checked():
    with pytest.raises(ValueError, match="frozen"):
        make_config({"data": "toy"}).n_way = 3


def test_a_file_that_is_no_settings_is_told_quickly(tmp_path):
    path = tmp_path / "run.yaml"
    laughs = "a: &a0 [x, x]\n" + "".join(f"b{i}: &a{i + 1} [*a{i}, *a{i}]\n" for i in range(40))
    for content in (laughs + "data: *a40\n", laughs + "method: *a40\n", "[" * 20_000, "x: 1\n" * 10**5, "a: \x00"):
        path.write_text(content)
        outcome = bounded(lambda: load_config(path))
        assert outcome.kind == "ConfigError", (content[:20], outcome)
        assert len(outcome.text) < 2000
