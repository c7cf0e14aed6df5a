"""Classifiers on frozen features: the same features and episodes for all, numbers as numpy and evaluation have them."""

import csv
import json
import re
import unicodedata
from dataclasses import replace
from io import BytesIO, StringIO

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import stats
from typer.testing import CliRunner

from hostile_names import HOSTILE
from remp.checkpoint import write_checkpoint
from remp.cli import app
from remp.episodes import EpisodeSampler, Protocol
from remp.errors import CheckpointError, ConfigError
from remp.evaluation.compare import Comparison, chosen_methods, compare, compare_features
from remp.evaluation.evaluate import embed, evaluate
from remp.evaluation.frozen_features import FrozenFeatures, frozen_features
from remp.methods import METHODS
from remp.report.comparison import NAMES, comparison_csv, comparison_json, write_comparison
from stand_ins import untrained

PROTOCOLS = [Protocol(3, shots, 4) for shots in (1, 2)]
SOME = "remp,soft-kmeans"


@pytest.fixture
def features(test_images, train_images) -> FrozenFeatures:
    return frozen_features(untrained(method="protonet"), test_images, training_images=train_images)


@pytest.fixture
def comparison(features) -> Comparison:
    return compare_features(features, PROTOCOLS, methods=SOME, n_episodes=30, seed=5)


def entry(comparison: Comparison, name: str, table: int = 0):
    return next(entry for entry in comparison.tables[table].entries if entry.name == name)


@pytest.mark.parametrize("table", [0, 1])
def test_a_row_is_what_evaluating_that_method_on_the_same_backbone_gives(comparison, test_images, table):
    expected = evaluate(untrained(method="protonet"), test_images, PROTOCOLS[table], n_episodes=30, seed=5)
    result = entry(comparison, "protonet", table).result
    np.testing.assert_array_equal(result.accuracies, expected.accuracies)
    assert result.episode_hash == expected.episode_hash


def test_the_best_comes_first_and_differences_are_paired_with_the_reference(comparison):
    for table in comparison.tables:
        means = [row.result.accuracies.mean() for row in table.entries]
        assert means == sorted(means, reverse=True)
        base = next(row for row in table.entries if row.name == "protonet").result.accuracies
        for row in table.entries:
            if row.name != "protonet":
                differences = row.result.accuracies - base
                assert row.difference.mean == pytest.approx(differences.mean())
                half_width = stats.t.ppf(0.975, 29) * differences.std(ddof=1) / np.sqrt(30)
                assert row.difference.half_width == pytest.approx(half_width)


def test_the_base_mean_is_the_mean_feature_of_the_training_images(features, train_images, monkeypatch):
    trained = untrained(method="protonet")
    expected = embed(trained.method, train_images.images, trained.normalisation).mean(0)
    torch.testing.assert_close(features.base_mean, expected)
    monkeypatch.setattr("remp.evaluation.frozen_features.MEAN_BATCH", 7)
    in_parts = frozen_features(trained, train_images, training_images=train_images)
    torch.testing.assert_close(in_parts.base_mean, expected)


def test_methods_get_the_base_mean(features, monkeypatch):
    seen = []

    class Looks(METHODS["protonet"]):
        def logits(self, episodes):
            seen.append(self.base_mean)
            return super().logits(episodes)

    monkeypatch.setitem(METHODS, "looks", Looks)
    compare_features(features, PROTOCOLS[:1], methods="looks", n_episodes=2)
    assert seen[0] is features.base_mean


def test_a_transform_that_centres_episodes_leaves_no_base_mean_and_makes_every_row_transductive(
    test_images, train_images
):
    made = frozen_features(untrained(), test_images, training_images=train_images, transform="l2+centre")
    assert made.base_mean is None
    row = entry(compare_features(made, PROTOCOLS[:1], methods="protonet", n_episodes=3), "protonet")
    assert row.assumptions == "transductive"


def test_features_of_a_method_on_maps_are_vectors(test_images, monkeypatch):
    monkeypatch.setattr(METHODS["protonet"], "uses_maps", True)
    assert frozen_features(untrained(method="protonet"), test_images).values.shape == (60, 8)


def test_images_of_another_size_are_refused(test_images):
    trained = untrained()
    object.__setattr__(trained, "image_size", (32, 32, 3))
    with pytest.raises(CheckpointError, match="32x32x3"):
        frozen_features(trained, test_images)


def test_all_are_the_methods_that_say_they_work_on_frozen_features():
    assert chosen_methods("all", "protonet") == [name for name in METHODS if METHODS[name].frozen]


def test_the_reference_is_scored_whether_named_or_not():
    assert chosen_methods("remp", "protonet") == ["remp", "protonet"]
    assert chosen_methods(" remp, protonet", "protonet") == ["remp", "protonet"]


