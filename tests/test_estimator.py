"""ReMPClassifier keeps the contract of scikit-learn, labels rows of any kind and size, and agrees with plain loops."""

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.utils.estimator_checks import check_classifiers_classes, parametrize_with_checks

from naive_remp import naive_attention, naive_prototypes
from remp import Rectification, ReMPClassifier
from remp.errors import ConfigError


def test_score_of_unequal_lengths_says_so():
    model = ReMPClassifier().fit([[1.0, 0.1], [0.1, 1.0], [0.9, 0.2]], [0, 1, -1])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.score([[1.0, 0.0]], [0, 1])


EXCEPTIONS = {
    "check_classifiers_classes": "its last case has a class called -1, which here means no label; scikit-learn exempts "
    "its own semi-supervised classifiers by their names"
}
PLAIN = {
    "rule": "paper",
    "feature_transform": "none",
    "repulsion": "none",
    "similarity": "euclidean",
    "scale": 0.5,
    "tolerance": 1.0,
}


def two_heaps(n: int = 60, dim: int = 8, n_labels: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows (n, dim), labels with -1 for all but a few, and the truth."""
    random = np.random.default_rng(seed)
    truth = np.arange(n) % 2
    X = random.normal(size=(2, dim))[truth] * 2 + random.normal(size=(n, dim))
    return X, np.where(np.arange(n) < 2 * n_labels, truth, -1), truth


@parametrize_with_checks([ReMPClassifier()], expected_failed_checks=lambda _: EXCEPTIONS)
def test_it_passes_a_check_of_scikit_learn(estimator, check):
    check(estimator)


def test_the_excepted_check_passes_as_it_does_for_the_semi_supervised_classifiers_of_scikit_learn():
    check_classifiers_classes("LabelSpreading", ReMPClassifier())


def test_the_rest_is_labelled_and_given_labels_stay_even_wrong_ones():
    X, y, truth = two_heaps(n_labels=6)
    y[0] = 1 - y[0]
    fitted = ReMPClassifier().fit(X, y)
    assert (fitted.transduction_ == truth)[12:].mean() > 0.9
    np.testing.assert_array_equal(fitted.transduction_[:12], y[:12])
    np.testing.assert_array_equal(fitted.label_distributions_[:12], np.eye(2)[y[:12]])
    np.testing.assert_array_equal(fitted.predict(X)[12:], fitted.transduction_[12:])
    np.testing.assert_allclose(fitted.predict_proba(X)[12:], fitted.label_distributions_[12:], atol=1e-6)


@pytest.mark.parametrize(("repulsion", "label_share"), [("none", 0.0), ("zero", 0.5), ("negative", 0.9)])
def test_the_prototypes_are_those_of_the_papers_loop(repulsion, label_share):
    X, y, _ = two_heaps(n=20, dim=3)
    switches = Rectification(layers=4, repulsion=repulsion, scale=0.5, residual=False, label_share=label_share)
    prototypes = naive_prototypes(X[:6], y[:6], 2)
    for layer in range(4):
        attention = naive_attention(prototypes, y[:6], X[6:], 1.5 / (2 * (4 - layer)), switches)
        prototypes = attention @ X
    fitted = ReMPClassifier(**{**PLAIN, "repulsion": repulsion, "layers": 4, "label_share": label_share}).fit(X, y)
    np.testing.assert_allclose(fitted.prototypes_, prototypes, rtol=1e-5)


def test_without_unlabelled_rows_it_is_the_nearest_class_mean():
    X, _, truth = two_heaps()
    fitted = ReMPClassifier(**PLAIN).fit(X, truth)
    means = np.stack([X[truth == 0].mean(0), X[truth == 1].mean(0)])
    nearest = np.square(X[:, None] - means).sum(-1).argmin(1)
    np.testing.assert_array_equal(fitted.predict(X), nearest)


def test_separate_unlabelled_rows_are_as_good_as_rows_with_a_missing_label():
    X, y, _ = two_heaps()
    together = ReMPClassifier().fit(X, y)
    apart = ReMPClassifier().fit(X[:6], y[:6], X[6:])
    np.testing.assert_array_equal(apart.label_distributions_, together.label_distributions_)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_memory_map_is_read_in_pieces_with_the_same_result(dtype, tmp_path):
    X, y, _ = two_heaps(n=2500, dim=800)  # two pieces
    on_disk = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", dtype, X.shape)
    on_disk[:] = X
    classifier = ReMPClassifier(layers=2, tolerance=1)
    mapped = clone(classifier).fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
    dense = clone(classifier).fit(np.array(on_disk), y)
    np.testing.assert_array_equal(mapped.label_distributions_, dense.label_distributions_)
    assert mapped.label_distributions_.dtype == np.float32


def missing_labels() -> dict[str, object]:
    """The same six labels in many forms, three of them missing."""
    import pandas
    import polars

    words = ["cat", "dog", None, "cat", None, None]
    return {
        "None": np.array(words, dtype=object),
        "NaN": np.array([word or np.nan for word in words], dtype=object),
        "empty": np.array([word or "" for word in words]),
        "array with -1": np.array([word or "-1" for word in words]),
        "list": [word or "" for word in words],
        "list with NaN": [word or np.nan for word in words],
        "list with -1": [word or -1 for word in words],
        "list with all of them": ["cat", "dog", None, "cat", "", -1],
        "strings of two kinds": [np.str_("cat"), "dog", None, "cat", None, None],
        "pandas": pandas.Series(words),
        "pandas NA": pandas.Series(words, dtype="string"),
        "pandas category": pandas.Series(words, dtype="category"),
        "polars": polars.Series(words),
    }


@pytest.mark.parametrize("form", list(missing_labels()))
def test_string_labels_may_miss_in_any_form(form):
    X, _, _ = two_heaps(n=6)
    fitted = ReMPClassifier(layers=1, tolerance=9).fit(X, missing_labels()[form])
    assert list(fitted.classes_) == ["cat", "dog"]
    assert list(fitted.transduction_[[0, 1, 3]]) == ["cat", "dog", "cat"]
    assert set(fitted.predict(X)) <= {"cat", "dog"}


@pytest.mark.parametrize("y", [[3, 7, -1, -1], [3.0, 7.0, np.nan, -1.0], [3, 7, None, None], [3, 7, "", ""]], ids=str)
def test_number_labels_may_miss_in_any_form(y):
    fitted = ReMPClassifier(layers=1, tolerance=9).fit([[0.0, 1], [1, 0], [0.1, 0.9], [0.8, 0.1]], y)
    assert list(fitted.classes_) == [3, 7]
    assert list(fitted.transduction_) == [3, 7, 3, 7]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_whole_numbers_with_gaps_stay_whole(library):
    module = pytest.importorskip(library)
    y = module.Series([3, 7, None, None], dtype="Int64") if library == "pandas" else module.Series([3, 7, None, None])
    fitted = ReMPClassifier(layers=1).fit([[0.0, 1], [1, 0], [0.1, 0.9], [0.8, 0.1]], y)
    assert fitted.classes_.dtype.kind == "i"
    assert fitted.transduction_.tolist() == [3, 7, 3, 7]


@pytest.mark.parametrize("missing", [np.nan, None])
def test_a_missing_label_that_became_a_string_is_told(missing):
    X, _, truth = two_heaps()
    y = np.array(["kitten", "puppy"])[truth]
    y[10:] = missing
    with pytest.warns(UserWarning, match=f"a class is called '{missing}'; if these labels are missing, write"):
        ReMPClassifier(layers=1).fit(X, y)


def test_frames_of_pandas_and_polars_give_what_the_array_gives():
    import pandas
    import polars

    X, y, _ = two_heaps()
    names = [f"f{i}" for i in range(X.shape[1])]
    plain = ReMPClassifier().fit(X, y)
    for frame in (pandas.DataFrame(X, columns=names), polars.DataFrame(X, schema=names)):
        fitted = ReMPClassifier().fit(frame, y)
        np.testing.assert_array_equal(fitted.label_distributions_, plain.label_distributions_)
        np.testing.assert_array_equal(fitted.predict(frame), plain.predict(X))
    assert list(ReMPClassifier().fit(pandas.DataFrame(X, columns=names), y).feature_names_in_) == names


def test_a_refitted_one_keeps_settings_names_of_features_and_kind_of_classes():
    import pandas

    X, y, truth = two_heaps()
    frame = pandas.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    names = np.array(["a", "b"], dtype=object)
    fitted = ReMPClassifier(rule="paper", tolerance=9.0).fit(frame, np.where(y < 0, None, names[truth]))
    again = fitted.refit(frame)
    assert again.get_params() == fitted.get_params()
    assert list(again.feature_names_in_) == list(frame.columns)  # else predict would warn
    assert again.classes_.dtype == fitted.classes_.dtype
    np.testing.assert_array_equal(again.predict(frame), again.transduction_)


def test_it_works_in_a_pipeline_and_a_grid_search():
    X, y, truth = two_heaps(n=120, n_labels=10)
    pipeline = make_pipeline(Normalizer(), ReMPClassifier())
    search = GridSearchCV(pipeline, {"rempclassifier__layers": [0, 10]}, cv=2).fit(X, y)
    assert (search.predict(X) == truth).mean() > 0.9
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    apart = GridSearchCV(ReMPClassifier(rule="paper"), {"scale": [1.0, 10.0]}, cv=2).fit(
        X[:20], y[:20], X_unlabelled=X[20:]
    )
    assert len(apart.best_estimator_.transduction_) == 120


def test_the_score_is_the_accuracy_on_the_rows_that_have_a_label():
    X, y, truth = two_heaps()
    fitted = ReMPClassifier().fit(X, y)
    wrong = np.where(np.arange(60) < 10, 1 - fitted.predict(X), -1)
    assert fitted.score(X, wrong) == 0.0
    assert fitted.score(X, truth) == (fitted.predict(X) == truth).mean()


def test_a_pickled_and_a_cloned_one_answer_the_same():
    X, y, _ = two_heaps()
    fitted = ReMPClassifier().fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(X), fitted.predict_proba(X))
    np.testing.assert_array_equal(clone(fitted).fit(X, y).prototypes_, fitted.prototypes_)


def test_not_converged_is_a_warning_with_layers_and_distance():
    X, y, _ = two_heaps()
    with pytest.warns(ConvergenceWarning, match=r"not converged after 1 layers: .* still moved by \d+\.\d%"):
        ReMPClassifier(rule="paper", layers=1, tolerance=0.0).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ReMPClassifier().fit(X, y).n_iter_ == len(ReMPClassifier().fit(X, y).moves_)


def test_balanced_gives_each_class_its_share_where_the_heaps_overlap():
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 5))
    X[:200, 0] += 1.0
    y = np.full(400, -1)
    y[[0, 1, 200]] = 0, 0, 1
    shares = ReMPClassifier(**PLAIN, balanced=True).fit(X, y).label_distributions_.mean(0)
    np.testing.assert_allclose(shares, 0.5, atol=0.02)


def test_names_and_order_of_the_classes_do_not_matter():
    X, y, _ = two_heaps()
    one = ReMPClassifier().fit(X, y)
    other = ReMPClassifier().fit(X, np.where(y < 0, -1, 1 - y))
    np.testing.assert_allclose(one.label_distributions_, other.label_distributions_[:, ::-1], atol=1e-6)


@settings(deadline=None, max_examples=60)
@given(
    X=arrays.arrays(np.float32, (9, 3), elements=st.floats(-(2.0**100), 2.0**100, width=32)),
    y=st.lists(st.integers(-1, 3), min_size=9, max_size=9).filter(lambda y: max(y) >= 0),
    transform=st.sampled_from(["power+l2+centre", "none", "l2"]),
)
def test_every_row_gets_probabilities_whatever_the_rows(X, y, transform):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = ReMPClassifier(feature_transform=transform).fit(X, y)
    for probabilities in (fitted.label_distributions_, fitted.predict_proba(X), fitted.predict_proba(0 * X)):
        assert (probabilities >= 0).all()
        np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-6)


def test_one_or_two_labels_of_each_of_many_classes_are_no_reason_to_warn():
    """In the tests, a warning is an error."""
    random = np.random.default_rng(0)
    truth = np.arange(300) % 30
    X = 5 * random.normal(size=(30, 16))[truth] + random.normal(size=(300, 16))
    fitted = ReMPClassifier().fit(X, np.where(np.arange(300) < 45, truth, -1))
    assert (fitted.transduction_ == truth).mean() > 0.9


def test_numbers_just_within_float32_are_no_reason_to_warn():
    X = np.repeat(np.float32([[3e38, 1e38], [-3e38, -1e38]]), 200, axis=0)  # their sums are infinite, of both signs
    y = np.full(400, -1)
    y[[0, 399]] = 0, 1
    assert ReMPClassifier().fit(X, y).transduction_.tolist() == [0] * 200 + [1] * 200


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([-1] * 60, "none of the 60 rows has a label"),
        ([0, 1], "inconsistent numbers of samples"),
        (np.array(["a", 1] * 30, dtype=object), "types int, str together"),
        (["a", 1] * 30, "types int, str together"),
        (np.linspace(0, 1, 60), "Unknown label type"),
        (np.full(60, np.inf), "contains infinity"),
    ],
    ids=["nothing", "length", "mixed", "mixed list", "continuous", "infinite"],
)
def test_labels_that_cannot_be_used_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        ReMPClassifier().fit(two_heaps()[0], y)


def test_settings_that_cannot_be_used_are_refused():
    X, y, _ = two_heaps()
    with pytest.raises(ConfigError, match="mirror"):
        ReMPClassifier(feature_transform="mirror").fit(X, y)
    with pytest.raises(ConfigError, match="tolerance is -1"):
        ReMPClassifier(tolerance=-1).fit(X, y)
    with pytest.raises(ConfigError, match=r"tolerance is '0\.1'; needed a share"):
        ReMPClassifier(tolerance="0.1").fit(X, y)
    for layers in (1.5, "3", np.float64(2)):
        with pytest.raises(ConfigError, match=r"layers is .*; needed a whole number"):
            ReMPClassifier(layers=layers).fit(X, y)
    with pytest.raises(ConfigError, match=r"feature_transform is None; needed parts of .*, or 'none'"):
        ReMPClassifier(feature_transform=None).fit(X, y)
