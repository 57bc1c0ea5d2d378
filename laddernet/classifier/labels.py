"""Encode a user's labels as classes and their numbers."""

import warnings
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from laddernet.errors import InputError

UNLABELLED = -1  # the code of a row without a label
_EXACT = 2**53  # up to here a float holds every integer
_LIKE_A_MARK = {"-1", "-1.0", "nan", "NaN", "None", "<NA>", "NaT"}  # values for missing labels, converted to text


def encode_labels(y: Any, unlabeled: Any = -1) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted classes and, for each row, the number of its class or −1.

    A row is unlabelled if its label is None, NaN or NA, or equals ``unlabeled``.

    >>> classes, codes = encode_labels(["b", None, "a"])
    >>> classes.tolist(), codes.tolist()
    (['a', 'b'], [1, -1, 0])
    >>> encode_labels([-1, 1, -1], unlabeled=None)[1].tolist()
    [0, 1, 0]
    """
    values, missing, marked = _read(y, unlabeled)
    known = values[~missing]
    if not len(known):
        marks = "None or NaN" if unlabeled is None else f"None, NaN or {unlabeled!r}"
        raise InputError(f"No row of y has a label (all are {marks}); give at least one label of two classes.")
    if known.dtype == object:
        kinds = sorted({_kind(value) for value in known})
        if len(kinds) > 1 and not all(isinstance(value, int | float | np.number) for value in known):
            raise InputError(f"y holds labels of several types ({', '.join(kinds)}); give all as one type.")
        if not isinstance(known[0], _LABELS):
            raise InputError(f"y holds labels of the type {kinds[0]}; give numbers, booleans or text.")
        known = _of_one_type(known)
    if known.dtype.kind not in "biufU":
        raise InputError(f"y holds labels of the type {known.dtype}; give numbers, booleans or text.")
    with warnings.catch_warnings():  # of many classes and few labels, which is normal here
        warnings.simplefilter("ignore", UserWarning)
        check_classification_targets(known)
    classes, codes = np.unique(known, return_inverse=True)
    if len(classes) < 2:
        but, advice = "", "give labels of two classes or more"
        if marked.any():
            but = f" but {unlabeled!r}, which marks unlabelled rows"
            advice = f"if {unlabeled!r} is a class of yours, set unlabeled=None or to another mark"
        raise InputError(f"y holds one class, {classes.tolist()[0]!r}, and nothing else{but}; {advice}.")
    for mark in _LIKE_A_MARK.intersection(classes.tolist() if known.dtype.kind == "U" else ()):
        advice = f"if it marks rows without a label, set unlabeled={mark!r}"
        warnings.warn(f"y has a class called {mark!r}; {advice}.", stacklevel=5)
    out = np.full(len(values), UNLABELLED)
    out[~missing] = codes
    return classes, out


def known_labels(y: Any, unlabeled: Any = -1) -> tuple[np.ndarray, np.ndarray]:
    """Return which rows have a label, as a mask, and the labels of these rows.

    >>> rows, labels = known_labels(["b", None, "a"])
    >>> rows.tolist(), labels.tolist()
    ([True, False, True], ['b', 'a'])
    """
    values, missing, _ = _read(y, unlabeled)
    known = values[~missing]
    return ~missing, _of_one_type(known) if known.dtype == object else known


def _read(y: Any, unlabeled: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the labels, the mask of unlabelled rows, and the mask of labels that equal ``unlabeled``."""
    require_mark(unlabeled)
    values = column_or_1d(_as_array(y), warn=True)
    missing = _missing(values)
    marked = np.zeros(len(values), bool)
    if not is_missing(unlabeled):
        marked[~missing] = _equal(values[~missing], unlabeled)
    return values, missing | marked, marked


def require_mark(unlabeled: Any) -> None:
    """Refuse a value of ``unlabeled`` that cannot be a label."""
    if isinstance(unlabeled, list | tuple | set | dict | np.ndarray):
        raise InputError(f"unlabeled must be one value or None, got {unlabeled!r}.")


_LABELS = (str, bool, int, float, np.number, np.bool_)


def _kind(value: Any) -> str:
    """Return the name of a label's type; NumPy's text and booleans have the names of Python's."""
    return next((kind.__name__ for kind in (str, bool) if isinstance(value, kind)), type(value).__name__.rstrip("_"))


def _of_one_type(labels: np.ndarray) -> np.ndarray:
    """Convert objects to an array of one type that holds each of them exactly.

    >>> _of_one_type(np.array([2**53 + 1, 1.0], object)).tolist()  # as floats, the first would lose a digit
    [9007199254740993, 1]
    """
    values = [value.item() if isinstance(value, np.integer) else value for value in labels]
    made = np.array(values)
    if made.dtype.kind not in "fO" or not any(isinstance(value, int) for value in values):
        return made
    if not all(isinstance(value, int) or float(value).is_integer() for value in values):
        return made
    if made.dtype.kind == "f" and all(abs(value) <= _EXACT for value in values):
        return made
    whole = [int(value) for value in values]
    for kind in (np.int64, np.uint64):
        if np.iinfo(kind).min <= min(whole) and max(whole) <= np.iinfo(kind).max:
            return np.array(whole, kind)
    found = f"whole numbers from {min(whole)} to {max(whole)}"
    raise InputError(f"y holds {found}, which no 64-bit type holds; give the labels as text.")


def _as_array(y: Any) -> np.ndarray:
    """Convert labels to an array without loss: integers beside a missing value do not become floats."""
    if isinstance(y, np.ma.MaskedArray):
        return np.fromiter(y.tolist(), object)  # None where masked
    if hasattr(y, "columns") and len(y.columns) == 1:  # a data frame
        return _as_array(y[y.columns[0]]).reshape(-1, 1)
    if not isinstance(getattr(y, "dtype", None), np.dtype):  # types of pandas, polars and Arrow, and lists
        for method in ("to_list", "tolist", "to_pylist"):
            if hasattr(y, method):
                return np.fromiter(getattr(y, method)(), object)
        if isinstance(y, list | tuple):
            return np.asarray(y, dtype=object)
    return np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)


def _missing(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    if values.dtype == object:
        return np.array([is_missing(value) for value in values], bool)
    return np.zeros(len(values), bool)


def is_missing(value: Any) -> bool:
    # pandas.NA is recognised by the name of its type, so that pandas need not be installed.
    return (
        value is None or (isinstance(value, float | np.floating) and value != value) or type(value).__name__ == "NAType"
    )


def _equal(values: np.ndarray, mark: Any) -> np.ndarray:
    mark = mark.item() if isinstance(mark, np.generic) else mark
    if isinstance(mark, float) and mark.is_integer():
        mark = int(mark)  # NumPy would compare large integers with a float as floats
    if values.dtype != object and isinstance(mark, str) != (values.dtype.kind in "US"):
        return np.zeros(len(values), bool)  # a number never equals text
    return np.asarray(values == mark, bool)
