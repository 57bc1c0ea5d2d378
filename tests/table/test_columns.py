import warnings
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laddernet.errors import InputError
from laddernet.table.columns import IDENTIFIER, Column, Survey, read_columns


def column_of(values: Any, name: str = "c", **asked: bool) -> Column | str:
    survey = Survey(name)
    for part in np.array_split(np.arange(len(values)), 3):
        survey.add(pd.Series(values).iloc[part])
    return survey.column(**asked)


KINDS: dict[str, tuple[list[Any], str, str]] = {
    "numbers": (["1", " 2.5", "-1e3", ""] * 9, "number", "1000.5"),
    "numbers of Parquet": ([1.5, None, 3.0] * 9, "number", "1000.5"),
    "numbers with a few words": (["3"] * 57 + ["4", "5", "?", "NA", "unknown"], "number", "1000.5"),
    "numbers with many words": (["3"] * 10 + ["none"] * 5, "category", ""),
    "decimal commas": (["1,5", "2,25", "3"] * 5, "number", "1000,5"),
    "thousands": (["1,500", "12,250,000", "3"] * 5, "number", "1,000.5"),
    "decimal commas with groups": (["1.234,56", "12.250.000", "1.500", "3"] * 5, "number", "1000,5"),
    "three decimals": (["1.234", "2.500", "3.75", "4.000"] * 5, "number", "1000.5"),
    "three decimals each": (["1.234", "2.500"] * 5, "number", "1000.5"),
    "a few decimal commas": (["260"] * 50 + ["260,4"], "number", "1000,5"),
    "a few thousands": ([str(i / 2) for i in range(98)] + ["1,223.5", "2,000.0"], "number", "1,000.5"),
    "whole numbers of Parquet": (pd.Series([1, None, 3] * 9, dtype="Int64"), "number", "1000.5"),
    "pairs of numbers": (["1_2", "2_3", "1_2"] * 5, "category", ""),
    "codes with leading zeros": (["01234", "99999"] * 5, "category", ""),
    "truth": (["yes", "NO", ""] * 5, "boolean", ""),
    "truth of Parquet": ([True, False] * 5, "boolean", ""),
    "words": (["a", "b", "a"] * 5, "category", ""),
    "ISO days": (["2024-01-31", "2024-12-01", ""] * 5, "date", "ISO8601"),
    "ISO moments": (["2024-01-31T10:00:00Z", "2024-12-01 11:00:00+02:00"] * 5, "time", "ISO8601"),
    "German days": (["31.01.2024", "01.12.2024"] * 5, "date", "%d.%m.%Y"),
    "US days": (["01/31/2024", "12/01/2024"] * 5, "date", "%m/%d/%Y"),
    "UK days": (["31/01/2024", "01/12/2024"] * 5, "date", "%d/%m/%Y"),
    "short US days": (["01/31/24", "12/01/24"] * 5, "date", "%m/%d/%y"),
    "US days with times": (["01/31/2024 10:30:00 PM", "12/01/2024 1:00:00 AM"] * 5, "time", "%m/%d/%Y %I:%M:%S %p"),
    "written days": (["Jan 31, 2024", "Dec 1, 2024"] * 5, "date", "%b %d, %Y"),
    "days with times": (["31.01.2024 10:30", "01.12.2024 11:00"] * 5, "time", "%d.%m.%Y %H:%M"),
    "moments of Parquet": (list(pd.to_datetime(["2024-01-31 10:00", "2024-12-01 11:00"] * 5)), "time", "ISO8601"),
    "measured whole numbers": ([str(i * i) for i in range(30)], "number", "1000.5"),
}


