import string
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from clinic import array
from hypothesis import given, settings
from hypothesis import strategies as st
from support import laddernet

from laddernet.errors import InputError
from laddernet.table.model import TableModel
from laddernet.table.read import open_table
from laddernet.table.rows import read_rows
from laddernet.table.table import Table


def labelled(labels: list[Any]) -> Table:
    """A table with these labels, and a column to learn from."""
    return Table.of(pd.DataFrame({"a": np.arange(len(labels)) % 7, "label": pd.Series(labels, dtype=object)}), "t")


@pytest.mark.parametrize(
    "labels",
    [
        list(string.ascii_lowercase),
        [f"w{i}" for i in range(100)],
        [str(7 + i) for i in range(40)],
        [str(i) for i in range(58) if i % 2 == 0 or i < 4],  # 31 numbers up to 56: fewer gaps than numbers
    ],
)
def test_many_classes_with_one_label_each_are_classes(labels: list[str]) -> None:
    rows = read_rows(labelled([*labels, None]), "label")
    assert rows.labels == dict.fromkeys(rows.classes, 1)
    assert sorted(rows.classes) == sorted(labels)


@pytest.mark.parametrize(
    "labels",
    [
        [f"w{i}" for i in range(101)],
        [str(i + 0.5) for i in range(21)],
        [str(2 * i + (i > 0)) for i in range(21)],  # 21 numbers from 0 to 41
        [str(i * i) for i in range(40)],
    ],
)
def test_texts_and_measurements_are_no_classes(labels: list[str]) -> None:
    with pytest.raises(InputError, match=r"^'label' has .* labelled rows; name a column that holds classes"):
        read_rows(labelled(labels), "label")
    assert len(read_rows(labelled(labels * 2), "label").classes) == len(labels)  # which are two labels each


def test_one_and_one_point_zero_are_one_class_where_all_labels_are_numbers() -> None:
    rows = read_rows(labelled(["1", "1.0", "2.", "2", "9007199254740993.0", "9007199254740992", ""]), "label")
    assert rows.labels == {"1": 2, "2": 2, "9007199254740992": 1, "9007199254740993": 1}
    assert rows.codes.tolist() == [0, 0, 1, 1, 3, 2, -1]
    assert read_rows(labelled(["1", "1.0", "v2"]), "label").classes == ("1", "1.0", "v2")


def test_a_row_is_unlabelled_if_its_cell_is_empty_or_has_the_mark() -> None:
    table = labelled(["x", "unknown", "y", None, " unknown "])
    assert read_rows(table, "label").classes == ("unknown", "x", "y")
    assert read_rows(table, "label", unlabeled="unknown").codes.tolist() == [0, -1, 1, -1, -1]
    numbers = labelled(["1", "-1", "2", "-1.0"])
    for mark in ("-1", "-1.0", -1, -1.0):
        assert read_rows(numbers, "label", unlabeled=mark).codes.tolist() == [0, -1, 1, -1]


@pytest.mark.parametrize("label", ["-1", "-1.0"])
def test_minus_one_is_only_told_to_be_a_class_where_nobody_said_so(label: str) -> None:
    table = labelled(["x", label, "y"] * 3)
    notice = f"label: {label} is taken for a class; if it marks rows without a label, give --unlabeled -1"
    assert read_rows(table, "label").notices == [notice]
    assert read_rows(table, "label", unlabeled="").notices == []
    assert read_rows(table, "label", unlabeled="-1").notices == []


@pytest.mark.parametrize("y", [[-1, 0, 1] * 3, [-1.0, 0.0, 1.0] * 3, ["-1", "0", "1"] * 3, [b"-1", b"0", b"1"] * 3])
def test_minus_one_marks_unlabelled_rows_of_an_array_unless_that_is_switched_off(tmp_path: Path, y: list[Any]) -> None:
    table = array(tmp_path, y)
    assert read_rows(table, None).labels == {"0": 3, "1": 3}
    assert read_rows(table, None, unlabeled="").labels == {"-1": 3, "0": 3, "1": 3}
    assert read_rows(table, None, unlabeled="0").labels == {"-1": 3, "1": 3}


