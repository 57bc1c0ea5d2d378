"""Labels of a table: which rows have one, and which classes there are."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pandas as pd

from laddernet.classifier.labels import UNLABELLED, require_mark
from laddernet.errors import InputError
from laddernet.table.cells import numbers_of, text_of, texts

MARK = "-1"  # marks a row without a label in an array, as in scikit-learn

_WHOLE = re.compile(r"([+-]?\d+)\.0*")
_MOST_CLASSES = 100  # with about one label each; more are names, texts or row numbers


def mark_of(unlabeled: Any, positional: int) -> str:
    """Return the text that marks a row without a label, besides an empty cell; "" if there is none.

    If it is not given, it is -1 for the ``positional`` columns of an array.
    """
    if unlabeled is None:
        return MARK if positional else ""
    require_mark(unlabeled)
    return text_of(unlabeled)


def labels_of(cells: pd.Series, mark: str) -> np.ndarray:
    """Read a column of classes, "" where a row has no label."""
    return unmarked(texts(cells), mark)


def unmarked(labels: np.ndarray, mark: str) -> np.ndarray:
    """Replace the mark by "".

    >>> unmarked(np.array(["a", "-1.0", "-1"], object), "-1").tolist()
    ['a', '', '']
    """
    marks = {label for label in set(labels) if plain(label) == plain(mark)}
    return np.where([label in marks for label in labels], "", labels) if marks else labels


def plain(label: str) -> str:
    """Remove the decimals of an integer and keep all its digits; return any other label unchanged.

    >>> plain("9007199254740993.0"), plain("1.5"), plain("v1.0")
    ('9007199254740993', '1.5', 'v1.0')
    """
    whole = _WHOLE.fullmatch(label)
    return whole[1] if whole else label


def find_classes(given: np.ndarray, mark: str, target: str, table: str) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the classes in order, and for each row the index of its class or -1."""
    labels = unmarked(given, mark)
    but = f" but {mark}, which marks rows without a label" if np.any(labels != given) else ""
    known = Counter(labels[labels != ""])
    if not known:
        raise InputError(f"{table}: no row has a {target!r}{but}; give at least one label of two classes.")
    # 1 and 1.0 are one class if all labels are numbers; among words they may be versions.
    all_numbers = not np.isnan(numbers_of(list(known))).any()
    named = {label: plain(label) if all_numbers else label for label in known}
    classes = tuple(sorted({*named.values()}, key=natural))
    if len(classes) < 2:
        advice = f"if {mark} is a class of yours, give --unlabeled ''" if but else "give labels of two classes or more"
        raise InputError(f"{table}: all labels are {classes[0]!r}{but}; {advice}.")
    if len(classes) > 20 and len(classes) > known.total() / 2 and not _like_classes(classes):
        advice = "name a column that holds classes with --target"
        raise InputError(f"{target!r} has {len(classes):,} values in {known.total():,} labelled rows; {advice}.")
    places = {name: number for number, name in enumerate(classes)}
    codes = {label: places[name] for label, name in named.items()} | {"": UNLABELLED}
    return classes, np.array([codes[label] for label in labels], int)


def _like_classes(names: Sequence[str]) -> bool:
    """Decide if values with about one label each may be classes: a limited number of words, or integers with few gaps.

    >>> [_like_classes(names) for names in (["a", "b"], ["4", "5", "7"], ["4", "9"], ["4", "4.5"])]
    [True, True, False, False]
    """
    values = numbers_of(names)
    words = np.isnan(values).any()
    compact = np.all(values == np.floor(values)) and values.max() - values.min() + 1 < 2 * len(values)
    return bool(len(names) <= _MOST_CLASSES and (words or compact))


def natural(name: str) -> tuple[bool, Decimal, str]:
    """Sort numbers by size, with all their digits, then words by the alphabet.

    >>> sorted(["b", "10000000000000000000", "9999999999999999999", "a"], key=natural)
    ['9999999999999999999', '10000000000000000000', 'a', 'b']
    """
    try:
        number = Decimal(name)
    except InvalidOperation:
        number = Decimal("nan")
    return (number.is_nan(), Decimal(0) if number.is_nan() else number, name)


def lookalikes(names: Iterable[str]) -> tuple[str, str] | None:
    """Find two names that differ only in case or white space; None if there are no such names.

    >>> lookalikes(["no", "Ja", "ja"]), lookalikes(["a", "b"])
    (('Ja', 'ja'), None)
    """
    found: dict[str, str] = {}
    for name in names:
        first = found.setdefault("".join(name.casefold().split()), name)
        if first != name:
            return first, name
    return None
