"""Rectified metric propagation as a semi-supervised classifier of scikit-learn."""

import warnings
from collections.abc import Iterator
from dataclasses import fields, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score
from sklearn.utils import assert_all_finite, check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from remp.checks import check_choice
from remp.errors import ConfigError
from remp.estimator.label_codes import UNLABELLED, encoded
from remp.propagation.adaptive import Adaptive
from remp.propagation.fit import Learned, RowAnswers, fit_rows
from remp.rectification import Metric, Repulsion, RowNorm
from remp.rectification.propagate import Propagation
from remp.rows import ArrayRows, JoinedRows, Rows, shard_of
from remp.rows.dataset import as_rows, is_rows, join

Rule = Literal["adaptive", "paper"]
_SHARED = ("layers", "balanced")  # settings that both rules have
_SETTINGS = [field.name for field in fields(Propagation) if field.name != "transform"]  # of the paper's rule


class ReMPClassifier(ClassifierMixin, BaseEstimator):
    """Label all rows of features from a few labelled ones: class prototypes, refined by the unlabelled rows.

    It takes any number of rows: a numpy.memmap is read in pieces, once per layer, and never copied.

    Parameters
    ----------
    rule : str
        "adaptive" for any shares of the classes and any number of labels, or "paper".
    feature_transform : str
        Parts of "power+l2+centre", or "none".
    layers : int or None
        Passes over the unlabelled rows; 0 is no rectification. None is 6, and 10 with ``rule="paper"``.
    scale, repulsion, row_norm, similarity, residual, threshold, step, label_share
        As in :class:`remp.Rectification`, with defaults that suit thousands of rows; for ``rule="paper"`` only.
    balanced : bool
        The classes are known to be of equal size.
    tolerance : float
        With ``rule="paper"``, a ConvergenceWarning is given if in the last layer a prototype still moved by more than
        this share of the prototypes' mean norm.

    Attributes
    ----------
    classes_ : array
        (N,) the labels, sorted.
    transduction_ : array
        (n,) a label for each row of fit; where one was given, it is kept.
    label_distributions_ : array
        (n, N) float32 probabilities, calibrated by labels that are hidden in turn, as in ``remp label``; rows sum to 1.
    prototypes_ : array
        (N, d) in the space of the transformed features.
    n_iter_ : int
        How many layers there were.
    moves_ : array
        (`n_iter_`,) how far the prototypes moved in each layer.
    evidence_ : tuple
        The weights of the regression, the graph and the prototypes, as multiples of their usual weights, found with
        the hidden labels; (1, 1, 1) for the paper's rule.
    left_out_ : bool
        Whether rectification was left out because the hidden labels were more probable without it.

    Notes
    -----
    Zhao, Li, Yu, Chen: "ReMP: Rectified Metric Propagation for Few-Shot Learning", CVPR workshops 2021. The page
    "ReMPClassifier" of the documentation explains the rule.

    Examples
    --------
    A missing label is -1, None, NaN or an empty string:

    >>> from remp import ReMPClassifier
    >>> X = [[1.0, 0.1], [0.1, 1.0], [0.9, 0.2], [0.8, 0.1], [0.2, 0.9]]
    >>> model = ReMPClassifier().fit(X, ["cat", "dog", "", "", ""])
    >>> model.transduction_.tolist()
    ['cat', 'dog', 'cat', 'cat', 'dog']
    >>> model.predict([[0.7, 0.3]]).tolist()
    ['cat']
    """

    def __init__(
        self,
        *,
        rule: Rule = "adaptive",
        feature_transform: str = Propagation.transform,
        layers: int | None = None,
        scale: float = Propagation.scale,
        repulsion: Repulsion = Propagation.repulsion,
        row_norm: RowNorm = Propagation.row_norm,
        similarity: Metric = Propagation.similarity,
        residual: bool = Propagation.residual,
        threshold: float = Propagation.threshold,
        step: float = Propagation.step,
        label_share: float = Propagation.label_share,
        balanced: bool = Propagation.balanced,
        tolerance: float = 0.05,
    ) -> None:
        self.rule = rule
        self.feature_transform = feature_transform
        self.layers = layers
        self.scale = scale
        self.repulsion = repulsion
        self.row_norm = row_norm
        self.similarity = similarity
        self.residual = residual
        self.threshold = threshold
        self.step = step
        self.label_share = label_share
        self.balanced = balanced
        self.tolerance = tolerance

    def fit(self, X: Any, y: Any, X_unlabelled: Any = None) -> "ReMPClassifier":
        """Find the prototypes, and label all rows.

        Parameters
        ----------
        X : array
            (n, d) features; or the rows of a Parquet dataset (`remp.parquet_dataset`); or a materialised Ray dataset,
            which Ray's tasks read block by block. The order in which numbers are added, and so the last bits of the
            result, depends on which rows are in a block or in a Parquet file, but not on who adds them.
        y : array
            (n,) labels; a missing one is -1, None, NaN or "".
        X_unlabelled : array, optional
            (m, d) further rows without a label. They come after those of X in `transduction_` and
            `label_distributions_`.

        Returns
        -------
        ReMPClassifier
            The classifier itself, with the attributes that end in an underscore.

        Examples
        --------
        >>> from remp import ReMPClassifier
        >>> model = ReMPClassifier().fit([[1.0, 0.1], [0.1, 1.0]], ["cat", "dog"], X_unlabelled=[[0.8, 0.3]])
        >>> model.transduction_.tolist()
        ['cat', 'dog', 'cat']
        """
        settings = self._settings()
        rows = self._rows(X, reset=True)
        if y is None:
            raise ValueError("ReMPClassifier requires y to be passed, but the target y is None")
        self.classes_, codes = encoded(y)
        check_consistent_length(rows, codes)
        if X_unlabelled is not None:
            rows = join(rows, self._rows(X_unlabelled, reset=False))
            codes = np.concatenate([codes, np.full(len(rows) - len(codes), UNLABELLED)])
        fitted = fit_rows(rows, codes, len(self.classes_), settings)
        self._take(Learned.of(fitted, rows, codes, tuple(self.classes_.tolist())))
        if self.rule == "paper" and self.n_iter_ and self.moves_[-1] > self.tolerance:
            warnings.warn(
                f"not converged after {self.n_iter_} layers: a prototype still moved by {self.moves_[-1]:.1%} of the "
                f"prototypes' mean norm (tolerance {self.tolerance:.1%}). Take more layers, or raise the tolerance",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self._label(rows, codes)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of rows.

        Parameters
        ----------
        X : array
            (m, d) rows.

        Returns
        -------
        ndarray
            (m, N), calibrated; a row sums to 1. Classes are in the order of `classes_`.

        Examples
        --------
        >>> from remp import ReMPClassifier
        >>> model = ReMPClassifier().fit([[1.0, 0.1], [0.1, 1.0], [0.9, 0.2], [0.2, 0.9]], [0, 1, -1, -1])
        >>> model.predict_proba([[0.8, 0.3]]).shape
        (1, 2)
        """
        return np.concatenate(list(self._probabilities(X)))

    def predict(self, X: Any) -> np.ndarray:
        """Labels of rows.

        Parameters
        ----------
        X : array
            (m, d) rows.

        Returns
        -------
        ndarray
            (m,) of `classes_`.

        Examples
        --------
        >>> from remp import ReMPClassifier
        >>> model = ReMPClassifier().fit([[1.0, 0.1], [0.1, 1.0], [0.9, 0.2], [0.2, 0.9]], [0, 1, -1, -1])
        >>> model.predict([[0.8, 0.3], [0.1, 0.7]]).tolist()
        [0, 1]
        """
        numbers = np.concatenate([part.argmax(1) for part in self._probabilities(X)])
        return self.classes_[numbers]

    def save(self, path: str | Path) -> Path:
        """Write what was learned into a folder, for `remp.load_labelling`.

        The file holds numbers, the names of the classes and up to 10,000 labelled rows; nothing in it is code.

        Parameters
        ----------
        path : str or Path
            The folder.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        ConfigError
            If there is such a file already.

        Examples
        --------
        >>> import remp
        >>> model = remp.ReMPClassifier().fit([[1.0, 0.1], [0.1, 1.0], [0.9, 0.2], [0.2, 0.9]], [0, 1, -1, -1])
        >>> file = model.save("two-classes")
        >>> remp.load_labelling("two-classes").predict([[0.8, 0.3]]).tolist()
        [0]
        """
        from remp.propagation.saved import FILE, save_labelling

        check_is_fitted(self)
        file = Path(path) / FILE
        if file.exists():
            raise ConfigError(f"{file} exists already: give another folder")
        save_labelling(file, self._learned)
        return file

    def refit(self, X: Any) -> "ReMPClassifier":
        """A new classifier from the same labelled rows and other unlabelled ones, which it looks at all together.

        Parameters
        ----------
        X : array
            (m, d) the unlabelled rows.

        Returns
        -------
        ReMPClassifier
            Its `transduction_` and `label_distributions_` are those of X.

        Examples
        --------
        >>> from remp import ReMPClassifier
        >>> model = ReMPClassifier().fit([[1.0, 0.1], [0.1, 1.0], [0.9, 0.2], [0.2, 0.9]], [0, 1, -1, -1])
        >>> model.refit([[0.7, 0.2], [0.3, 0.8], [0.2, 0.6]]).transduction_.tolist()
        [0, 1, 1]
        """
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        again = clone(self)
        for name in ("classes_", "n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(again, name, getattr(self, name))
        again._take(self._learned.with_rows(rows))
        return again._label(rows, np.full(len(rows), UNLABELLED))

    @classmethod
    def _of(cls, learned: Learned) -> "ReMPClassifier":
        """A fitted classifier, without the rows of fit: it has no `transduction_`."""
        settings = learned.fitted.model.settings
        is_paper = isinstance(settings, Propagation)
        given: dict[str, Any] = {name: getattr(settings, name) for name in (_SETTINGS if is_paper else _SHARED)}
        made = cls(rule="paper" if is_paper else "adaptive", feature_transform=settings.transform, **given)
        made.classes_, made.n_features_in_ = np.array(learned.classes), learned.examples.shape[1]
        made._take(learned)
        return made

    def _take(self, learned: Learned) -> None:
        self._learned, model = learned, learned.fitted.model
        parts = {one.name: getattr(model, one.name) for one in fields(model)}
        double: dict[str, Any] = {name: part.double() for name, part in parts.items() if isinstance(part, Tensor)}
        self._model = replace(model, **double)
        self.evidence_ = learned.fitted.evidence
        self.left_out_ = learned.fitted.left_out
        self.prototypes_ = self._model.prototypes.numpy()
        self.moves_ = np.array(self._model.moves)
        self.n_iter_ = len(self.moves_)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the rows that have a label; so GridSearchCV works on labels of which some are missing.

        Parameters
        ----------
        X : array
            (m, d) rows.
        y : array
            (m,) their labels; a missing one is -1, None, NaN or "".
        sample_weight : array, optional
            (m,) weights.

        Returns
        -------
        float
            Share of the labelled rows whose label is predicted.

        Examples
        --------
        >>> from remp import ReMPClassifier
        >>> model = ReMPClassifier().fit([[1.0, 0.1], [0.1, 1.0], [0.9, 0.2], [0.2, 0.9]], [0, 1, -1, -1])
        >>> model.score([[0.8, 0.3], [0.1, 0.7], [0.5, 0.5]], [0, 1, -1])
        1.0
        """
        check_consistent_length(X, y, sample_weight)
        classes, codes = encoded(y)
        given = codes != UNLABELLED
        weight = None if sample_weight is None else np.asarray(sample_weight)[given]
        return accuracy_score(classes[codes[given]], self.predict(X)[given], sample_weight=weight)

    def _settings(self) -> Adaptive | Propagation:
        check_choice("rule", self.rule, Rule)
        tolerance: Any = self.tolerance  # of any kind, as long as nobody has looked
        if not (isinstance(tolerance, Real) and float(tolerance) >= 0):
            raise ConfigError(f"tolerance is {tolerance!r}; needed a share of the prototypes' norm, 0 or more")
        if not isinstance(self.feature_transform, str):
            raise ConfigError(
                f"feature_transform is {self.feature_transform!r}; needed parts of 'power+l2+centre', or 'none'"
            )
        given: dict[str, Any] = {name: getattr(self, name) for name in _SETTINGS}
        rule: type[Adaptive | Propagation] = Propagation if self.rule == "paper" else Adaptive
        if self.layers is None:
            given["layers"] = rule.layers
        elif not isinstance(given["layers"], Integral):
            raise ConfigError(f"layers is {self.layers!r}; needed a whole number, or None")
        if self.rule == "paper":
            return Propagation(transform=self.feature_transform, **given)
        unused = [name for name in given if name not in _SHARED and given[name] != getattr(Propagation, name)]
        if unused:
            raise ConfigError(
                f"{unused[0]}={given[unused[0]]!r} is a setting of the paper's rule: give rule='paper' too"
            )
        return Adaptive(self.feature_transform, given["layers"], given["balanced"])

    def _rows(self, X: Any, *, reset: bool) -> Rows:
        """X as rows, checked; an array that is no array of objects is not copied."""
        if is_rows(X):  # their numbers are checked when they are passed over
            rows = as_rows(X)
            if reset:
                self.n_features_in_ = rows.dim
                if hasattr(self, "feature_names_in_"):
                    del self.feature_names_in_
            elif rows.dim != self.n_features_in_:
                raise ValueError(
                    f"X has {rows.dim} features, but ReMPClassifier expects {self.n_features_in_} as in fit"
                )
            return rows
        X = validate_data(self, X, reset=reset, ensure_all_finite=False)
        rows = ArrayRows(X)
        for start in range(0, len(rows), rows.chunk):  # in pieces: the check makes copies of some types of number
            with np.errstate(over="ignore", invalid="ignore"):  # what float32 cannot hold is refused
                assert_all_finite(X[start : start + rows.chunk].astype(np.float32, copy=False), input_name="X")
        return rows

    def _label(self, rows: Rows, codes: np.ndarray) -> "ReMPClassifier":
        """Label all rows; where a row was labelled, one-hot."""
        result = np.empty((len(rows), len(self.classes_)), dtype=np.float32)
        start = 0
        for part in self._answers(rows, np.float32):
            result[start : start + len(part)] = part
            start += len(part)
        labelled = np.flatnonzero(codes != UNLABELLED)
        result[labelled] = 0
        result[labelled, codes[labelled]] = 1
        self.label_distributions_, self.transduction_ = result, self.classes_[result.argmax(1)]
        return self

    def _probabilities(self, X: Any) -> Iterator[np.ndarray]:
        check_is_fitted(self)
        return self._answers(self._rows(X, reset=False), np.float64)

    def _answers(self, rows: Rows, dtype: type[np.floating]) -> Iterator[np.ndarray]:
        """The probabilities of all rows (m, N), piece by piece; rows that come in parts are answered where they lie."""
        answer = RowAnswers(self._model, self._learned.fitted.calibration, dtype)
        if isinstance(rows, JoinedRows):
            return shard_of(rows).each(answer, rows)
        return answer.each(rows.chunks())