def test_a_class_of_ones_own_is_compared_with_all_others_or_they_with_it():
    class Guess(METHODS["protonet"]):
        pass

    frozen = chosen_methods("all", "protonet")
    name = chosen_methods([Guess], "protonet")[0]
    assert chosen_methods(["all", Guess], "protonet") == [*frozen, name]
    assert chosen_methods("all", name) == [*frozen, name]


def test_two_classes_of_the_same_name_are_not_taken_for_one():
    first, second = (type("Mine", (METHODS["protonet"],), {}) for _ in range(2))
    assert chosen_methods([first, first], "protonet") == ["own:Mine", "protonet"]
    with pytest.raises(ConfigError, match="two classes are named 'own:Mine'"):
        chosen_methods([first, second], "protonet")


def test_a_method_that_is_unknown_or_needs_training_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match=r"'protnet' is unknown.*did you mean 'protonet'"):
        chosen_methods("remp,protnet", "protonet")
    trained_only = next(name for name in METHODS if not METHODS[name].frozen)
    with pytest.raises(ConfigError, match="has to be trained"):
        chosen_methods([trained_only], "protonet")


def test_the_text_has_a_line_a_method_with_its_numbers_and_assumptions(comparison):
    text = str(comparison)
    lines = [line for line in text.splitlines() if line.startswith("remp ")]
    assert len(lines) == 2
    row = entry(comparison, "remp")
    for part in (row.result.estimate.percent(), "transductive", row.lead):
        assert part in lines[0]
    assert row.result.episode_hash[:16] in text


def test_csv_and_json_hold_the_numbers(comparison):
    records = list(csv.DictReader(StringIO(comparison_csv(comparison))))
    assert len(records) == 2 * 3
    tables = json.loads(comparison_json(comparison))["tables"]
    for table, kept in zip(comparison.tables, tables, strict=True):
        assert kept["episode_hash"] == table.entries[0].result.episode_hash
        assert kept["checkpoint_hash"] == "a3" * 32
        for row, shown in zip(table.entries, kept["rows"], strict=True):
            np.testing.assert_allclose(shown["accuracies"], row.result.accuracies, atol=1e-6)
            assert shown["method"] == row.name
    reference = next(record for record in records if record["method"] == "protonet")
    assert reference["difference"] == ""
    assert float(reference["accuracy"]) == pytest.approx(
        entry(comparison, "protonet").result.accuracies.mean(), abs=1e-6
    )


def test_one_episode_has_no_interval_and_its_json_is_strict(features):
    alone = compare_features(features, PROTOCOLS[:1], methods=SOME, n_episodes=1)
    row = json.loads(comparison_json(alone), parse_constant=pytest.fail)["tables"][0]["rows"][0]
    assert row["accuracy_half_width_95"] is None


def test_a_comparison_is_written_whole_and_never_over_another(comparison, tmp_path):
    paths = write_comparison(comparison, tmp_path / "out")
    assert [path.name for path in paths] == list(NAMES)
    assert min(Image.open(BytesIO(paths[-1].read_bytes())).size) > 200
    with pytest.raises(ConfigError, match="--overwrite"):
        write_comparison(comparison, tmp_path / "out")
    write_comparison(comparison, tmp_path / "out", overwrite=True)


def test_the_command_scores_several_shots_and_refuses_a_full_folder_before_it_works(prepared, tmp_path):
    trained = untrained(method="protonet")
    weights = {f"weights/{name}": tensor for name, tensor in trained.method.state_dict().items()}
    info = {"config": trained.config.flat(), "image_size": [16, 16, 3], "n_classes": 6}
    write_checkpoint(tmp_path / "model.safetensors", weights, {**info, "mean": [0.5] * 3, "std": [0.25] * 3})
    options = ["--features", str(tmp_path / "model.safetensors"), "--n-way", "3", "--n-query", "4"]
    command = ["compare", *options, "--n-shot", "1", "2", "--n-episodes", "5", "--methods", SOME, "--out"]
    answer = CliRunner().invoke(app, [*command, str(tmp_path / "out"), "--distribution", "dirichlet:2"])
    assert answer.exit_code == 0, answer.output
    assert "3-way, 1-shot" in answer.output
    assert "3-way, 2-shot, 4 queries per class (dirichlet:2)" in answer.output
    again = CliRunner().invoke(app, [*command, str(tmp_path / "out")])
    assert isinstance(again.exception, ConfigError)


