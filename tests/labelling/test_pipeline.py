"""From features to the outcome: what it promises, in ordinary and in odd tasks."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from clustered_rows import clustered_task
from remp.errors import ConfigError, DataError
from remp.labelling import pipeline
from remp.labelling.outcome import STATUSES
from remp.labelling.pipeline import LabelOptions, label_rows
from remp.labelling.tasks import Items
from remp.propagation.adaptive import Adaptive
from remp.propagation.fit import Learned, fit_rows
from remp.rectification import Rectification
from remp.rectification.propagate import Propagation
from remp.rows import ArrayRows

GIVEN, LABELLED, UNCERTAIN, UNKNOWN = range(4)
ARRAYS = ["labels", "best", "runner_up", "probability", "margin", "status", "before", "confusion", "expected_sizes"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reject": "0.9"}, "reject is '0.9'; needed a probability"),
        ({"n_next": 2.5}, "n_next is 2.5; needed a whole number"),
        ({"class_folders": "move"}, "class_folders is 'move'; choose from: copy, link"),
        ({"class_folders": True}, "class_folders is True; choose from: copy, link"),
        ({"unknown": "no"}, "unknown is 'no'; needed True or False"),
        ({"backbone": None}, "backbone is None; needed the name of one"),
        ({"propagation": Rectification()}, r"propagation is Rectification\(.*; needed remp.Adaptive\(\) or"),
    ],
    ids=str,
)
def test_options_of_the_wrong_kind_are_refused_before_the_work(options, message):
    with pytest.raises(ConfigError, match=message):
        LabelOptions(**options)


def test_layers_are_a_whole_number():
    for layers in (2.5, "3", -1):
        with pytest.raises(ConfigError, match=f"layers is {layers!r}; needed a whole number"):
            Adaptive(layers=layers)


def test_settings_of_the_rule_are_of_their_kind():
    with pytest.raises(ConfigError, match="balanced is 'no'; needed True or False"):
        Adaptive(balanced="no")
    for rule in (Adaptive, Propagation):
        with pytest.raises(ConfigError, match="transform is None; needed parts of 'power"):
            rule(transform=None)
    assert Adaptive(balanced=np.bool_(True)).balanced


def task_of(labels, n_classes=2):
    names = tuple(map(str, range(len(labels))))
    return Items(names, np.array(labels), tuple(f"class {number}" for number in range(n_classes)))


def check_sensible(labelling):
    """What holds for every outcome."""
    task, n, n_classes = labelling.task, len(labelling.task.names), len(labelling.task.class_names)
    for name in ARRAYS:
        assert np.isfinite(getattr(labelling, name)).all(), name
    assert np.array_equal(labelling.labels[task.is_labelled], task.labels[task.is_labelled])
    assert np.array_equal(labelling.status == GIVEN, task.is_labelled)
    assert np.array_equal(labelling.labels == -1, labelling.status >= UNCERTAIN)
    assert ((labelling.probability >= 1 / n_classes - 1e-6) & (labelling.probability <= 1)).all()
    assert ((labelling.margin >= 0) & (labelling.margin <= labelling.probability)).all()
    assert (labelling.best != labelling.runner_up).all()
    assert labelling.expected_sizes.sum() == pytest.approx(n - task.is_labelled.sum())
    assert np.isfinite(labelling.sample_features).all()
    assert np.isfinite(labelling.prototypes).all()
    items = [one.item for one in labelling.label_next]
    assert len(set(items)) == len(items)
    assert not task.is_labelled[items].any()
    if labelling.estimate:
        assert 0 <= labelling.estimate.low <= labelling.estimate.accuracy <= labelling.estimate.high <= 1


def test_probabilities_and_confusion_are_those_of_a_loop_over_items():
    task, rows, _ = clustered_task(noise=1.5)
    labelling = label_rows(task, ArrayRows(rows, chunk=7))
    check_sensible(labelling)
    probabilities = fit_rows(ArrayRows(rows), task.labels, 4).probabilities(torch.from_numpy(rows)).numpy()
    confusion = np.zeros((4, 4))
    for item in np.flatnonzero(~task.is_labelled):
        second, first = np.argsort(probabilities[item])[-2:]
        assert (labelling.best[item], labelling.runner_up[item]) == (first, second)
        assert labelling.probability[item] == pytest.approx(probabilities[item, first], abs=1e-5)
        assert labelling.margin[item] == pytest.approx(np.diff(probabilities[item, [second, first]])[0], abs=1e-5)
        confusion[:, first] += probabilities[item]
    np.testing.assert_allclose(labelling.confusion, confusion, atol=1e-4)


def test_the_same_task_gives_the_same_outcome_whatever_the_chunks():
    task, rows, _ = clustered_task(noise=1.5)
    one, other = (label_rows(task, ArrayRows(rows, chunk=chunk), LabelOptions(reject=0.6)) for chunk in (1000, 11))
    for name in ARRAYS:
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-4, err_msg=name)
    assert one.findings == other.findings
    assert one.label_next == other.label_next


def test_a_given_label_stays_with_probability_one():
    task, rows, _ = clustered_task(noise=3.0)
    labelling = label_rows(task, ArrayRows(rows))
    given = task.is_labelled
    assert np.array_equal(labelling.best[given], task.labels[given])
    assert (labelling.probability[given] == 1).all()
    assert (labelling.runner_up[given] >= 0).all()


def test_reject_leaves_the_uncertain_unlabelled():
    task, rows, truth = clustered_task(noise=2.8, n_unlabelled=60, n_shot=5)
    labelling = label_rows(task, ArrayRows(rows), LabelOptions(reject=0.9, unknown=False))
    assert np.array_equal(labelling.status == UNCERTAIN, ~task.is_labelled & (labelling.probability < 0.9))
    kept, left = labelling.status == LABELLED, labelling.status == UNCERTAIN
    assert (labelling.labels == truth)[kept].mean() > (labelling.best == truth)[left].mean() + 0.05


def test_reject_must_be_a_probability():
    task, rows, _ = clustered_task()
    with pytest.raises(ConfigError, match="reject is 90"):
        label_rows(task, ArrayRows(rows), LabelOptions(reject=90))


ODD = {
    "one class": ([0, 0, -1, -1], 1),
    "no unlabelled item": ([0, 0, 1, 1], 2),
    "one label each": ([0, 1, -1, -1], 2),
    "one unlabelled item": ([0, 0, 1, 1, -1], 2),
    "as many classes as items": ([0, 1, 2, 3, -1], 4),
    "nothing but single labels": ([0, 1, 2], 3),
    "one item": ([0], 1),
}


@pytest.mark.parametrize("same", [False, True], ids=["different rows", "identical rows"])
@pytest.mark.parametrize("odd", ODD)
def test_odd_tasks_have_finite_and_sensible_outcomes(odd, same):
    labels, n_classes = ODD[odd]
    rows = np.random.default_rng(0).normal(size=(len(labels), 5)).astype(np.float32)
    rows = np.ones_like(rows) if same else rows
    labelling = label_rows(task_of(labels, n_classes), ArrayRows(rows), LabelOptions(reject=0.5))
    if n_classes == 1:
        assert (labelling.runner_up == -1).all()
        assert (labelling.best == 0).all()
    check_sensible(labelling)
    if -1 not in labels or n_classes == 1:
        assert labelling.estimate is None
    if -1 in labels:
        assert (labelling.estimate is None) == (labelling.no_estimate != "")
    else:
        assert labelling.no_estimate == ""


@pytest.mark.parametrize("value", [0.0, 1e-20, 1e20])
def test_rows_of_any_size_have_finite_outcomes(value):
    task, rows, _ = clustered_task()
    check_sensible(label_rows(task, ArrayRows(value * rows)))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_row_that_a_saved_model_cannot_compare_is_named(value):
    task, rows, _ = clustered_task()
    fitted = fit_rows(ArrayRows(rows), task.labels, 4)
    model = Learned.of(fitted, ArrayRows(rows), task.labels, task.class_names)
    new = replace(task, labels=np.full(len(rows), -1))
    rows[41, 5] = value
    for chunk in (7, None):
        with pytest.raises(DataError, match="row 41 holds a number that is not finite"):
            label_rows(new, ArrayRows(rows, chunk=chunk), model=model)
        with pytest.raises(DataError, match="row 41 holds a number that is not finite"):
            model.with_rows(ArrayRows(rows, chunk=chunk))


def test_all_classes_of_a_saved_model_count_in_what_to_label_next(monkeypatch):
    """Its examples come class by class: the first of them are all of one class."""
    monkeypatch.setattr(pipeline, "_MOST_LABELLED", 8)
    task, rows, _ = clustered_task(n_shot=20)
    model = Learned.of(fit_rows(ArrayRows(rows), task.labels, 4), ArrayRows(rows), task.labels, task.class_names)
    seen = []
    monkeypatch.setattr(pipeline, "advise", lambda *given: seen.append(given[3]) or ())
    label_rows(replace(task, labels=np.full(len(rows), -1)), ArrayRows(rows), model=model)
    features = model.fitted.model.features(torch.from_numpy(model.examples))
    places = [int((features == row).all(1).nonzero()[0]) for row in seen[0]]
    assert len(places) == 8
    assert len(set(model.labels[places])) > 2


def test_large_parts_are_sampled(monkeypatch):
    from remp.labelling.quality import label_next

    monkeypatch.setattr(pipeline, "_MAPPED", 10)
    monkeypatch.setattr(pipeline, "MOST_CANDIDATES", 15)
    assert label_next.MOST_CANDIDATES <= 5000  # a table of that side is made
    task, rows, _ = clustered_task()
    labelling = label_rows(task, ArrayRows(rows))
    assert len(labelling.sample) == 20 == len(labelling.sample_features)
    check_sensible(labelling)


TWO = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from clustered_rows import clustered_task
from remp.labelling.pipeline import LabelOptions, label_rows
from remp.rows import ArrayRows
from remp.rows.sharding import current_shard

task, rows, _ = clustered_task(noise=4.0)
shard = current_shard()
labelling = label_rows(task, ArrayRows(rows), LabelOptions(reject=0.6), shard=shard)
assert (labelling is None) == (shard.rank > 0)
if labelling:
    np.savez(sys.argv[2], **{name: getattr(labelling, name) for name in sys.argv[3:]})
"""


@pytest.mark.slow
def test_two_processes_give_the_outcome_of_one(tmp_path, request):
    (tmp_path / "two.py").write_text(TWO)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    tests = request.config.rootpath / "tests"
    command = [*launcher, tmp_path / "two.py", tests, tmp_path / "two.npz", *ARRAYS]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert finished.returncode == 0, finished.stderr
    task, rows, _ = clustered_task(noise=4.0)
    one, two = label_rows(task, ArrayRows(rows), LabelOptions(reject=0.6)), np.load(tmp_path / "two.npz")
    for name in ARRAYS:
        np.testing.assert_allclose(two[name], getattr(one, name), atol=1e-5, err_msg=name)
    assert STATUSES.index("uncertain") in two["status"]


def test_an_interval_that_says_nothing_is_no_number_but_a_reason():
    task, rows, _ = clustered_task(n_shot=2, noise=3.0)
    labelling = label_rows(task, ArrayRows(rows))
    assert labelling.estimate is None
    assert "it may be anything from" in labelling.no_estimate
    easy, rows, _ = clustered_task(n_shot=5, noise=0.3)
    assert label_rows(easy, ArrayRows(rows)).no_estimate == ""
