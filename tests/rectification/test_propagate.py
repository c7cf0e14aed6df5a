"""Propagation over chunks of rows against the dense rectification of all of them."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from remp.episodes import Episodes
from remp.errors import ConfigError, DataError
from remp.rectification.propagate import Propagation, checked_labels, propagate
from remp.rectification.rectify import rectify
from remp.rectification.transform import FeatureTransform
from remp.rows import ArrayRows

N_CLASSES = 3


def table(n=60, dim=8, seed=0, shots=(1, 3, 2)):
    """Clustered rows (n, dim) far from the origin, in random order, and labels of a few of them."""
    random = np.random.default_rng(seed)
    truth = random.permutation(np.arange(n) % len(shots))
    rows = random.normal(size=(len(shots), dim))[truth] + 0.6 * random.normal(size=(n, dim)) + random.normal(size=dim)
    labels = np.full(n, -1)
    for number, shot in enumerate(shots):
        labels[np.flatnonzero(truth == number)[:shot]] = number
    return rows.astype(np.float32), labels


def transformed(rows, parts):
    """(n, d) by FeatureTransform, all rows as one episode."""
    features = FeatureTransform.parse(parts).features(torch.from_numpy(rows))[None]
    nobody = torch.zeros(1, 1, dtype=torch.long), torch.zeros(1, features.shape[1] - 1, dtype=torch.long)
    episode = Episodes(features[:, :1], nobody[0], features[:, 1:], nobody[1], 1)
    centred = FeatureTransform.parse(parts).episodes(episode)
    return torch.cat([centred.support, centred.query], dim=1)[0]


def dense(rows, labels, propagation, n_classes=N_CLASSES):
    """`rectify` of everything at once, in float64."""
    features, is_support = transformed(rows, propagation.transform).double(), labels >= 0
    support_labels = torch.from_numpy(labels[is_support])[None]
    return rectify(features[is_support][None], support_labels, features[~is_support][None], n_classes, propagation)


CASES = [
    Propagation(
        transform=transform,
        layers=3,
        scale=scale / (100 if transform in ("none", "power+centre") else 1),
        repulsion=repulsion,
        row_norm=row_norm,
        similarity=similarity,
        residual=residual,
        step=step,
    )
    for (transform, step), repulsion, row_norm, (similarity, scale), residual in itertools.product(
        [("none", 1.0), ("l2", 0.3), ("power+centre", 1.0), ("power+l2+centre", 1.0)],
        ["negative", "zero", "none"],
        ["absolute", "signed"],
        [("euclidean", 10.0), ("cosine", 8.0), ("plain-euclidean", 5.0)],
        [True, False],
    )
]
CASES += [replace(case, balanced=True) for case in CASES[::17]]


def case_name(case):
    balanced = "-balanced" if case.balanced else ""
    return f"{case.transform}-{case.repulsion}-{case.row_norm}-{case.similarity}-{case.residual}-{case.step}{balanced}"


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_every_setting_gives_the_dense_result(case):
    rows, labels = table()
    ours, all_at_once = propagate(ArrayRows(rows, chunk=7), labels, N_CLASSES, case), dense(rows, labels, case)
    size = float(all_at_once.prototypes.abs().max())
    torch.testing.assert_close(ours.prototypes.double(), all_at_once.prototypes[0], rtol=0, atol=1e-5 * max(size, 1))
    logits = ours.logits(torch.from_numpy(rows[labels < 0])).double()
    largest = float(all_at_once.logits.abs().max())
    torch.testing.assert_close(logits, all_at_once.logits[0], rtol=0, atol=1e-5 * max(largest, 1))


@pytest.mark.parametrize("parts", ["none", "power", "l2", "centre", "power+l2", "l2+centre", "power+l2+centre"])
def test_features_are_those_of_the_feature_transform_centred_on_all_rows(parts):
    rows, labels = table()
    rows[5] = 0
    ours = propagate(ArrayRows(rows, chunk=13), labels, N_CLASSES, Propagation(transform=parts, scale=0.1))
    torch.testing.assert_close(ours.features(torch.from_numpy(rows)), transformed(rows, parts), rtol=0, atol=1e-6)


def test_the_prototypes_before_are_the_class_means_and_their_logits_squared_distances():
    rows, labels = table()
    result = propagate(ArrayRows(rows), labels, N_CLASSES, Propagation(scale=10.0, similarity="euclidean"))
    features = result.features(torch.from_numpy(rows)).numpy()
    means = np.stack([features[labels == number].mean(0) for number in range(N_CLASSES)])
    np.testing.assert_allclose(result.prototypes_before, means, atol=1e-6)
    distances = ((features[:, None] - means) ** 2).sum(-1)
    logits = result.logits(torch.from_numpy(rows), rectified=False).numpy()
    np.testing.assert_allclose(logits - logits[:, :1], 10 * (distances[:, :1] - distances), atol=1e-4)


@pytest.mark.parametrize("chunk", [1, 8, 59, 1000])
def test_the_size_of_the_chunks_does_not_show(chunk):
    rows, labels = table()
    one, other = (propagate(ArrayRows(rows, chunk=size), labels, N_CLASSES) for size in (20, chunk))
    torch.testing.assert_close(one.prototypes, other.prototypes, rtol=0, atol=1e-6)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_order_of_the_rows_does_not_show(seed):
    rows, labels = table()
    order = np.random.default_rng(seed).permutation(len(rows))
    one = propagate(ArrayRows(rows), labels, N_CLASSES)
    other = propagate(ArrayRows(rows[order], chunk=16), labels[order], N_CLASSES)
    torch.testing.assert_close(one.prototypes, other.prototypes, rtol=0, atol=1e-5)


def test_renaming_the_classes_renames_the_prototypes():
    rows, labels = table()
    new = np.array([2, 0, 1])
    one = propagate(ArrayRows(rows), labels, N_CLASSES)
    other = propagate(ArrayRows(rows), np.where(labels < 0, -1, new[labels]), N_CLASSES)
    torch.testing.assert_close(other.prototypes[new], one.prototypes, rtol=0, atol=1e-6)


def test_without_unlabelled_rows_the_prototypes_are_the_class_means():
    rows, _ = table(n=9)
    result = propagate(ArrayRows(rows), np.arange(9) % 3, N_CLASSES)
    assert torch.equal(result.prototypes, result.prototypes_before)
    assert result.moves == ()


def test_not_rectified_logits_are_those_without_layers():
    rows, labels = table()
    case = Propagation(scale=5.0, similarity="euclidean", residual=True, balanced=True, layers=3)
    result, plain = (propagate(ArrayRows(rows), labels, N_CLASSES, replace(case, layers=n)) for n in (3, 0))
    given = torch.from_numpy(rows)
    torch.testing.assert_close(result.logits(given, rectified=False), plain.logits(given), rtol=0, atol=0)
    assert not torch.allclose(result.logits(given), plain.logits(given), atol=0.1)


def test_every_pass_sees_the_labels_as_they_were_at_first():
    rows, labels = table()
    kept = checked_labels(ArrayRows(rows), labels, N_CLASSES)
    with pytest.raises(ValueError, match="read-only"):
        kept[0] = 1
    labels[:] = 0
    assert not np.array_equal(kept, labels)


def test_the_default_scale_does_not_change_unnoticed():
    """With another one, everybody who labels by the paper's rule would get other results: never by accident."""
    assert (Propagation().similarity, Propagation().scale) == ("cosine", 40)


