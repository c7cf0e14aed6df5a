"""Rectification at the ends of the number range."""

import importlib
from dataclasses import replace

import pytest
import torch

from rectification_cases import SHAPES, SWITCHES, episode, matrix
from remp.errors import ConfigError
from remp.rectification import Rectification
from remp.rectification.rectify import rectify

DEGENERATE = {
    "zeros": lambda items: torch.zeros_like(items),
    "identical": lambda items: torch.ones_like(items),
    "float16-sized": lambda items: items.sign() * 65504,
    "1e-30": lambda items: items * 1e-30,
    "1e9": lambda items: items * 1e9,
    "1e30": lambda items: items * 1e30,
    "largest": lambda items: items.sign() * torch.finfo(items.dtype).max,
    "one far": lambda items: torch.cat([items[:, :-1], items[:, -1:] * 1e20], dim=1),
}


def assert_finite(result) -> None:
    for tensor in (result.prototypes, result.query, result.logits, *result.attention):
        assert tensor.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("change", DEGENERATE.values(), ids=DEGENERATE)
def test_finite_input_gives_finite_output(change, dtype):
    for shape in ({}, *SHAPES.values()):
        support, labels, query = episode(**shape, dtype=torch.float32)
        support, query = (change(items).to(dtype).nan_to_num() for items in (support, query))  # infinity -> largest
        for settings in SWITCHES[:: 7 if shape else 3]:
            n_way, ten = int(labels.max()) + 1, replace(settings, layers=10)
            assert_finite(rectify(support, labels, query, n_way, ten, keep_attention=True))


def test_float64_beyond_any_use_stays_finite():
    support, labels, query = episode()
    for settings in SWITCHES:
        assert_finite(rectify(support * 1e300, labels, query * 1e300, 3, settings, keep_attention=True))


def test_a_signed_row_sum_of_zero_stays_finite():
    """One class: every query is masked to -1, and as many supports as queries cancel them."""
    support, labels, query = episode(shots=(4,), n_query=4)
    assert_finite(rectify(support, labels, query, 1, Rectification(layers=1, row_norm="signed"), keep_attention=True))


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e10, 1e30])
@pytest.mark.parametrize("layers", [0, 10, 70, 130])
def test_the_answer_survives_where_the_logits_leave_the_range(size, layers):
    """Two far clusters: the nearest prototype is beyond doubt, however large the numbers get."""
    support = torch.tensor([[[1.0, 0.0], [-1.0, 0.5]]]) * size
    query = torch.tensor([[[0.9, 0.1], [-0.8, 0.4], [-1.1, 0.6], [1.2, -0.1]]]) * size
    result = rectify(support, torch.tensor([[0, 1]]), query, 2, Rectification(layers=layers, scale=1 / min(size, 1)))
    assert_finite(result)
    assert result.logits.argmax(-1).tolist() == [[0, 1, 1, 0]]


def test_more_layers_than_float64_holds_are_refused():
    support, labels, query = episode()
    for projection, layers in ((None, 1000), (1e9 * matrix(), 10)):
        with pytest.raises(ConfigError, match="take fewer layers, a smaller projection, or none"):
            rectify(support, labels, query, 3, Rectification(layers=layers), projection=projection)
    assert_finite(rectify(support, labels, query, 3, Rectification(layers=1000, residual=False)))


def test_no_queries_are_refused():
    support, labels, query = episode()
    with pytest.raises(ValueError, match="give at least one"):
        rectify(support, labels, query[:, :0], 3, Rectification())


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"repulsion": "neg"}, "repulsion is 'neg'; choose from: negative, zero, none"),
        ({"row_norm": "l1"}, "choose from: absolute, signed"),
        ({"similarity": "dot"}, "choose from: euclidean, plain-euclidean, cosine"),
        ({"layers": -1}, "at least 0"),
        ({"scale": 0.0}, "above 0"),
        ({"scale": float("nan")}, "above 0"),
        ({"step": 1.5}, "at most 1"),
        ({"threshold": -1.5}, "threshold is -1.5; needed a number of at least 0"),
        ({"threshold": float("nan")}, "threshold is nan"),
    ],
)
def test_settings_that_mean_nothing_are_refused(setting, message):
    with pytest.raises(ConfigError, match=message):
        Rectification(**setting)


def test_attention_is_kept_only_if_it_is_asked_for():
    support, labels, query = episode()
    assert rectify(support, labels, query, 3, Rectification(layers=2)).attention == ()
    assert len(rectify(support, labels, query, 3, Rectification(layers=2), keep_attention=True).attention) == 2


def test_the_safe_range_is_that_of_all_items(monkeypatch):
    """A signed row may divide a sum over supports and queries by next to nothing."""
    support, labels, query = episode(shots=(1, 2, 3), n_query=11)
    asked = []
    module = importlib.import_module("remp.rectification.rectify")
    monkeypatch.setattr(module, "largest_safe", lambda settings, projection, n_items: asked.append(n_items) or 1e4)
    rectify(support, labels, query, 3, Rectification(layers=1))
    assert asked == [6 + 11]
    assert support.shape[2] not in (6, 11)