def test_embeddings_of_ones_own_are_compared_on_episodes_of_their_classes():
    """The numbers of the reference are those of class means, written out."""
    random = np.random.default_rng(0)
    centres = 10 * random.normal(size=(4, 6))
    y = np.array(["d", "b", "a", "c"])[np.repeat(np.arange(4), 12)]
    X = np.repeat(centres, 12, axis=0) + random.normal(size=(48, 6)) * 6
    found = compare(X, y, methods=["remp", "logistic-regression"], n_shot=[1, 2], n_query=5, n_episodes=30)
    assert [table.protocol.n_way for table in found.tables] == [4, 4]
    assert "\nFeatures: own embeddings (" in str(found)
    result = found["protonet", 2]  # the reference is scored whether named or not
    sorted_rows = X[np.argsort(y, kind="stable")].astype(np.float32)
    labels = np.repeat(np.arange(4), 12)
    episodes = EpisodeSampler(labels, Protocol(4, 2, 5), seed=0).sample(30)
    for e in range(30):
        support, query = sorted_rows[episodes.support[e]], sorted_rows[episodes.query[e]]
        means = np.stack([support[episodes.support_labels[e].numpy() == way].mean(0) for way in range(4)])
        nearest = ((query[:, None] - means) ** 2).sum(-1).argmin(1)
        assert result.accuracies[e] == pytest.approx((nearest == episodes.query_labels[e].numpy()).mean())
    table = found.to_pandas()
    assert list(table.method) == [entry.name for part in found.tables for entry in part.entries]
    assert "4-way, 1-shot" in str(found)
    assert "Features: own embeddings (" in str(found)
    with pytest.raises(KeyError, match="there are"):
        found["remp", 3]


@pytest.mark.parametrize(
    ("X", "y", "more", "message"),
    [
        (np.zeros((3, 2)), [0, 1], {}, "needed numbers"),
        (np.full((4, 2), np.nan), [0, 0, 1, 1], {}, "NaN"),
        (np.full((4, 2), 1e39), [0, 0, 1, 1], {}, "beyond float32"),
        (np.zeros((4, 2)), [0, 0, 1, 1], {"transform": "mirror"}, "not images"),
        (np.zeros((4, 2)), [0, 0, 1, 1], {"n_shot": []}, "n_shot is empty"),
    ],
)
def test_rows_that_cannot_be_compared_are_told(X, y, more, message):
    with pytest.raises(ConfigError, match=message):
        compare(X, y, **more)


@pytest.mark.parametrize("missing", [-1, None, np.nan, ""], ids=str)
def test_rows_without_a_class_are_left_out_of_a_comparison(missing):
    random = np.random.default_rng(0)
    truth = np.arange(48) % 3
    X = 3 * random.normal(size=(3, 6))[truth] + random.normal(size=(48, 6))
    settings = {"methods": ["remp"], "n_shot": np.int64(2), "n_query": 3, "n_episodes": 5}
    more, nobody = random.normal(size=(30, 6)), [missing] * 30
    found = compare(np.concatenate([more, X]), [*nobody, *truth.tolist()], **settings)
    alone = compare(X, truth, **settings)
    assert [table.protocol.n_way for table in found.tables] == [3]
    np.testing.assert_array_equal(found["remp", 2].accuracies, alone["remp", 2].accuracies)
    assert found["remp", 2].episode_hash == alone["remp", 2].episode_hash


def with_names(comparison: Comparison, name: str) -> Comparison:
    """The comparison with this name for its methods, its data and its checkpoint."""
    tables = []
    for table in comparison.tables:
        rows = [
            replace(row, name=name, result=replace(row.result, checkpoint=name, data=name)) for row in table.entries
        ]
        tables.append(replace(table, entries=tuple(rows), reference=name))
    return replace(comparison, tables=tuple(tables))


@pytest.mark.parametrize(
    "name", [*HOSTILE, "a|b", "[a](javascript:x)", "$x$ $", "\x1b[2J"], ids=lambda name: repr(name)[:20]
)
@pytest.mark.filterwarnings("ignore:Glyph")
def test_hostile_names_in_a_comparison_are_text_and_nothing_else(comparison, tmp_path, name):
    hostile = with_names(comparison, name)
    markdown, table, whole, picture = (path.read_bytes() for path in write_comparison(hostile, tmp_path))
    page = markdown.decode("utf-8")
    lines = [line for line in page.splitlines() if line.startswith("|")]
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 6 for line in lines)
    assert len(lines) == sum(len(table.entries) + 2 for table in hostile.tables)
    assert not re.search(r"(?<!\\)[<\[`]", page)
    assert len(list(csv.reader(StringIO(table.decode("utf-8"))))) == 1 + sum(len(t.entries) for t in hostile.tables)
    assert json.loads(whole)["tables"][0]["rows"][0]["checkpoint"] == name
    assert Image.open(BytesIO(picture)).format == "PNG"
    shown = str(hostile)
    assert not [letter for letter in shown if letter != "\n" and unicodedata.category(letter) in ("Cc", "Cs")]


def test_the_result_of_a_checkpoint_whose_name_is_not_utf8_is_saved(comparison, tmp_path):
    result = replace(comparison.tables[0].entries[0].result, checkpoint="broken \udcff byte")
    assert json.loads(result.save(tmp_path / "r.json").read_text())["checkpoint"] == "broken \udcff byte"
