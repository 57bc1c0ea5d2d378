"""Labels of every type that users have, and the values that mark rows without one."""

import re
from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from iris import SETTINGS, TRUTH, X, fit

from laddernet import InputError, LadderClassifier
from laddernet.classifier.curve import label_curve
from laddernet.classifier.labels import encode_labels


def marked(values: Any) -> list[int]:
    return encode_labels(values)[1].tolist()


@pytest.mark.parametrize(
    "y",
    [
        [1, -1, 0, 1],
        [1.0, np.nan, 0.0, 1.0],
        np.array([1.0, -1.0, 0.0, 1.0], np.float32),
        ["b", None, "a", "b"],
        ["b", np.nan, "a", "b"],
        np.array(["b", None, "a", "b"], object),
        [True, None, False, True],
        pd.Series(["b", None, "a", "b"]),
        pd.Series([1, pd.NA, 0, 1], dtype="Int64"),
        pd.Series([True, pd.NA, False, True], dtype="boolean"),
        pd.Series(["b", None, "a", "b"], dtype="category"),
        pl.Series([1, None, 0, 1]),
        pl.Series(["b", None, "a", "b"]),
        pl.Series([True, None, False, True]),
    ],
    ids=str,
)
def test_every_mark_of_an_unlabelled_row_is_understood(y: Any) -> None:
    assert marked(y) == [1, -1, 0, 1]


@pytest.mark.parametrize(
    "y",
    [
        pd.Series([2**60 + 1, pd.NA, 2**60], dtype="Int64"),
        pd.Series([2**60 + 1, None, 2**60], dtype="int64[pyarrow]"),
        pd.Series(pd.array([2**60 + 1, pd.NA, 2**60], dtype="Int64")).astype("category"),
        pl.Series([2**60 + 1, None, 2**60]),
        np.ma.array([2**60 + 1, 7, 2**60], mask=[False, True, False]),
        np.array([2**60 + 1, None, 2**60], object),
        pd.array([2**60 + 1, None, 2**60], dtype="Int64"),
        pd.array([2**60 + 1, None, 2**60], dtype="int64[pyarrow]"),
        pd.Categorical([2**60 + 1, None, 2**60], categories=[2**60, 2**60 + 1]),
        pa.array([2**60 + 1, None, 2**60]),
        [2**60 + 1, None, 2**60],
        [2**60 + 1, np.nan, 2**60],
        [2**60 + 1, np.float32("nan"), 2.0**60],
    ],
    ids=lambda y: str(getattr(y, "dtype", y)),
)
def test_whole_numbers_stay_whole_beside_a_missing_label(y: Any) -> None:
    classes, codes = encode_labels(y)
    assert (classes.dtype, classes.tolist(), codes.tolist()) == (np.int64, [2**60, 2**60 + 1], [1, -1, 0])


