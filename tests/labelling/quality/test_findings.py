"""What the user is told to look at: wrong labels, duplicates, thin and similar classes."""

import numpy as np
import pytest
import torch

from clustered_rows import clustered_task
from remp.labelling.pipeline import label_rows
from remp.labelling.quality.duplicates import confirmed_groups, duplicates
from remp.labelling.quality.findings import (
    easy_examples,
    guessed_labels,
    similar_classes,
    similar_names,
    single_examples,
    unrecognised_classes,
    wrong_probabilities,
)
from remp.labelling.tasks import Items
from remp.propagation.held_out import HeldOut
from remp.rows import ArrayRows


def of_kind(labelling, kind):
    return [finding for finding in labelling.findings if finding.kind == kind]


def small_task(labels, classes=("cat", "dog")):
    return Items(tuple(f"{number}.png" for number in range(len(labels))), np.array(labels), classes)


@pytest.mark.parametrize("seed", range(3))
def test_a_wrong_label_is_found_and_right_ones_are_left_alone(seed):
    task, rows, _ = clustered_task(seed, n_shot=6, noise=0.5)
    task.labels[2] = 3  # an item of class 0
    (finding,) = of_kind(label_rows(task, ArrayRows(rows)), "suspicious label")
    assert (finding.items, finding.classes) == ((2,), ("class 0",))
    assert finding.text.startswith("item 2 is labelled 'class 3', but without that label it would be 'class 0' (")


def test_right_labels_of_a_hard_task_are_seldom_suspected():
    counts = [
        len(of_kind(label_rows(task, ArrayRows(rows)), "suspicious label"))
        for task, rows, _ in (clustered_task(seed, n_shot=5, noise=2.0) for seed in range(10))
    ]
    assert sum(counts) <= 4  # of 200 labels


def test_how_probably_a_label_is_wrong_is_bayes_rule_written_out():
    random = np.random.default_rng(0)
    probabilities, labels = random.dirichlet([0.3] * 4, 12), random.integers(0, 4, 12)
    shares = [0.005, 0.02, 0.05, 0.08, 0.12, 0.16, 0.2]
    weights = []
    for share in shares:
        weights.append(1.0)
        for row, label in zip(probabilities, labels, strict=True):
            weights[-1] *= (1 - share) * row[label] + share / 4
    share = sum(a * b for a, b in zip(weights, shares, strict=True)) / sum(weights)
    for row, label, found in zip(probabilities, labels, wrong_probabilities(probabilities, labels), strict=True):
        by_bayes = share / 4 / (share / 4 + (1 - share) * row[label])
        assert found == pytest.approx(0.0 if row.argmax() == label else by_bayes)


def test_a_label_is_suspected_sooner_where_many_are_not_predicted():
    sure, unsure = [0.96, 0.04], [0.04, 0.96]
    few, many = (np.array([sure] * (100 - n) + [unsure] * n) for n in (1, 12))
    of_few, of_many = (wrong_probabilities(one, np.zeros(100, int)) for one in (few, many))
    assert of_few[0] == of_many[0] == 0
    assert 0.05 < of_few[-1] < 0.25 < 0.5 < of_many[-1]


def test_labels_of_typical_items_are_told_and_those_of_any_items_are_not():
    random = np.random.default_rng(0)
    others, typical = random.normal(size=500), random.normal(size=60) + 0.8

    def held_out(resemblance):
        empty = torch.zeros(60, 2)
        return HeldOut(np.arange(60), np.zeros(60, int), empty, empty, empty, resemblance, empty)

    (finding,) = easy_examples(held_out(typical), others)
    above = np.mean(typical[:, None] > others)
    assert finding.text.startswith(f"a labelled item resembles its class more than {above:.0%} of the others do")
    assert easy_examples(held_out(others[:60]), others[60:]) == []


