"""The table of thresholds is that of a count by hand."""

from dataclasses import replace

import numpy as np
import pytest

from made_up_labelling import made_up_labelling
from remp.labelling.quality.rejection import Kept, largest_threshold, rejection_table
from remp.report.label.summary import summary


def labelling_of(probabilities, **changes):
    """The unlabelled items have these probabilities, in turn."""
    made = made_up_labelling(("cat", "dog"), 20)
    status = np.where(made.task.is_labelled, 0, 1).astype(np.int8)
    values = np.where(made.task.is_labelled, 1.0, np.resize(probabilities, len(status)))
    return replace(made, probability=values, status=status, **changes)


def test_a_line_says_how_many_stay_and_how_many_of_them_are_right():
    labelling = labelling_of([0.97])
    n = int((~labelling.task.is_labelled).sum())
    lines = rejection_table(labelling)
    assert lines[0] == pytest.approx(Kept(0.0, n, 0.97))
    assert [line.threshold for line in lines] == [0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99]
    assert lines[-2].n == n
    assert lines[-1] == Kept(0.99, 0, 0.0)


def test_thresholds_after_the_first_that_leaves_nothing_are_not_told():
    assert [line.threshold for line in rejection_table(labelling_of([0.65]))] == [0, 0.5, 0.6, 0.7]


def test_a_threshold_that_leaves_nothing_says_which_one_would_leave_something():
    labelling = labelling_of([0.876], reject=0.9)
    assert largest_threshold(labelling) == 0.87
    rejected = replace(labelling, status=np.where(labelling.task.is_labelled, 0, 2).astype(np.int8))
    assert "--reject 0.9 leaves no label; 0.87 leaves some." in summary(rejected)
    assert "threshold   labelled   right, by estimate" in summary(labelling)
    assert "threshold" not in summary(replace(labelling, reject=None))
