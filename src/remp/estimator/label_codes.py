"""Labels of any kind as class numbers: integers, strings, series of pandas or polars, with missing ones."""

import warnings
from typing import Any

import numpy as np

UNLABELLED = -1


def encoded(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Sorted classes (N,) and the class number of each label (n,) int64, -1 for a missing one.

    Missing is None, NaN, NA, "" and -1, of strings "-1" as well: an array of them makes that of -1. Raises ValueError
    for what is no list of classes.
    """
    from sklearn.utils.multiclass import check_classification_targets

    labels = _column(y)
    missing = _missing(labels)
    given = _plain(labels[~missing])
    if not len(given):
        raise ValueError(
            f"none of the {len(labels)} rows has a label: label at least one row of each class. "
            'A missing label is -1, None, NaN or ""'
        )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes")  # few labels of each are what this is for
        check_classification_targets(given)
    classes, numbers = np.unique(given, return_inverse=True)
    _warn_of_names(classes)
    codes = np.full(len(labels), UNLABELLED, dtype=np.int64)
    codes[~missing] = numbers
    return classes, codes


def _column(y: Any) -> np.ndarray:
    """Labels (n,); anything of another shape is refused, a column (n, 1) with a warning."""
    from sklearn.utils import column_or_1d

    values = y.to_numpy() if hasattr(y, "to_numpy") else y
    if hasattr(y, "to_list") and values.dtype.kind == "f" and not isinstance(y.dtype, np.dtype):
        values = np.array(y.to_list(), dtype=object)  # whole numbers of pandas or polars, made floats by a gap
    labels = np.asarray(values)
    if labels.dtype.kind in "US" and not hasattr(values, "dtype"):
        # NumPy makes strings of everything in a list with one string in it, of -1 and NaN too
        as_given = np.asarray(values, dtype=object)
        labels = labels if all(isinstance(label, str) for label in as_given.flat) else as_given
    if labels.dtype.kind not in "biufUSOT":
        raise ValueError(f"Unknown label type: got labels of type {labels.dtype}; needed numbers or strings")
    return column_or_1d(labels, warn=True)


def _missing(labels: np.ndarray) -> np.ndarray:
    """(n,) bool"""
    if labels.dtype.kind in "iu":
        return labels == UNLABELLED
    if labels.dtype.kind == "f":
        _refuse_infinity(labels)
        return np.isnan(labels) | (labels == UNLABELLED)
    if labels.dtype.kind == "b":
        return np.zeros(len(labels), dtype=bool)
    return np.fromiter((_is_missing(label) for label in labels), dtype=bool, count=len(labels))


def _is_missing(label: Any) -> bool:
    if label is None or type(label).__name__ == "NAType":
        return True
    if isinstance(label, (str, bytes)):
        return label in ("", "-1", b"", b"-1")
    return bool(label != label or label == UNLABELLED)


def _plain(given: np.ndarray) -> np.ndarray:
    """Labels without missing ones, as an array of numbers or of strings even where it was one of objects."""
    if given.dtype.kind != "O" or not len(given):
        return given
    types = {type(label) for label in given}
    if len({issubclass(kind, str) for kind in types}) > 1:  # strings of NumPy are of a type of their own
        names = ", ".join(sorted(kind.__name__ for kind in types))
        raise ValueError(f"got labels of the types {names} together: give all as strings or all as numbers")
    plain = given if str in types else np.asarray(given.tolist())
    if plain.dtype.kind == "f":
        _refuse_infinity(plain)
    return plain


def _warn_of_names(classes: np.ndarray) -> None:
    """None and NaN that were written into an array of strings are strings: classes, for all that can be known."""
    if classes.dtype.kind in "UOT":
        for name in ("nan", "None", "<NA>"):
            if (classes == name).any():
                warnings.warn(
                    f'a class is called {name!r}; if these labels are missing, write "" in place of it',
                    UserWarning,
                    stacklevel=4,
                )


def _refuse_infinity(labels: np.ndarray) -> None:
    if np.isinf(labels).any():
        raise ValueError("Input y contains infinity: a label is a whole number or a string, a missing one -1 or NaN")