def test_where_a_mark_leaves_one_class_the_sentence_says_so(tmp_path: Path) -> None:
    array(tmp_path, [-1.0, 1.0] * 5)
    done = laddernet("fit", "t.npz", cwd=tmp_path)
    but = "but -1, which marks rows without a label"
    advice = "if -1 is a class of yours, give --unlabeled ''"
    assert done == (2, "", f"laddernet: t.npz: all labels are '1' {but}; {advice}.\n")
    with pytest.raises(InputError, match=f"^t: no row has a 'label' {but}; give at least one label"):
        read_rows(labelled(["-1", None]), "label", unlabeled="-1")
    done = laddernet("curve", "t.npz", "--unlabeled", "-1", cwd=tmp_path)  # which looks like an option, and is none
    assert done.err.startswith("laddernet: t.npz: all labels are '1' but -1,")
    array(tmp_path, [-1, 1, 1, 1])
    done = laddernet("curve", "t.npz", "--unlabeled", "", cwd=tmp_path)
    assert done.err.startswith("laddernet: '-1' has one label; ")


def whole_numbers_in(container: str, values: list[int | None], folder: Path) -> Table:
    """A table whose target is these numbers, as it comes out of a file or a frame."""
    frame = pd.DataFrame({"x": np.arange(len(values)) % 7})
    unsigned = max(value for value in values if value is not None) >= 2**63
    kind = f"{'u' if unsigned else ''}int64"
    if container == "Arrow":
        return Table.of(frame.assign(y=pd.array(values, dtype=f"{kind}[pyarrow]")))
    frame["y"] = pd.Series(values, dtype=object if container == "object" else kind.replace("i", "I").replace("u", "U"))
    if container == "CSV":
        frame.to_csv(folder / "t.csv", index=False)
        return open_table(folder / "t.csv")
    if container == "Parquet":
        frame.to_parquet(folder / "t.parquet")
        return open_table(folder / "t.parquet")
    return Table.of(frame)


@settings(max_examples=25, deadline=None)
@given(
    values=st.one_of(
        st.lists(st.one_of(st.none(), st.integers(low, low + 2**64 - 1)), min_size=4, max_size=12)
        for low in (-(2**63), 0)
    ).filter(lambda values: len(set(values) - {None}) > 1)
)
@pytest.mark.parametrize("container", ["CSV", "Parquet", "object", "Int64", "Arrow"])
def test_the_classes_of_a_table_are_its_whole_numbers_with_all_digits(container: str, values: list[int | None]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rows = read_rows(whole_numbers_in(container, values, Path(folder)), "y")
    assert [int(name) for name in rows.classes] == sorted(set(values) - {None})  # type: ignore[type-var]
    assert [None if code < 0 else int(rows.classes[code]) for code in rows.codes] == values


@pytest.mark.parametrize(
    "values",
    [np.float32([0.1, 0.7]), pd.array([0.1, 0.7], dtype="Float32"), np.array([0.1, 0.7]), np.float16([0.1, 0.7])],
    ids=lambda values: str(values.dtype),
)
def test_a_label_of_any_float_is_written_as_people_write_it(values: Any) -> None:
    frame = pd.DataFrame({"x": np.arange(20) % 7, "y": pd.Series(values).take([0, 1] * 10).reset_index(drop=True)})
    assert read_rows(Table.of(frame), "y").classes == ("0.1", "0.7")
    assert read_rows(Table.of(frame), "y", unlabeled=values[0] if len(values) > 2 else None).classes == ("0.1", "0.7")


@pytest.mark.parametrize("mark", [[], (), [-1], {}, np.array([-1, 2])])
def test_a_mark_that_is_several_values_is_one_sentence(mark: Any) -> None:
    with pytest.raises(InputError, match=r"^unlabeled must be one value or None, got "):
        TableModel.fit(pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), "b", unlabeled=mark)