def test_without_layers_nothing_moves():
    rows, labels = table()
    result = propagate(ArrayRows(rows), labels, N_CLASSES, Propagation(layers=0))
    assert torch.equal(result.prototypes, result.prototypes_before)


@pytest.mark.parametrize("residual", [False, True])
def test_moves_are_the_largest_distance_of_each_layer_relative_to_the_mean_norm(residual):
    """With `residual`, each layer makes all that is there twice as large, which is no move."""
    rows, labels = table()
    # With a threshold of 0, β does not depend on the number of layers, so fewer layers are the first of more.
    same = {"threshold": 0, "residual": residual}
    results = [propagate(ArrayRows(rows), labels, N_CLASSES, Propagation(layers=n, **same)) for n in (1, 2, 3)]
    steps = [results[0].prototypes_before, *(result.prototypes for result in results)]
    grown = 2 if residual else 1
    expected = [
        float((b - grown * a).norm(dim=1).max() / (grown * a).norm(dim=1).mean()) for a, b in itertools.pairwise(steps)
    ]
    assert results[-1].moves == pytest.approx(expected, rel=1e-3)
    assert len(results[0].moves) == 1


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32, np.uint8, ">f4"])
def test_numbers_of_other_types_are_taken_as_they_are(dtype):
    rows, labels = table()
    whole = np.abs(10 * rows).round()
    one = propagate(ArrayRows(whole), labels, N_CLASSES)
    other = propagate(ArrayRows(whole.astype(dtype)), labels, N_CLASSES)
    assert torch.equal(one.prototypes, other.prototypes)


def test_the_rows_of_the_user_are_left_as_they_were(tmp_path):
    rows, labels = table()
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    result = propagate(ArrayRows(mapped), labels, N_CLASSES)
    assert np.array_equal(mapped, rows)
    assert torch.equal(result.prototypes, propagate(ArrayRows(rows), labels, N_CLASSES).prototypes)


DEGENERATE = {
    "zeros": lambda rows: 0 * rows,
    "identical": lambda rows: 0 * rows + 1,
    "1e-30": lambda rows: rows * 1e-30,
    "1e20": lambda rows: rows * 1e20,
    "largest": lambda rows: np.sign(rows) * np.finfo(np.float32).max,
    "one far": lambda rows: rows * np.where(np.arange(len(rows)) == 50, 1e20, 1)[:, None],
}


