"""The items to label next represent many uncertain ones."""

import numpy as np
import pytest
import torch

from clustered_rows import clustered_task
from remp.labelling.pipeline import LabelOptions, label_rows
from remp.labelling.quality.label_next import advise, choose_next
from remp.rows import ArrayRows


def naive_choice(features, margins, labelled, n_next):
    """The same greedy choice by loops over pairs."""
    near = lambda a, b: max(0.0, a @ b / np.linalg.norm(a) / np.linalg.norm(b))  # noqa: E731
    chosen = []
    for _ in range(n_next):
        values = {}
        for candidate in set(range(len(features))) - set(chosen):
            speakers = [*labelled, *features[[*chosen, candidate]]]
            best = [max(near(item, other) for other in speakers) for item in features]
            values[candidate] = sum((1 - margin) * value for margin, value in zip(margins, best, strict=True))
        chosen.append(max(sorted(values), key=values.get))
    return chosen


@pytest.mark.parametrize("seed", range(4))
def test_the_choice_is_that_of_loops_over_pairs(seed):
    random = np.random.default_rng(seed)
    features, labelled, margins = random.normal(size=(12, 3)), random.normal(size=(2, 3)), random.random(12)
    chosen = choose_next(torch.from_numpy(features), torch.from_numpy(margins), torch.from_numpy(labelled), 4)
    assert list(chosen) == naive_choice(features, margins, labelled, 4)


def test_the_middle_of_an_uncertain_crowd_without_a_label_comes_first():
    crowd = torch.tensor([[1.0, 0.2], [1.0, 0.0], [1.0, -0.2], [0.0, 1.0], [-1.0, 0.0]])
    margins = torch.tensor([0.1, 0.1, 0.1, 0.9, 0.1])
    assert choose_next(crowd, margins, torch.tensor([[-1.0, 0.1]]), 1) == {1: 2}


def test_reasons_are_for_people():
    features = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0], [-1.0, -1.0]])
    names = [("cat", "dog")] * 4 + [("cow", None)]
    advice = advise(np.arange(5) + 10, features, np.array([0.0, 0.9, 0.9, 0.8, 0.2]), features[:0], names, 5)
    reasons = {one.item: one.reason for one in advice}
    assert reasons[11] == "probably cat; nearer to 3 others than any labelled item"
    assert reasons[13] == "probably cat; nearer to 1 other than any labelled item"
    assert reasons[10] == "between cat and dog; unlike any other unlabelled item"
    assert reasons[14] == "probably cow; unlike any other unlabelled item"


def test_there_is_as_much_advice_as_there_are_items():
    task, rows, _ = clustered_task(n_unlabelled=1)
    items = [one.item for one in label_rows(task, ArrayRows(rows), LabelOptions(unknown=False, n_next=10)).label_next]
    assert sorted(items) == list(np.flatnonzero(~task.is_labelled))
    assert label_rows(task, ArrayRows(rows), LabelOptions(n_next=0)).label_next == ()