def test_a_rare_class_that_is_not_recognised_is_told_instead_of_its_labels():
    random = np.random.default_rng(0)
    rows = random.random((160, 40)).astype(np.float32)
    rows[50:52] += 0.05 * np.arange(40) / 40  # hardly different from the fifty before it
    task = small_task([0] * 50 + [1] * 2 + [-1] * 108, ("common", "rare"))
    labelling = label_rows(task, ArrayRows(rows))
    assert of_kind(labelling, "suspicious label") == []
    (finding,) = of_kind(labelling, "unrecognised class")
    assert (finding.items, finding.classes) == ((50, 51), ("rare",))
    assert finding.text.startswith("class 'rare' is not recognised: none of its 2 labelled items would get its label")


def hidden(n_right, n_hidden, n_classes):
    """Held-out labels, so many of which are predicted."""
    labels = np.arange(n_hidden) % n_classes
    answers = np.where(np.arange(n_hidden) < n_right, labels, (labels + 1) % n_classes)
    empty = torch.empty(n_hidden, 0)
    return HeldOut(np.arange(n_hidden), labels, torch.eye(n_classes)[answers], empty, empty, np.zeros(n_hidden), empty)


@pytest.mark.parametrize(
    ("n_hidden", "n_classes", "least"),
    # the fewest that a fair coin hits in less than 15 % of tries: 8 of 10 (5.5 %; 7: 17 %), 13 of 20 (13 %; 12: 25 %)
    [(10, 2, 8), (20, 2, 13)],
)
def test_labels_that_are_hardly_predicted_better_than_by_guessing_are_told(n_hidden, n_classes, least):
    assert guessed_labels(hidden(least, n_hidden, n_classes)) == []
    (finding,) = guessed_labels(hidden(least - 1, n_hidden, n_classes))
    assert finding.text.startswith(f"{least - 1} of {n_hidden} labels were predicted while they were hidden, and guess")
    assert len(guessed_labels(hidden(0, n_hidden, n_classes))) == 1
    assert guessed_labels(hidden(0, 6, n_classes)) == []  # too few to tell


def test_of_clusters_that_have_nothing_to_do_with_the_labels_nothing_is_suspected_and_no_high_accuracy_stated():
    random = np.random.default_rng(2)
    clusters, classes = random.integers(0, 10, 600), random.permutation(np.arange(600) % 10)
    rows = np.maximum(random.normal(size=(10, 64))[clusters] + random.normal(size=(600, 64)), 0).astype(np.float32)
    given = np.where(np.arange(600) < 80, classes, -1)
    labelling = label_rows(small_task(given, tuple("abcdefghij")), ArrayRows(rows))
    assert [one.kind for one in labelling.findings if one.kind != "similar classes"] == ["hardly better than guessing"]
    assert labelling.probability[given < 0].mean() < 0.3  # a tenth is right
    assert labelling.estimate is None or labelling.estimate.low < 0.1 < labelling.estimate.high < 0.6


def test_classes_that_are_not_recognised_are_one_finding():
    scores = torch.tensor([[1.0, 0, 0], [1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0]])
    empty = torch.empty(5, 0)
    held_out = HeldOut(np.arange(1, 6), np.array([0, 1, 1, 2, 2]), scores, empty, empty, np.zeros(5), empty)
    (finding,) = unrecognised_classes(small_task([-1, 0, 1, 1, 2, 2], ("cat", "dog", "elk")), held_out)
    assert (finding.items, finding.classes) == ((2, 3, 4, 5), ("dog", "elk"))
    assert finding.text.startswith("2 classes ('dog', 'elk') are not recognised: none of their 4 labelled items would")


def test_the_same_file_with_two_labels_comes_first():
    task = small_task([-1, -1, 0, 1, -1])
    first, second = duplicates(task, np.array(["a", "a", "b", "b", "c"]), None)
    assert first.text == "2.png, 3.png are the same file, but are labelled cat, dog"
    assert (first.items, first.classes) == ((2, 3), ("cat", "dog"))
    assert second.text == "0.png, 1.png are the same file"
    assert (second.items, second.classes) == ((0, 1), ())
    assert {first.kind, second.kind} == {"exact duplicates"}