@pytest.mark.parametrize("change", DEGENERATE.values(), ids=DEGENERATE)
@pytest.mark.parametrize("case", CASES[::7], ids=case_name)
def test_finite_rows_give_finite_results(change, case):
    rows, labels = table()
    rows = change(rows).astype(np.float32)
    result = propagate(ArrayRows(rows), labels, N_CLASSES, replace(case, layers=10))
    assert result.prototypes.isfinite().all()
    assert result.logits(torch.from_numpy(rows)).isfinite().all()


def test_rows_too_large_for_float32_products_still_give_the_dense_result():
    rows, labels = table()
    case = Propagation(transform="none", scale=1e-31)
    ours, all_at_once = propagate(ArrayRows(rows * 1e15), labels, N_CLASSES, case), dense(rows * 1e15, labels, case)
    torch.testing.assert_close(ours.prototypes, all_at_once.prototypes[0], rtol=1e-6, atol=1e9)


def test_balance_evens_out_the_masses_of_the_classes():
    """Two overlapping clusters of 150 and 52 rows."""
    random = np.random.default_rng(1)
    rows = np.concatenate([random.normal(0, 1, (150, 4)), random.normal(1.5, 1, (52, 4))]).astype(np.float32)
    labels = np.where(np.arange(202) == 0, 0, np.where(np.arange(202) == 201, 1, -1))
    masses = {}
    for balanced in (False, True):
        case = Propagation(
            transform="none", layers=30, scale=0.3, repulsion="none", similarity="euclidean", balanced=balanced
        )
        logits = propagate(ArrayRows(rows, chunk=50), labels, 2, case).logits(torch.from_numpy(rows[labels < 0]))
        masses[balanced] = 1 + logits.softmax(-1).sum(0)
    assert (masses[True] - 101).abs().max() < 1
    assert (masses[False] - 101).abs().max() > 5


def test_the_first_correction_of_balance_is_the_logarithm_of_the_lacking_mass():
    rows, labels = table()
    flat, biased = (
        propagate(ArrayRows(rows), labels, N_CLASSES, Propagation(layers=1, balanced=balanced))
        for balanced in (False, True)
    )
    attention = flat.logits(torch.from_numpy(rows[labels < 0]), rectified=False).softmax(-1)
    masses = attention.sum(0) + torch.bincount(torch.from_numpy(labels[labels >= 0]))
    assert flat.bias is None
    torch.testing.assert_close(biased.bias, torch.log(20 / masses), rtol=0, atol=1e-5)


@pytest.mark.parametrize("transform", ["none", "power", "l2", "power+l2+centre"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_a_row_that_is_not_finite_is_named(value, transform):
    rows, labels = table()
    rows = rows.astype(np.float64)
    rows[41, 3] = value
    with pytest.raises(DataError, match="row 41 holds a number that is not finite in float32"):
        propagate(ArrayRows(rows, chunk=10), labels, N_CLASSES, Propagation(transform=transform))


class CountedRows(ArrayRows):
    """Remembers how often a pass over the rows began."""

    passes = 0

    def chunks(self, start=0, stop=None):
        self.passes += 1
        return super().chunks(start, stop)


@pytest.mark.parametrize("layers", [0, 1, 5])
def test_a_layer_costs_one_pass_over_the_rows(layers):
    values, labels = table()
    rows = CountedRows(values)
    propagate(rows, labels, N_CLASSES, Propagation(layers=layers))
    assert rows.passes == 1 + layers


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda labels: labels[:-1], r"shape \(59,\) .* for 60 rows"),
        (lambda labels: labels.astype(float), "float64"),
        (lambda labels: np.where(labels == 1, -1, labels), "class 1 has no labelled row"),
        (lambda labels: labels + 1, "from 0 to 3; needed -1 … 2"),
        (lambda labels: labels - 1, "from -2 to 1; needed -1 … 2"),
    ],
)
def test_labels_that_cannot_be_are_refused(change, message):
    rows, labels = table()
    with pytest.raises(DataError, match=message):
        propagate(ArrayRows(rows), change(labels), N_CLASSES)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"transform": "mirror+l2"}, "leave mirror"),
        ({"transform": "sqrt"}, "unknown part 'sqrt'"),
        ({"layers": -1}, "layers is -1"),
        ({"repulsion": "neg"}, "choose from"),
    ],
)
def test_settings_that_mean_nothing_are_refused(setting, message):
    with pytest.raises(ConfigError, match=message):
        Propagation(**setting)


def test_more_layers_than_float64_holds_are_refused():
    rows, labels = table()
    with pytest.raises(ConfigError, match="take fewer layers"):
        propagate(ArrayRows(rows), labels, N_CLASSES, Propagation(layers=1000, residual=True))
