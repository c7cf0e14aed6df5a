"""Whether rectification helps: said after a training and in a comparison, with paired figures."""

import json
import re

import numpy as np
import pytest

import remp
from remp.evaluation.side_by_side import WithoutLayers
from remp.report.comparison import comparison_json, comparison_markdown

SCORES = np.array([0.2, 0.4, 0.6, 0.8])


def test_what_hurts_on_every_episode_is_said_with_figures_and_the_cure():
    found = WithoutLayers.of(SCORES, SCORES + 0.1)
    assert found.hurts
    said = found.sentence("Take --layers 0.")
    assert said.startswith("Rectification hurts here: 50.00 % with it, 60.00 % without (−10.00 ± 0.00 points")
    assert said.endswith("Take --layers 0.")


@pytest.mark.parametrize(
    ("without", "words"), [(SCORES - 0.1, "helps here"), (SCORES[::-1].copy(), "makes no clear difference")]
)
def test_what_helps_or_makes_no_difference_has_no_cure(without, words):
    said = WithoutLayers.of(SCORES, without).sentence("CURE")
    assert words in said
    assert "CURE" not in said


def test_a_comparison_scores_methods_that_rectify_without_it_too():
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    found = remp.compare(X, y, methods=["remp", "protonet"], n_shot=1, n_episodes=30)
    (table,) = found.tables
    plain = table.without_layers["remp"]
    assert list(table.without_layers) == ["remp"]
    assert plain.with_layers == pytest.approx(found["remp", 1].accuracies.mean())
    assert plain.difference.mean == pytest.approx(plain.with_layers - plain.without)
    assert f"remp: {plain.sentence('')[:40]}" in str(found)
    assert "with it" in comparison_markdown(found)
    assert json.loads(comparison_json(found))["tables"][0]["without_layers"]["remp"] == plain.as_dict()


def test_a_training_says_it_of_the_weights_it_keeps(train_tiny, capsys):
    folder = train_tiny()
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert lines[-1]["event"] == "without rectification"
    assert lines[-1]["difference"] == pytest.approx(lines[-1]["with_layers"] - lines[-1]["without_layers"], abs=1e-5)
    best = max(line["validation_accuracy"] for line in lines if line["event"] == "validation")
    assert lines[-1]["with_layers"] == pytest.approx(best, abs=1e-4)
    printed = capsys.readouterr().out
    assert re.search("^Rectification (hurts|helps|makes no clear difference) on validation classes: ", printed, re.M)


def test_a_method_without_layers_says_nothing(train_tiny, capsys):
    train_tiny(method="protonet")
    assert "Rectification" not in capsys.readouterr().out
