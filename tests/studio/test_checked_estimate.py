"""The estimate when a person chose what to label: by what was said of pictures before they were named."""

from dataclasses import fields

import numpy as np
import pytest

from remp.labelling.outcome import AccuracyEstimate, Advice, Labelling
from remp.studio.checked_estimate import Check, checks_of, judge
from remp.studio.collection import Labels, Prediction
from remp.studio.proposals import CHECK, drawn_at_random
from remp.studio.state import NONE, StudioClass
from studio_cases import numbers_of, session_of, started, write_collection

N = 400


def predicted(probability: np.ndarray, labels: np.ndarray) -> Prediction:
    """Everything is said to be of class 0."""
    estimate = AccuracyEstimate(0.9, 0.8, 0.95, 0.9, "hidden labels")
    nothing = dict.fromkeys(field.name for field in fields(Labelling))
    labelling = Labelling(**nothing | {"estimate": estimate, "no_estimate": ""})
    zeros = np.zeros(len(labels), np.int64)
    return Prediction(zeros, zeros - 1, probability, probability, zeros, labelling, np.array([0]))


def said_and_true(share: float, n_checks: int, bulk: int = 40):
    """Checks of which a share is right, although 0.9 was said of each."""
    labels = np.full(N, NONE)
    labels[: n_checks + bulk] = 0
    labels[: round((1 - share) * n_checks)] = 1
    checks = [Check(item, 0, 0.9, True) for item in range(n_checks)]
    return predicted(np.full(N, 0.9), labels), labels, np.full(N, NONE), checks


@pytest.mark.parametrize("share", [0.5, 0.7, 0.9])
def test_many_checks_bring_the_estimate_to_what_they_show(share):
    estimate = judge(*said_and_true(share, 300)).prediction.labelling.estimate
    assert estimate.low < share < estimate.high
    assert estimate.accuracy == pytest.approx(share, abs=0.08)


def test_the_interval_gets_narrower_with_checks_and_is_not_stated_before_there_are_any():
    none, few, many = (judge(*said_and_true(0.8, n)).prediction.labelling for n in (0, 24, 200))
    assert few.estimate.high - few.estimate.low > many.estimate.high - many.estimate.low
    assert none.estimate is None
    assert "no picture of Next was named yet" in none.no_estimate
    wide = judge(*said_and_true(0.8, 4)).prediction.labelling
    assert wide.estimate is None
    assert "it may be anything from" in wide.no_estimate


def test_without_a_label_from_the_page_the_estimate_is_that_of_remp_label():
    labels = np.where(np.arange(N) < 20, 0, NONE)
    prediction = predicted(np.full(N, 0.9), labels)
    assert judge(prediction, labels, labels, []).prediction is prediction


def test_what_lost_its_label_is_no_check_any_more():
    prediction, labels, before, checks = said_and_true(0.5, 100)
    labels[:100] = NONE
    with_none = judge(prediction, labels, before, [])
    assert judge(prediction, labels, before, checks).move == with_none.move


def test_the_random_ones_are_a_fixed_sample_of_what_has_no_label():
    labels = np.where(np.arange(N) % 2, NONE, 0)
    given = Labels(labels, {0: StudioClass("cat", "#000000")})
    prediction = predicted(np.full(N, 0.9), labels)
    first = drawn_at_random(prediction, given, 6)
    assert [one.item for one in first] == [one.item for one in drawn_at_random(prediction, given, 12)[:6]]
    assert all(labels[one.item] == NONE and one.reason == f"probably cat; {CHECK}" for one in first)
    assert [one.is_random for one in checks_of(prediction, [*first, Advice(1, "x; y")])] == [
        *[True] * 6,
        False,
    ]


def test_only_what_is_named_in_next_is_a_check_and_it_is_there_again_after_a_restart(tmp_path):
    folder = write_collection(tmp_path / "photos")
    session = started(folder)
    for colour in ("red", "blue"):
        session.act({"do": "label", "items": numbers_of(session, colour)[:4], "class": colour, "view": "groups"})
    proposed = [one.item for one in session.wait().label_next]
    session.act({"do": "label", "items": proposed[:1], "class": "green", "view": "class"})
    assert not session.checks
    session.wait()
    session.act({"do": "label", "items": proposed[1:3], "class": "green", "view": "next"})
    assert set(session.checks) == set(proposed[1:3])
    assert session.wait().prediction is not None
    (folder / "aardvark").mkdir()  # the first class by name, so that the others get other numbers
    (folder / session.task.names[0]).rename(folder / "aardvark" / "000.png")
    assert named(session_of(folder)) == named(session)


def named(session):
    """The checks of a session by names."""
    classes = {number: one.name for number, one in session.state.classes.items()}
    return {
        session.task.names[item]: (classes[one.predicted], round(one.probability, 4), one.is_random)
        for item, one in session.checks.items()
    }


def test_a_batch_stays_until_most_of_it_is_done(tmp_path):
    session = started(write_collection(tmp_path / "photos", 16))
    for colour in ("red", "blue"):
        session.act({"do": "label", "items": numbers_of(session, colour)[:4], "class": colour, "view": "groups"})
    first = session.wait().label_next
    session.act({"do": "label", "items": [one.item for one in first[:2]], "class": "red", "view": "next"})
    assert session.wait().label_next == first
    session.act({"do": "label", "items": [one.item for one in first], "class": "red", "view": "next"})
    assert not {one.item for one in session.wait().label_next} & {one.item for one in first}