def test_pictures_that_look_the_same_are_named_once():
    task, picture = small_task([0, 1, -1, -1]), 0x1234_5678_9ABC_DEF0
    pictures = np.array([picture, picture ^ 1, picture ^ (2**63 - 1), picture ^ (2**63 - 1)], dtype=np.uint64)
    (near, *_) = duplicates(task, None, pictures)
    assert near.kind == "near duplicates"
    assert near.text == "0.png, 1.png look the same, but are labelled cat, dog"
    exact, near = duplicates(task, np.array([1, 2, 3, 3]), pictures)
    assert exact.items == (2, 3)
    assert near.items == (0, 1)


def test_many_groups_are_summed_up():
    task = small_task([-1] * 60)
    found = duplicates(task, np.repeat(np.arange(30), 2), None)
    assert len(found) == 21
    assert found[-1].text == "10 more groups of items, 20 in all, are the same file"
    assert len(found[-1].items) == 20
    one_more = duplicates(task, np.minimum(np.repeat(np.arange(30), 2), 20), None)
    assert one_more[-1].text == "1 more group of items, 20 in all, are the same file"


def test_classes_with_one_label_are_named():
    (finding,) = single_examples(small_task([0, 1, 1, -1]))
    assert finding.text.startswith("class 'cat' has one labelled item")
    assert finding.items == (0,)
    (finding,) = single_examples(small_task([1, 0, -1]))
    assert finding.text.startswith("2 classes ('cat', 'dog') have one labelled item")
    assert finding.items == (0, 1)
    assert single_examples(small_task([0, 0, 1, 1])) == []


@pytest.mark.parametrize(
    ("names", "pairs"),
    [
        (("cat", "dog", "Cat"), [("cat", "Cat")]),
        (("big-cat", "Big cat", "big_cat", "bigcats"), [("big-cat", "Big cat", "big_cat")]),
        (("Ärger", "A\u0308rger", "arger"), [("Ärger", "A\u0308rger")]),  # one letter, or a letter and its dots
        (("+", "-", "1", "-1", "1.5", "15", "c", "c++"), []),
        (("cat ", "cat"), [("cat ", "cat")]),
    ],
)
def test_two_spellings_of_a_class_are_told(names, pairs):
    found = similar_names(small_task([0], names))
    assert [one.classes for one in found] == pairs
    assert all(one.kind == "similar classes" and "read alike" in one.text for one in found)


def test_classes_that_are_mixed_up_are_named_with_the_expected_number():
    confusion = np.array([[30.0, 10.0, 0.0], [6.0, 34.0, 0.0], [1.0, 0.0, 39.0]])
    (finding,) = similar_classes(small_task([0, 1, 2], ("cat", "dog", "cow")), confusion)
    assert finding.text.startswith("'cat' and 'dog' look alike: about 16 of their 80 items")
    assert finding.classes == ("cat", "dog")


def test_classes_with_the_same_centre_look_alike():
    task, rows, truth = clustered_task(n_classes=3, n_shot=5, n_unlabelled=40, noise=0.5)
    apart = rows[truth == 0].mean(0) - rows[truth == 1].mean(0)
    rows[truth == 1] += apart.astype(np.float32)
    (finding,) = of_kind(label_rows(task, ArrayRows(rows)), "similar classes")
    assert "'class 0' and 'class 1' look alike" in finding.text


def test_near_hashes_of_pictures_whose_features_differ_are_no_duplicates():
    random = np.random.default_rng(0)
    rows = torch.from_numpy(random.normal(size=(100, 64)))
    rows[1] = rows[0] + 0.05 * torch.from_numpy(random.normal(size=64))
    groups = confirmed_groups([np.array([0, 1, 5]), np.array([7, 8])], lambda items: rows[items], np.arange(2, 100))
    assert [group.tolist() for group in groups] == [[0, 1]]
    task, picture = small_task([0, 1, -1]), 0x1234_5678_9ABC_DEF0
    pictures = np.array([picture, picture ^ 1, picture ^ 3], dtype=np.uint64)
    (found,) = duplicates(task, None, pictures, lambda items: torch.eye(3)[np.minimum(items, 1)])
    assert found.items == (1, 2)