CONTAINERS: dict[str, Callable[[list[int | None], str], Any]] = {
    "list": lambda values, kind: values,
    "object array": lambda values, kind: np.array(values, object),
    "masked array": lambda values, kind: np.ma.array(
        np.array([value or 0 for value in values], kind), mask=[value is None for value in values]
    ),
    "pandas array": lambda values, kind: pd.array(values, dtype=kind.replace("i", "I").replace("u", "U")),
    "pandas frame": lambda values, kind: pd.DataFrame({"y": CONTAINERS["pandas array"](values, kind)}),
    "object series": lambda values, kind: pd.Series(values, dtype=object),
    "Arrow series": lambda values, kind: pd.Series(values, dtype=f"{kind}[pyarrow]"),
    "polars series": lambda values, kind: pl.Series(values, dtype=pl.UInt64 if kind == "uint64" else pl.Int64),
    "polars frame": lambda values, kind: CONTAINERS["polars series"](values, kind).to_frame("y"),
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
@given(
    values=st.one_of(
        st.lists(st.one_of(st.none(), st.integers(low, low + 2**64 - 1)), min_size=3) for low in (-(2**63), 0)
    ).filter(lambda values: len(set(values) - {None}) > 1)
)
def test_classes_are_exactly_the_whole_numbers_that_were_given(container: str, values: list[int | None]) -> None:
    known = {value for value in values if value is not None}
    y = CONTAINERS[container](values, "uint64" if max(known) >= 2**63 else "int64")
    classes, codes = encode_labels(y, unlabeled=None)
    assert classes.tolist() == sorted(known)
    assert [None if code < 0 else int(classes[code]) for code in codes] == values


def test_a_long_mark_does_not_hide_its_neighbours() -> None:
    y = np.array([2**53, 2**53 + 1, 2**53 + 2])
    for mark in (2**53, float(2**53), np.float64(2**53), np.uint64(2**53)):
        assert encode_labels(y, unlabeled=mark)[0].tolist() == [2**53 + 1, 2**53 + 2]


def test_predictions_of_long_whole_numbers_are_members_of_them() -> None:
    keys = [2**53, 2**53 + 1, 2**63 + 1]
    y = pd.array([keys[code] if row % 3 else None for row, code in enumerate(TRUTH)], dtype="UInt64")
    fitted = fit(y=y)
    assert fitted.classes_.tolist() == keys
    assert set(fitted.predict(X).tolist()) == set(keys)
    assert fitted.score(X, y) > 0.9
    points = label_curve(LadderClassifier(**SETTINGS | {"max_steps": 1}), X, y, counts=[5], repeats=2)
    assert len(points[0].errors) == 2


@pytest.mark.parametrize("mark", ["nan", "None", "-1"])
def test_a_class_that_is_called_like_a_mark_is_warned_of(mark: str) -> None:
    with pytest.warns(UserWarning, match=f"y has a class called '{mark}'; if it marks rows .* set unlabeled='{mark}'"):
        encode_labels(np.array(["a", "b", mark]))
    assert encode_labels(np.array(["a", "b", mark]), unlabeled=mark)[1].tolist() == [0, 1, -1]


def test_another_mark_can_be_named() -> None:
    assert encode_labels([-1, 1, 0, 1], unlabeled=0)[1].tolist() == [0, 1, -1, 1]
    assert encode_labels(["a", "?", "b"], unlabeled="?")[1].tolist() == [0, -1, 1]
    assert encode_labels([-1, 1, 1], unlabeled=None)[0].tolist() == [-1, 1]
    assert encode_labels(["1", "b", "c"], unlabeled=1)[0].tolist() == ["1", "b", "c"]
    assert encode_labels([-1, 1, 1], unlabeled=pd.NA)[0].tolist() == [-1, 1]
    assert encode_labels(np.array(["a", np.str_("b"), None], object))[0].tolist() == ["a", "b"]
    assert fit(y=np.where(TRUTH == 0, -1, 1), unlabeled=None).classes_.tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        (
            [-1, -1, 1],
            "y holds one class, 1, and nothing else but -1, which marks unlabelled rows; if -1 is a class of",
        ),
        ([1, 1, 1], "y holds one class, 1, and nothing else; give labels of two classes or more."),
        ([-1, -1, -1], "No row of y has a label (all are None, NaN or -1); give at least one label of two classes."),
        ([None, None], "No row of y has a label"),
        (["a", 1, None], "y holds labels of several types (int, str); give all as one type."),
        ([date(2026, 1, 1), date(2026, 1, 2)], "y holds labels of the type date; give numbers, booleans or text."),
        (
            np.array(["2026", "2027"], "M8[Y]"),
            "y holds labels of the type datetime64[Y]; give numbers, booleans or text.",
        ),
        (
            [2**63, -5],
            "y holds whole numbers from -5 to 9223372036854775808, which no 64-bit type holds; give the labels",
        ),
        (
            [2**64, 1],
            "y holds whole numbers from 1 to 18446744073709551616, which no 64-bit type holds; give the labels",
        ),
        ([b"a", b"b"], "y holds labels of the type bytes; give numbers, booleans or text."),
    ],
    ids=str,
)
def test_labels_that_will_not_do_are_one_sentence(y: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        encode_labels(np.array(y, object) if isinstance(y, list) and (None in y or "a" in y) else y)


@pytest.mark.parametrize("mark", [[], (), [-1], {}, np.array([-1, 2])])
def test_a_mark_that_is_several_values_is_one_sentence(mark: Any) -> None:
    with pytest.raises(InputError, match=r"^unlabeled must be one value or None, got "):
        encode_labels([0, 1, -1], mark)
    with pytest.raises(InputError, match=r"^unlabeled must be one value or None, got "):
        LadderClassifier(unlabeled=mark).fit([[0.0], [1.0]], [0, 1])