@pytest.mark.parametrize("what", KINDS)
def test_a_column_is_what_nearly_all_its_cells_are(what: str) -> None:
    values, kind, form = KINDS[what]
    assert column_of(values) == Column("c", kind, form)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "name", "reason"),
    [
        ([f"u{i}" for i in range(30)], "c", IDENTIFIER),
        ([str(7 + i) for i in range(30)], "c", IDENTIFIER),
        ([i * i for i in range(30)], "customer_id", IDENTIFIER),
        ([i * i for i in range(30)], "customerId", IDENTIFIER),
        ([2**53 + i for i in range(30)], "c", IDENTIFIER),
        (pd.array([None, *range(2**53, 2**53 + 30)], dtype="Int64"), "c", IDENTIFIER),
        (pd.array([2**64 - 1 - i for i in range(30)], dtype="UInt64"), "c", IDENTIFIER),
        (pd.array([None, *range(2**53, 2**53 + 30)], dtype="int64[pyarrow]"), "c", IDENTIFIER),
        ([str(2**60 + i) for i in range(30)], "c", IDENTIFIER),
        (["5"] * 30, "c", "one value only"),
        (["", "NA"] * 15, "c", "empty"),
    ],
)
def test_columns_that_say_nothing_are_left_out_with_the_reason(values: list[Any], name: str, reason: str) -> None:
    assert column_of(values, name) == reason
    if reason == IDENTIFIER:
        assert isinstance(column_of(values, name, use=True), Column)


def test_a_number_can_be_declared_a_category() -> None:
    assert column_of([1, 2, 3] * 5, category=True) == Column("c", "category")


def test_a_number_that_is_fine_in_the_columns_own_form_is_not_called_odd() -> None:
    values = ["1,5", "2,25", "7"] * 30 + ["much", "1.5"]
    survey = Survey("dose")
    survey.add(pd.Series(values))
    column = survey.column()
    assert isinstance(column, Column)
    assert column.form == "1000,5"
    assert survey.notice(column) == "dose: 2 cells are not numbers ('much', '1.5') and count as missing"
    mixed = Survey("dose")
    mixed.add(pd.Series([*values[:90], *["much"] * 20]))
    column = mixed.column()
    assert isinstance(column, Column)
    assert mixed.notice(column) == "dose: 82% of the cells are numbers; because of 'much' they are categories"


_written = st.one_of(
    st.integers(-20, 2000).map(str),
    st.integers(0, 10**6).map(lambda value: f"{value / 1000:.3f}"),
    st.floats(-1e4, 1e4).map(str),
    st.sampled_from(["1.234", "12.345.678", "1.234,5", "1,5", "1,500", "007", "-01", ".5", "5.", "+3", "1e5", "1_0"]),
    st.sampled_from(["", "NA", " 7", "nan", "NAN", "-nan", "inf", "٣", "x", "2024-01-31", "yes", "9007199254740993"]),
)
_likely = st.one_of(st.lists(kind, min_size=1, max_size=30) for kind in (_written, st.integers(0, 40).map(str)))


@settings(max_examples=300)
@given(parts=st.lists(_likely, min_size=1, max_size=3), name=st.sampled_from(["c", "id"]))
def test_cells_of_pyarrow_and_of_python_make_the_same_column(parts: list[list[str]], name: str) -> None:
    arrow, python = Survey(name), Survey(name)
    for cells in parts:
        arrow.add(pd.Series(cells, dtype=pd.ArrowDtype(pyarrow.string())))
        python.add(pd.Series(cells, dtype=object))
    column = arrow.column()
    assert column == python.column()
    if isinstance(column, str):
        return
    assert arrow.notice(column) == python.notice(column)
    odd: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for cells in parts:
        frames = [
            pd.DataFrame({name: pd.Series(cells, dtype=kind)}) for kind in (pd.ArrowDtype(pyarrow.string()), object)
        ]
        try:
            read = [read_columns([column], frame, count)[name] for frame, count in zip(frames, odd, strict=True)]
        except InputError:
            for frame in frames:
                with pytest.raises(InputError):
                    read_columns([column], frame)
            continue
        assert read[0].equals(read[1])
    assert odd[0] == odd[1]


@pytest.mark.parametrize("kind", ["string[pyarrow]", "object", "float64"])
def test_an_infinite_number_is_refused_without_a_warning_of_numpy(kind: str) -> None:
    cells = pd.Series(["1", "inf", "2"], dtype="object")
    cells = cells.astype(pd.ArrowDtype(pyarrow.string()) if "arrow" in kind else kind)
    survey = Survey("a")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        survey.add(cells)
        column = survey.column()
        assert column == Column("a", "number", "1000.5")
        with pytest.raises(InputError, match=r"^Column 'a' has inf in row 1; give a number below 3e38"):
            read_columns([column], cells.to_frame("a"))
