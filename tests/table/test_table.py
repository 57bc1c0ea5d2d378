import csv
import io
import json
import math
import os
import re
import string
import subprocess
import sys
import tempfile
import tracemalloc
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import StratifiedKFold
from support import Finished, laddernet

from laddernet.classifier.estimator import LadderClassifier
from laddernet.errors import InputError
from laddernet.inference import modelfile
from laddernet.table import columns as cells
from laddernet.table import read
from laddernet.table.columns import Column, Survey, read_columns
from laddernet.table.model import Estimate, TableModel, read_rows
from laddernet.table.read import Table, open_table
from laddernet.table.suggest import rank, suggest
from laddernet.table.write import csv_writer

# One network for all tests, and tables with the same inputs and classes, so that it is compiled once.
NETWORK: dict[str, Any] = {"hidden": [8], "max_steps": 64, "n_networks": 2, "random_state": 1}
OPTIONS = ("--hidden", "8", "--max-steps", "64", "--networks", "2", "--seed", "1")


def clinic(rows: int = 240, labelled: int = 60, seed: int = 0) -> pd.DataFrame:
    """A table with a column of each kind; whether one is ill shows in age, ward, smoking and the day."""
    rng = np.random.default_rng(seed)
    ill = rng.integers(0, 2, rows)
    days = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 200, rows) + 150 * ill, unit="D")
    frame = pd.DataFrame(
        {
            "patient": np.arange(rows) + 1000,
            "age": (40 + 25 * ill + rng.normal(0, 5, rows)).round(1),
            "ward": rng.choice(["north", "süd, 2", "east"], rows),
            "smoker": np.where(rng.random(rows) < 0.2 + 0.6 * ill, "yes", "no"),
            "admitted": days.strftime("%Y-%m-%d"),
            "hospital": "General",
            "result": np.where(ill == 1, "ill", "well"),
        }
    )
    frame.loc[::7, "age"] = np.nan
    frame.loc[labelled:, "result"] = None
    return frame


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Finished]:
    """A folder with clinic.csv and the model that `fit` made of it, and what it printed; not to be changed."""
    folder = tmp_path_factory.mktemp("clinic")
    clinic().to_csv(folder / "clinic.csv", index=False)
    done = laddernet("fit", "clinic.csv", "--target", "result", *OPTIONS, cwd=folder)
    assert (done.code, done.err) == (0, "")
    return folder, done


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "CELLS", 100)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# --- Reading ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_a_csv_files_delimiter_is_found_and_its_cells_are_what_pandas_reads(
    tmp_path: Path, delimiter: str, small_parts: None
) -> None:
    path = tmp_path / "t.csv"
    frame = clinic(50).assign(note='a "quote"\nand, a; line|break\t', amount="1,5")
    frame.to_csv(path, index=False, sep=delimiter)
    table = open_table(path)
    read_back = pd.concat(table.parts(table.columns))
    assert read_back.index.tolist() == list(range(1, 51))
    expected = pd.read_csv(path, sep=delimiter, dtype=str, keep_default_na=False)
    assert read_back.reset_index(drop=True).astype(str).equals(expected.astype(str))


@pytest.mark.parametrize(
    ("encoding", "asked"),
    [
        ("utf-8", None),
        ("utf-8-sig", None),
        ("utf-16", None),
        ("cp1252", "cp1252"),
        ("utf-8-sig", "utf-8"),  # a byte order mark is no part of the first name, whoever names the encoding
        ("utf-16", "utf-16-le" if sys.byteorder == "little" else "utf-16-be"),
    ],
)
def test_a_csv_files_encoding_is_told_by_its_first_bytes_or_by_the_user(
    tmp_path: Path, encoding: str, asked: str | None
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("größe;b\n1;ä\n\n2;ö\n", encoding=encoding)
    (part,) = open_table(path, encoding=asked).parts(["größe", "b"])
    assert part.to_dict("list") == {"größe": ["1", "2"], "b": ["ä", "ö"]}


def test_a_nameless_first_column_as_pandas_and_r_write_it_gets_a_name(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(",a\n0,5\n1,6\n")
    assert open_table(tmp_path / "t.csv").columns == ["column 1", "a"]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_npz_file_is_read_in_parts_with_images_as_rows(
    tmp_path: Path, save: Callable[..., None], order: Any, small_parts: None
) -> None:
    x = np.asarray(np.random.default_rng(0).normal(size=(70, 3, 4)), order=order)
    save(tmp_path / "t.npz", X=x, y=np.arange(70), names=np.array([f"n{i}" for i in range(70)]))
    table = open_table(tmp_path / "t.npz")
    parts = list(table.parts(["x11", "x0", "names"]))
    assert len(parts) == 9
    whole = pd.concat(parts)
    assert np.array_equal(whole[["x0", "x11"]], x.reshape(70, 12)[:, [0, 11]])
    assert whole["names"].tolist() == [f"n{i}" for i in range(70)]
    assert whole.index.tolist() == list(range(1, 71))


def test_a_parquet_file_is_read_in_parts(tmp_path: Path, small_parts: None) -> None:
    frame = clinic(50)
    frame.to_parquet(tmp_path / "t.parquet")
    parts = list(open_table(tmp_path / "t.parquet").parts(["age", "patient"]))
    assert len(parts) == 4
    expected = frame[["age", "patient"]].astype({"patient": "Int64"})  # which has room for what is missing
    assert pd.concat(parts).reset_index(drop=True).equals(expected)


def test_without_pyarrow_a_parquet_file_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic(9).to_parquet(tmp_path / "t.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"pip install 'laddernet\[parquet\]', or save the table as CSV\.$"):
        open_table(tmp_path / "t.parquet")


# --- Columns ----------------------------------------------------------------------------------------------------


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


IDENTIFIER = "every value is different, as in an identifier"


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


def test_cells_that_are_no_numbers_and_days_that_could_be_months_are_told(tmp_path: Path) -> None:
    frame = clinic()
    frame["dose"] = np.where(np.arange(len(frame)) == 5, "much", np.arange(len(frame)) / 2)
    frame["due"] = ["01/02/2024", "03/04/2024"] * (len(frame) // 2)
    frame["weight"] = np.where(np.arange(len(frame)) % 10 == 5, "-", np.arange(len(frame)) % 30)
    assert read_rows(Table.of(frame), "result").notices == [
        "dose: 1 of its cells are no numbers ('much') and count as missing",
        "due: day and month could be either way round, and are read as %m/%d/%Y",
        "weight: 90% of its cells are numbers; because of '-' it holds categories",
    ]
    frame["result"] = np.where(frame["result"].isna(), "-1", frame["result"])
    notice = "result: -1 is taken for a class; if it marks rows without a label, say --unlabeled -1"
    assert read_rows(Table.of(frame), "result").notices[-1] == notice


def test_a_number_that_is_fine_in_the_columns_own_form_is_not_called_odd() -> None:
    values = ["1,5", "2,25", "7"] * 30 + ["much", "1.5"]
    survey = Survey("dose")
    survey.add(pd.Series(values))
    column = survey.column()
    assert isinstance(column, Column)
    assert column.form == "1000,5"
    assert survey.notice(column) == "dose: 2 of its cells are no numbers ('much', '1.5') and count as missing"
    mixed = Survey("dose")
    mixed.add(pd.Series([*values[:90], *["much"] * 20]))
    column = mixed.column()
    assert isinstance(column, Column)
    assert mixed.notice(column) == "dose: 82% of its cells are numbers; because of 'much' it holds categories"


def test_inputs_are_what_pandas_computes_by_hand() -> None:
    frame = clinic()
    frame["seen"] = pd.Series(pd.to_datetime(frame["admitted"]) + pd.Timedelta(hours=6, minutes=30)).astype(str)
    frame.loc[3, "seen"] = ""
    frame["ward"] = frame["ward"].where(frame.index != 5, "lost").where(frame.index != 6, None)
    rows = read_rows(Table.of(frame), "result")
    admitted, seen = pd.to_datetime(frame["admitted"]), pd.to_datetime(frame["seen"], errors="coerce")
    filled = seen.fillna(seen.quantile(0.5))

    def parts(days: "pd.Series[Any]", first: Any) -> list[Any]:
        since = (days - first) / pd.Timedelta(days=1)
        return [days.dt.year, days.dt.month, days.dt.day_of_week, days.dt.day_of_year, since]

    expected = [
        frame["age"].fillna(frame["age"].median()),
        frame["smoker"] == "yes",
        frame["age"].isna(),
        *parts(admitted, admitted.min()),
        *parts(filled, seen.min()),
        filled.dt.hour + filled.dt.minute / 60,
        seen.isna(),
        *(frame["ward"] == ward for ward in ("east", "north", "süd, 2")),
        ~frame["ward"].isin(["east", "north", "süd, 2"]),  # 'lost' and the missing one, both rare
    ]
    assert np.allclose(rows.X, np.stack(expected, axis=1).astype(float), rtol=1e-12, atol=1e-9)
    assert rows.dropped == {"patient": IDENTIFIER, "hospital": "one value only"}


def test_a_column_with_hardly_two_equal_words_is_left_out() -> None:
    frame = clinic().assign(name=[f"n{i % 230}" for i in range(240)])
    assert read_rows(Table.of(frame), "result").dropped["name"] == "nearly every value is different"
    assert "name" in [column.name for column in read_rows(Table.of(frame), "result", use=["name"]).columns]


def test_a_column_becomes_no_more_than_fifty_inputs() -> None:
    frame = clinic(2000).assign(code=[f"c{i % 100}" for i in range(2000)])
    rows = read_rows(Table.of(frame[["code", "result"]]), "result")
    assert rows.X.shape == (2000, 50)
    assert (rows.X.sum(axis=1) == 1).all()


_numbers = st.one_of(st.none(), st.floats(-1e6, 1e6).map(lambda value: round(value, 3)))
_words = st.one_of(st.none(), st.sampled_from(["a", "b", "c", "", "NA", "ä", "\0", "1"]), st.text(max_size=3))
_days = st.one_of(st.none(), st.dates().map(str))
_truths = st.sampled_from(["yes", "no", None])
_tables = st.lists(st.tuples(_numbers, _numbers, _words, _words, _days, _truths), min_size=4, max_size=60)


@settings(max_examples=25, deadline=None)
@given(learned=_tables, new=_tables)
def test_a_transformer_that_was_stored_transforms_any_table_as_before(learned: list[Any], new: list[Any]) -> None:
    kinds = {"n1": "number", "n2": "number", "w1": "category", "w2": "category", "d": "date", "t": "boolean"}
    forms = {"number": "1000.5", "date": "ISO8601"}
    before = pd.DataFrame(learned, columns=list(kinds), dtype=object)
    columns = [Column(name, kind, forms.get(kind, "")) for name, kind in kinds.items()]  # type: ignore[arg-type]
    frame = read_columns(columns, before)
    # As `read_rows` does: what is empty, or has no category that comes twice, is no column.
    columns = [
        column
        for column in columns
        if (
            frame[column.name].value_counts().iloc[0] > 1
            if column.kind == "category"
            else frame[column.name].notna().any()
        )
    ]
    if not columns:
        return
    frame = frame[[column.name for column in columns]]
    transformer = cells.learn(columns, frame)
    arrays, about = cells.state(columns, transformer)
    stored = safetensors.numpy.load(safetensors.numpy.save(arrays))
    restored = cells.restore(columns, stored, json.loads(json.dumps(about)))
    assert type(restored) is type(transformer)
    assert restored.get_feature_names_out().tolist() == transformer.get_feature_names_out().tolist()
    for table in (before, pd.DataFrame(new, columns=list(kinds), dtype=object)):
        read_table = read_columns(columns, table)
        assert np.array_equal(restored.transform(read_table), transformer.transform(read_table))


def test_rare_categories_are_not_named_in_the_model() -> None:
    frame = clinic().assign(who=["common"] * 239 + ["Jane Doe"])
    rows = read_rows(Table.of(frame), "result")
    _, about = cells.state(rows.columns, rows.transformer)
    assert about["categories"]["who"] == {"kept": ["common"], "pooled": 1}


# --- Labels -----------------------------------------------------------------------------------------------------


def labelled(labels: list[Any]) -> Table:
    """A table with these labels, and a column to learn from."""
    return Table.of(pd.DataFrame({"a": np.arange(len(labels)) % 7, "label": pd.Series(labels, dtype=object)}), "t")


def array(folder: Path, y: Any) -> Table:
    np.savez(folder / "t.npz", X=np.random.default_rng(0).normal(size=(len(y), 2)), y=np.array(y))
    return open_table(folder / "t.npz")


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
    notice = f"label: {label} is taken for a class; if it marks rows without a label, say --unlabeled -1"
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
    advice = "if -1 is a class of yours, say --unlabeled ''"
    assert done == (2, "", f"laddernet: t.npz: all labels are '1' {but}; {advice}.\n")
    with pytest.raises(InputError, match=f"^t: no row has a 'label' {but}; give at least one label"):
        read_rows(labelled(["-1", None]), "label", unlabeled="-1")
    done = laddernet("curve", "t.npz", "--unlabeled", "-1", cwd=tmp_path)  # which looks like an option, and is none
    assert done.err.startswith("laddernet: t.npz: all labels are '1' but -1,")
    array(tmp_path, [-1, 1, 1, 1])
    done = laddernet("curve", "t.npz", "--unlabeled", "", cwd=tmp_path)
    assert done.err.startswith("laddernet: '-1' has one label; ")


def test_bytes_are_the_text_that_they_hold(tmp_path: Path) -> None:
    assert read_rows(array(tmp_path, ["dög".encode(), b"cat"] * 4), None).classes == ("cat", "dög")
    assert cells.texts(pd.Series([b"NA", b"\xff", b"\xfe"])).tolist() == ["", "\\xff", "\\xfe"]


def test_a_model_made_in_python_warns_of_what_fit_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LadderClassifier, "fit", lambda self, *_: self)
    frame = clinic().assign(result=clinic()["result"].fillna("-1"))
    with pytest.warns(UserWarning, match="^result: -1 is taken for a class; if it marks rows without a label"):
        assert TableModel.fit(frame, "result").labels.keys() == {"-1", "ill", "well"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = TableModel.fit(frame, "result", unlabeled=-1)
    assert model.labels.keys() == {"ill", "well"}
    assert model.unlabeled == "-1"


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


def test_suggestions_keep_all_digits_of_an_identifier(
    tmp_path: Path, fitted: tuple[Path, Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = clinic(20, 0).assign(key=pd.array([None, *range(2**53 + 1, 2**53 + 20)], dtype="Int64"))
    frame.to_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(read, "CELLS", 40)  # several parts, one of which has no missing key
    model = TableModel.load(fitted[0] / "clinic.safetensors")
    found = suggest(model, open_table(tmp_path / "t.parquet"), count=20, keep=["key"]).frame["key"]
    assert sorted(found.dropna()) == list(range(2**53 + 1, 2**53 + 20))


# --- fit --------------------------------------------------------------------------------------------------------


def test_fit_tells_the_labels_of_each_class_what_is_not_used_and_what_to_expect(fitted: tuple[Path, Finished]) -> None:
    folder, done = fitted
    lines = done.out.splitlines()
    counts = clinic()["result"].value_counts()
    assert lines[0] == "clinic.csv: 240 rows, 60 of them labelled; 4 columns are used"
    assert [line.split()[:2] for line in lines[1:3]] == [["ill", str(counts["ill"])], ["well", str(counts["well"])]]
    assert lines[3:5] == [f"Not used: 'patient' ({IDENTIFIER})", "Not used: 'hospital' (one value only)"]
    assert lines[5].endswith("saved to clinic.safetensors")
    assert lines[6].startswith("Expected error on new rows: ")
    assert lines[7].startswith("With half of the labels it is ")
    assert len(lines) == 8
    assert sorted(os.listdir(folder)) == ["clinic.csv", "clinic.safetensors"]


def by_hand(frame: pd.DataFrame) -> np.ndarray:
    """The inputs of the clinic's columns, made with pandas alone."""
    days = pd.to_datetime(frame["admitted"])
    known = clinic()
    first = pd.to_datetime(known["admitted"]).min()
    wards = [(frame["ward"] == ward) for ward in ("east", "north", "süd, 2")]
    columns = [
        frame["age"].fillna(known["age"].median()),
        frame["smoker"] == "yes",
        frame["age"].isna(),
        *(days.dt.year, days.dt.month, days.dt.day_of_week, days.dt.day_of_year, (days - first).dt.days),
        *wards,
    ]
    return np.stack(columns, axis=1).astype(float)


def hand_made() -> LadderClassifier:
    codes = clinic()["result"].map({"ill": 0, "well": 1}).fillna(-1).to_numpy(int)
    return LadderClassifier(**NETWORK).fit(by_hand(clinic()), codes)


def test_predict_writes_what_the_estimator_says_of_inputs_made_by_hand(
    tmp_path: Path, fitted: tuple[Path, Finished]
) -> None:
    new = clinic(100, 100, seed=3)
    # Other order, an additional column, another delimiter, and no target: columns are matched by their names.
    shuffled = new[["smoker", "age", "patient", "admitted", "ward"]].assign(extra=1)
    shuffled.to_csv(tmp_path / "new.csv", index=False, sep=";")
    model = fitted[0] / "clinic.safetensors"
    options = ("--out", "p.csv", "--proba", "--keep", "patient")
    done = laddernet("predict", model, "new.csv", *options, cwd=tmp_path)
    assert done == (0, "100 rows; saved to p.csv\n", "new.csv: 'extra' not known to the model, and not used.\n")
    expected = hand_made().predict_proba(by_hand(new))
    rows = rows_of(tmp_path / "p.csv")
    assert list(rows[0]) == ["patient", "class", "confidence", "p(ill)", "p(well)"]
    assert [int(row["patient"]) for row in rows] == new["patient"].tolist()
    assert [row["class"] for row in rows] == [("ill", "well")[k] for k in expected.argmax(axis=1)]
    given_p = np.array([[float(row["p(ill)"]), float(row["p(well)"])] for row in rows])
    assert np.abs(given_p - expected).max() < 1e-5
    assert np.array_equal([float(row["confidence"]) for row in rows], given_p.max(axis=1))
    # and it has learned something
    assert np.mean([row["class"] == truth for row, truth in zip(rows, new["result"], strict=True)]) > 0.8


def test_the_same_rows_as_parquet_or_in_small_parts_get_the_same_predictions(
    tmp_path: Path, fitted: tuple[Path, Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    new = clinic(100, seed=3)
    new.to_csv(tmp_path / "new.csv", index=False)
    new.assign(admitted=pd.to_datetime(new["admitted"])).to_parquet(tmp_path / "new.parquet")
    model = fitted[0] / "clinic.safetensors"
    outs = [laddernet("predict", model, name, cwd=tmp_path) for name in ("new.csv", "new.parquet")]
    monkeypatch.setattr(read, "CELLS", 70)
    outs.append(laddernet("predict", model, "new.csv", cwd=tmp_path))
    frames = [pd.read_csv(io.StringIO(out.out)) for out in outs]
    for frame in frames:
        assert list(frame.columns) == ["class", "confidence"]
        assert frame["class"].equals(frames[0]["class"])
        # A matrix product of fewer rows is summed in another order.
        assert np.allclose(frame["confidence"], frames[0]["confidence"], atol=2e-6)


def test_columns_of_a_parquet_file_are_copied_as_they_are(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    key = pd.array([9007199254740993, None, 1], dtype="Int64")
    more = {"key": key, "share": np.float32([0.1, np.nan, 2]), "list": [[1, 2], [], None], "on": [True, None, False]}
    clinic(3).assign(**more).to_parquet(tmp_path / "new.parquet")
    keep = ("--keep", "key,share,list,on")
    done = laddernet("predict", fitted[0] / "clinic.safetensors", "new.parquet", *keep, cwd=tmp_path)
    copied = [row[:4] for row in csv.reader(done.out.splitlines())]
    assert copied[1:] == [["9007199254740993", "0.1", "[1, 2]", "True"], ["", "", "[]", ""], ["1", "2.0", "", "False"]]


FORMULAS = ["=HYPERLINK(0)", "+1-2", "-x", "@a", "\tb", "a;=b", "it's", "-1.5", "+49 30", 'say "-no"']


@pytest.fixture(scope="session")
def formulas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table of cells that a spreadsheet would compute, and a model whose classes are such."""
    folder = tmp_path_factory.mktemp("formulas")
    frame = clinic()
    frame["result"] = frame["result"].map({"ill": "=ill()", "well": "-1"})
    frame["=note"] = (FORMULAS * len(frame))[: len(frame)]
    frame.to_csv(folder / "t.csv", index=False)
    done = laddernet(*("fit", "t.csv", "--target", "result", "--drop", "=note", *OPTIONS, "--no-estimate"), cwd=folder)
    assert (done.code, done.err) == (0, "")
    return folder


@pytest.mark.parametrize("command", ["predict", "suggest"])
def test_no_cell_that_is_written_is_a_formula_and_all_are_read_as_they_were(
    formulas: Path, tmp_path: Path, command: str
) -> None:
    more = ("--proba",) if command == "predict" else ("--count", "200")
    options = ("t.safetensors", "t.csv", "--keep", "=note,age", "--out", tmp_path / "p.csv", *more)
    assert laddernet(command, *options, cwd=formulas).code == 0
    header, *rows = csv.reader(io.StringIO((tmp_path / "p.csv").read_text()))
    written = {cell for row in (header, *rows) for cell in row}
    assert {"'=note", "'=HYPERLINK(0)", "'=ill()", "a;'=b", "it's", "-1.5", "-1"} <= written
    for cell in written:
        with suppress(ValueError):
            float(cell)
            continue
        assert not any(part.strip().startswith(tuple("=+-@")) for part in re.split('[,;"]', cell))
    (again,) = open_table(tmp_path / "p.csv").parts(["=note", "class"])
    assert set(again["=note"]) <= set(FORMULAS)
    assert set(again["class"]) == {"=ill()", "-1"}

    assert laddernet(command, *options, "--raw", cwd=formulas).code == 0
    header, *rows = csv.reader(io.StringIO((tmp_path / "p.csv").read_text()))
    assert {"=note", "=HYPERLINK(0)", "=ill()", "a;=b"} <= {cell for row in (header, *rows) for cell in row}


@given(st.lists(st.text(alphabet="=+-@',;\"\t\n x1.", min_size=1), min_size=1))
def test_a_spreadsheet_finds_no_formula_in_any_text_and_it_is_read_as_it_was(given_texts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        with csv_writer(path) as out:
            out.writerow(["first", "text"])
            out.writerows(["x", text] for text in given_texts)
        with path.open(newline="") as file:
            written = [row[1] for row in list(csv.reader(file))[1:]]
        for cell in written:
            if not re.fullmatch(r"[+-]?(\d+[.,]?\d*|[.,]\d+)", cell):
                assert not any(part.lstrip().startswith(tuple("=+-@")) for part in re.split('[,;"]', cell))
        (part,) = open_table(path, delimiter=",").parts(["text"])
        assert [text.lstrip(" ") for text in part["text"]] == [text.lstrip(" ") for text in given_texts]


def test_no_rows_and_a_column_twice_are_one_sentence(fitted: tuple[Path, Finished]) -> None:
    model = TableModel.load(fitted[0] / "clinic.safetensors")
    with pytest.raises(ValueError, match="Found array with 0 sample"):
        model.predict(clinic()[:0])
    twice = pd.concat([clinic(9), clinic(9)[["age"]]], axis=1)
    with pytest.raises(InputError, match="The table has two columns named 'age'; give each a name of its own"):
        model.predict(twice)


def test_more_rows_without_labels_and_npz_are_learned_from(tmp_path: Path) -> None:
    # Columns such that the network's shape is that of the clinic: eleven inputs, two classes.
    rng = np.random.default_rng(0)
    y = np.tile([0, 1], 60)
    x = rng.normal(size=(120, 11)) + 2 * y[:, None]
    np.savez(tmp_path / "few.npz", X=x[:60], y=np.where(np.arange(60) < 20, y[:60], -1))
    np.savez(tmp_path / "more.npz", X=x[60:])
    done = laddernet("fit", "few.npz", "--also", "more.npz", *OPTIONS, "--no-estimate", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("few.npz: 120 rows, 20 of them labelled; 11 columns are used\n")
    codes = np.where(np.arange(120) < 20, y, -1)
    expected = LadderClassifier(**NETWORK).fit(x, codes).predict(x)
    done = laddernet("predict", "few.safetensors", "more.npz", cwd=tmp_path)
    assert [int(line.split(",")[0]) for line in done.out.splitlines()[1:]] == expected[60:].tolist()
    done = laddernet("suggest", "few.safetensors", "few.npz", "--count", "60", cwd=tmp_path)
    assert {int(line.split(",")[1]) for line in done.out.splitlines()[1:]} == set(range(21, 61))
    np.savez(tmp_path / "wide.npz", X=np.zeros((3, 12)))
    done = laddernet("predict", "few.safetensors", "wide.npz", cwd=tmp_path)
    assert done == (2, "", "laddernet: wide.npz: X has 12 columns; the model takes 11.\n")


def test_the_estimate_is_what_cross_validation_by_hand_gives(fitted: tuple[Path, Finished]) -> None:
    known = TableModel.load(fitted[0] / "clinic.safetensors").estimate
    assert known is not None
    x = by_hand(clinic())
    codes = clinic()["result"].map({"ill": 0, "well": 1}).fillna(-1).to_numpy(int)
    wrong, judged = [], []
    for learn, judge in StratifiedKFold(3, shuffle=True, random_state=1).split(x[:60], codes[:60]):
        rows = np.concatenate([learn, np.arange(60, 240)])  # the rows that are judged by are not seen at all
        predicted = LadderClassifier(**NETWORK).fit(x[rows], codes[rows]).predict(x[judge])
        wrong.append(int(np.count_nonzero(predicted != codes[judge])))
        judged.append(len(judge))
    assert (known.folds, known.labels) == (3, 40)
    assert (known.wrong, known.judged) == (sum(wrong), 60)
    assert math.isclose(known.error, 100 * sum(wrong) / 60)
    assert math.isclose(known.spread, 100 * float(np.std(np.divide(wrong, judged))))
    assert math.isclose(known.majority_error, 100 * (1 - np.bincount(codes[:60]).max() / 60))
    assert known.half_labels in (20, 21)


def test_what_more_labels_would_gain_is_only_told_where_it_shows() -> None:
    clear = Estimate(3, 100, 150, 12, spread=1.0, majority_error=50.0, half_labels=50, half_error=12.0)
    assert clear.sentences()[1] == "With half of the labels it is 12.0 %; with twice as many it would perhaps be 5.3 %."
    unclear = Estimate(3, 100, 150, 12, spread=1.0, majority_error=50.0, half_labels=50, half_error=8.5)
    assert unclear.sentences()[1].endswith("no clear difference: what more labels would gain cannot be told.")
    by_few_rows = Estimate(3, 8, 12, 1, spread=0.0, majority_error=50.0, half_labels=4, half_error=16.7)
    assert by_few_rows.sentences()[1].endswith("no clear difference: what more labels would gain cannot be told.")
    assert len(Estimate(2, 2, 4, 0, spread=0.0, majority_error=50.0).sentences()) == 1


@given(judged=st.integers(2, 500), data=st.data())
def test_no_estimate_is_certain_however_equal_the_folds_are(judged: int, data: st.DataObject) -> None:
    wrong = data.draw(st.integers(0, judged))
    found = Estimate(3, judged, judged, wrong, spread=0.0, majority_error=50.0, half_labels=1, half_error=40.0)
    about = found.about()
    low, high = about["interval"]
    assert low <= about["error"] <= high
    assert high - low >= 0.5
    assert high >= 100 * (1 - 0.05 ** (1 / judged)) - 1e-9
    assert (low > 0) == (wrong > 0)
    sentence, further = found.sentences()
    assert "±" not in sentence
    assert f"{about['error']:.1f} %, between {low:.1f} and {high:.1f} % with 90 % confidence" in sentence
    assert f"({wrong:,} of {judged:,} labelled rows wrong in 3-fold cross-validation" in sentence
    assert "perhaps be 0.0 %" not in further


def test_an_estimate_of_an_older_file_has_the_counts_that_its_error_means(
    tmp_path: Path, fitted: tuple[Path, Finished]
) -> None:
    arrays, about = modelfile.read(fitted[0] / "clinic.safetensors", "table")
    about["estimate"] = {"folds": 3, "labels": 40, "error": 0.0, "spread": 0.0, "majority_error": 50.0}
    modelfile.write(tmp_path / "old.safetensors", "table", arrays, about)
    old = TableModel.load(tmp_path / "old.safetensors").estimate
    assert old is not None
    assert (old.judged, old.wrong) == (60, 0)
    assert "between 0.0 and 4.9 % with 90 % confidence (0 of 60 labelled rows wrong" in old.sentences()[0]


def test_there_is_no_estimate_where_labels_or_time_do_not_allow_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = clinic()
    few.loc[few.index[few["result"] == "ill"][1:], "result"] = None
    few.to_csv(tmp_path / "few.csv", index=False)
    clinic().to_csv(tmp_path / "clinic.csv", index=False)
    done = laddernet("fit", "few.csv", "--target", "result", *OPTIONS, cwd=tmp_path)
    end = "No estimate: 'ill' has one label; with two or more of each class there would be one."
    assert done.out.splitlines()[-1] == end
    monkeypatch.setattr("laddernet.cli.table._PATIENCE", 0)
    done = laddernet("fit", "clinic.csv", "--target", "result", *OPTIONS, cwd=tmp_path)
    assert done.out.splitlines()[-1].startswith("No estimate: it would take some 0 minutes;")
    assert TableModel.load(tmp_path / "clinic.safetensors").estimate is None


def test_a_model_in_python_is_the_one_that_its_file_holds(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    model = TableModel.fit(clinic(), "result", **NETWORK)
    model.save(tmp_path / "m.safetensors")
    new = clinic(50, seed=5)
    again = TableModel.load(tmp_path / "m.safetensors")
    assert np.array_equal(model.predict_proba(new), again.predict_proba(new))
    assert np.array_equal(
        TableModel.load(fitted[0] / "clinic.safetensors").predict_proba(new), again.predict_proba(new)
    )
    assert set(again.predict(new)) <= {"ill", "well"}
    with pytest.raises(InputError, match=r"^The table has no column 'age'; "):
        again.predict(new.drop(columns="age"))


# --- predict ----------------------------------------------------------------------------------------------------


def test_a_table_four_times_as_long_takes_no_more_memory(
    tmp_path: Path, fitted: tuple[Path, Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "CELLS", 7 * 500)
    model = fitted[0] / "clinic.safetensors"
    block = clinic(1000, 0, seed=1).to_csv(index=False, header=False)
    header = ",".join(clinic(1).columns) + "\n"
    peaks = []
    for blocks in (2, 8):
        (tmp_path / "long.csv").write_text(header + block * blocks)
        tracemalloc.start()
        done = laddernet("predict", model, "long.csv", "--out", "p.csv", cwd=tmp_path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert done.out == f"{1000 * blocks:,} rows; saved to p.csv\n"
    assert peaks[1] < 1.1 * peaks[0]
    assert peaks[1] < 8e6


def test_cells_that_cannot_be_read_count_as_missing_and_are_told(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    new = clinic(20, seed=2).astype({"age": object})
    odd = new.copy()
    odd.loc[4, "age"] = "old"
    new.loc[4, "age"] = None
    odd.to_csv(tmp_path / "odd.csv", index=False)
    new.to_csv(tmp_path / "new.csv", index=False)
    model = fitted[0] / "clinic.safetensors"
    done = laddernet("predict", model, "odd.csv", cwd=tmp_path)
    assert (done.code, done.err) == (0, "age: 1 cells were not understood and count as missing.\n")
    assert done.out == laddernet("predict", model, "new.csv", cwd=tmp_path).out


def test_a_column_of_which_no_cell_is_understood_is_refused(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    model = TableModel.load(fitted[0] / "clinic.safetensors")
    new = clinic(21, seed=2)
    comma = [f"{age:.1f}".replace(".", ",") if age == age else "" for age in new["age"]]
    days = pd.to_datetime(new["admitted"]).dt.strftime("%d.%m.%Y")
    for name, odd, right in (
        ("age", comma, "numbers written as 1000.5"),
        ("admitted", days, "dates written as 2024-01-31"),
        ("smoker", "ja", "yes or no"),
    ):
        with pytest.raises(InputError) as refused:
            model.predict(new.assign(**{name: odd}))
        assert str(refused.value).startswith(f"Column {name!r}: not one of its ")
        assert str(refused.value).endswith(f"; give {right}, as when the model was fitted.")
    new.assign(age=comma).to_csv(tmp_path / "new.csv", index=False)
    done = laddernet("predict", fitted[0] / "clinic.safetensors", "new.csv", "--out", "p.csv", cwd=tmp_path)
    cells_of_age = f"not one of its 18 filled cells is understood ('{comma[1]}', '{comma[2]}')"
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"laddernet: Column 'age': {cells_of_age}; give ")
    assert os.listdir(tmp_path) == ["new.csv"]
    unread: Counter[str] = Counter()
    model.features(new.assign(smoker=["ja"] * 9 + [None] * 12), unread)  # so few may be an accident
    model.features(new.assign(smoker=["ja"] * 20 + ["yes"]), unread)
    assert +unread == {"smoker": 29}


def test_a_kept_column_named_class_does_not_clash(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    clinic(5).assign(**{"class": "x"}).to_csv(tmp_path / "new.csv", index=False)
    model = fitted[0] / "clinic.safetensors"
    done = laddernet("predict", model, "new.csv", "--keep", "class,result", cwd=tmp_path)
    assert done.out.splitlines()[0] == "class (given),result,class,confidence"
    assert done.out.splitlines()[1].startswith("x,")


def test_what_was_there_stays_if_the_table_turns_out_bad_at_its_end(
    tmp_path: Path, fitted: tuple[Path, Finished], small_parts: None
) -> None:
    (tmp_path / "p.csv").write_text("precious")
    (tmp_path / "new.csv").write_text(clinic(100).to_csv(index=False) + "1,2\n")
    done = laddernet("predict", fitted[0] / "clinic.safetensors", "new.csv", "--out", "p.csv", cwd=tmp_path)
    advice = "mend that line, or name another --delimiter"
    assert done == (2, "", f"laddernet: new.csv, line 102: 2 cells where the header has 7 columns; {advice}.\n")
    assert (tmp_path / "p.csv").read_text() == "precious"
    assert sorted(os.listdir(tmp_path)) == ["new.csv", "p.csv"]


@pytest.mark.process
def test_a_pipe_goes_in_and_out_and_may_be_closed_early(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    model = fitted[0] / "clinic.safetensors"
    text = clinic(10_000, seed=4).to_csv(index=False)
    command = [sys.executable, "-m", "laddernet", "predict", str(model), "-"]
    running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdin
    assert running.stdout
    assert running.stderr
    running.stdin.write(text.encode())
    running.stdin.close()
    assert running.stdout.readline() == b"class,confidence\n"
    running.stdout.close()  # as `head -1` does
    assert running.stderr.read() == b""
    running.stderr.close()
    assert running.wait() == 1


@pytest.mark.process
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is full")
def test_a_disk_that_is_full_is_one_sentence(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    clinic(5).to_csv(tmp_path / "new.csv", index=False)
    command = [sys.executable, "-m", "laddernet", "predict", str(fitted[0] / "clinic.safetensors"), "new.csv"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    why = "Cannot write to standard output (No space left on device)"
    assert (done.returncode, done.stderr) == (2, f"laddernet: {why}; send it to a place that has space.\n")


def test_standard_input_or_output_that_is_closed_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match=r"^Standard input is closed; send a table to it, or name a file\.$"):
        open_table("-")
    monkeypatch.setattr(sys, "stdout", None)
    with (
        pytest.raises(InputError, match=r"^Standard output is closed; name a file with --out\.$"),
        csv_writer(Path("-")),
    ):
        pass


# --- inspect ----------------------------------------------------------------------------------------------------


def test_inspect_shows_columns_classes_network_and_estimate(fitted: tuple[Path, Finished]) -> None:
    folder, printed = fitted
    done = laddernet("inspect", "clinic.safetensors", "--json", cwd=folder)
    about = json.loads(done.out)
    assert (done.code, done.err) == (0, "")
    counts = clinic()["result"].value_counts()
    assert about["labels"] == {"ill": counts["ill"], "well": counts["well"]}
    assert [(column["name"], column["kind"]) for column in about["columns"]] == [
        ("age", "number"),
        ("ward", "category"),
        ("smoker", "boolean"),
        ("admitted", "date"),
    ]
    assert about["columns"][1]["does"].startswith("an input for each of 'east', 'north', 'süd, 2'")
    assert about["network"]["sizes"] == [11, 8, 2]
    # By hand: weights up and down, γ and β above the input, nine a unit in the combinator.
    weights = 11 * 8 + 8 * 2
    linear = 2 * 11 * 2 + 2 * 2 + 9 * (11 + 2)
    assert (about["network"]["networks"], about["network"]["linear_share"]) == (2, 0.25)
    assert about["network"]["parameters"] == 2 * (2 * weights + 2 * (8 + 2) + 9 * (11 + 8 + 2)) + linear
    assert about["network"]["settings"]["steps"] == 3 * 64
    assert about["estimate"]["sentences"] == printed.out.splitlines()[-2:]
    shown = laddernet("inspect", "clinic.safetensors", cwd=folder).out
    words = " ".join(shown.split())
    for what in (
        "vanilla",
        "2 of 11-8-2 and one of 11-2, ",
        "hospital not used one value only",
        "class (result)",
        about["sha256"],
    ):
        assert what in words


# --- suggest ----------------------------------------------------------------------------------------------------


def test_suggest_ranks_unlabelled_rows_and_no_two_alike(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    frame = clinic(seed=0)
    unlabelled = np.flatnonzero(frame["result"].isna())
    # One row thirty times over: whoever takes rows for their density alone takes them all.
    many = pd.concat([frame, *[frame.iloc[[unlabelled[0]]]] * 30], ignore_index=True)
    many.to_csv(tmp_path / "many.csv", index=False)
    path = fitted[0] / "clinic.safetensors"
    options = ("--count", "10", "--out", "s.csv", "--keep", "patient,result")
    done = laddernet("suggest", path, "many.csv", *options, cwd=tmp_path)
    assert done == (0, "10 of 210 unlabelled rows; saved to s.csv\n", "")
    rows = rows_of(tmp_path / "s.csv")
    assert list(rows[0]) == ["rank", "row", "patient", "result", "class", "confidence", "use"]
    numbers = np.array([int(row["row"]) - 1 for row in rows])
    assert many["patient"].iloc[numbers].astype(str).tolist() == [row["patient"] for row in rows]
    assert {row["result"] for row in rows} == {""}
    assert many["patient"].iloc[numbers].nunique() == 10
    uses = [float(row["use"]) for row in rows]
    assert uses == sorted(uses, reverse=True)
    # Labels of these rows lie nearer to all rows than labels of rows drawn by lot do.
    model = TableModel.load(path)
    places = model.classifier.transform(model.features(many))
    known = np.flatnonzero(many["result"].notna())

    def distance(taken: np.ndarray) -> float:
        squares = np.square(places[:, None] - places[np.concatenate([known, taken])]).sum(axis=2)
        return float(np.sqrt(squares.min(axis=1)).mean())

    rng = np.random.default_rng(0)
    drawn = [distance(rng.choice(unlabelled, 10, replace=False)) for _ in range(20)]
    assert distance(numbers) < min(drawn)


def test_what_has_a_label_is_not_suggested_again() -> None:
    places = np.array([[0.0], [0.1], [0.2], [5.0], [5.1]])
    assert rank(places, np.zeros((0, 1)), 2)[0].tolist() == [2, 3]  # in the larger group, then in the other
    assert rank(places, np.array([[0.1]]), 1)[0].tolist() == [3]
    assert rank(places[:0], np.zeros((0, 1)), 2)[0].tolist() == []


def test_suggestions_do_not_depend_on_how_the_table_is_cut(
    fitted: tuple[Path, Finished], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laddernet.table.suggest._SAMPLE", 50)
    clinic().to_csv(tmp_path / "clinic.csv", index=False)
    model = TableModel.load(fitted[0] / "clinic.safetensors")
    found = []
    for size in (1 << 19, 100):
        monkeypatch.setattr(read, "CELLS", size)
        found.append(suggest(model, open_table(tmp_path / "clinic.csv"), target="result", count=8).frame.index.tolist())
    assert found[0] == found[1]
    assert min(found[0]) > 60


def test_rows_with_the_mark_are_suggested(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    model = TableModel.load(fitted[0] / "clinic.safetensors")
    table = Table.of(clinic().assign(result=clinic()["result"].fillna("unknown")))
    assert suggest(model, table, target="result").total == 0
    assert suggest(model, table, target="result", unlabeled="unknown").total == 180
    # What was said to `fit` is in the model's file.
    replace(model, unlabeled="unknown").save(tmp_path / "m.safetensors")
    again = TableModel.load(tmp_path / "m.safetensors")
    found = suggest(again, table, target="result", count=5)
    assert found.total == 180
    assert min(found.frame.index) > 60
    assert suggest(again, table, target="result", unlabeled="").total == 0


def test_a_model_of_an_older_version_has_no_mark_of_its_own(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    arrays, about = modelfile.read(fitted[0] / "clinic.safetensors", "table")
    assert about.pop("unlabeled", "absent") is None
    modelfile.write(tmp_path / "old.safetensors", "table", arrays, about)
    old = TableModel.load(tmp_path / "old.safetensors")
    table = Table.of(clinic().assign(result=clinic()["result"].fillna("-1")))
    assert suggest(old, table, target="result").total == 0
    assert suggest(replace(old, positional=4), table, target="result").total == 180  # as if it came from an array


def test_where_all_rows_are_labelled_there_is_nothing_to_suggest(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    clinic(50).to_csv(tmp_path / "c.csv", index=False)
    model = fitted[0] / "clinic.safetensors"
    done = laddernet("suggest", model, "c.csv", "--target", "result", "--out", "s.csv", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("laddernet: c.csv has no unlabelled row; ")
    assert os.listdir(tmp_path) == ["c.csv"]
    clinic(50).drop(columns="result").to_csv(tmp_path / "c.csv", index=False)
    assert laddernet("suggest", model, "c.csv", "--count", "60", cwd=tmp_path).out.count("\n") == 51


# --- Bad input --------------------------------------------------------------------------------------------------


def _npz(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def _zip(name: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(name, "content")
    return out.getvalue()


def _parquet(frame: pd.DataFrame) -> bytes:
    out = io.BytesIO()
    frame.to_parquet(out)
    return out.getvalue()


class Unpickled:
    """Would leave a trace if it were ever unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, ("unpickled",))


_X = np.arange(20.0).reshape(10, 2)
_OBJECTS = np.array([[Unpickled()]], object)
_MANY = "\n".join(f"{i},{i * 1.5}" for i in range(40))

BAD: dict[str, tuple[bytes, str, str]] = {
    "a row too short": (b"a,label\n1,x\n2\n", "", "bad, line 3: 1 cell where the header has 2 columns; mend"),
    "a row too long": (b"a,label\n1,x\n2,y,z\n", "", "bad, line 3: 3 cells where the header has 2 columns; mend"),
    "a row too short after a quoted break": (b'a,label\n"1\n",x\n2\n', "", "bad, line 4: 1 cell where"),
    "another encoding": ("a,label\n1,x\n2,ä\n".encode("cp1252"), "", "bad, line 3, is not utf-8 text; name"),
    "no such encoding": (b"a,label\n", "--encoding latin9000", "There is no encoding 'latin9000'; utf-8, "),
    "an encoding that is not the file's": (b"a,label\n1,x\n", "--encoding utf-16", "bad is not utf-16 text; name"),
    "a delimiter of two characters": (b"a,label\n", "--delimiter ab", "The delimiter is 'ab'; give one character"),
    "an open quote": (b'a,label\n1,"x\n2,y\n', "", "bad, line 3: not CSV (unexpected end of data); mend"),
    "nothing": (b"", "", "bad is empty; give a table with the columns' names in its first line."),
    "blank lines": (b"\n\n", "", "bad is empty; give a table"),
    "a header alone": (b"a,label\n", "", "bad: no row has a 'label'; give at least one label of two classes."),
    "two columns of one name": (b"a,a,label\n1,2,x\n", "", "bad has two columns named 'a'; give each"),
    "no such target": (b"a,labels\n1,x\n", "", "bad has no column 'label'; did you mean 'labels'?"),
    "nothing like the target": (b"a,b\n1,x\n", "", "bad has no column 'label'; it has 'a', 'b'."),
    "no label": (b"a,label\n1,\n2,NA\n", "", "bad: no row has a 'label'; give at least one label"),
    "one class": (b"a,label\n1,x\n2,\n3,x\n", "", "bad: all labels are 'x'; give labels of two classes or more."),
    "a target that is measured": (f"a,label\n{_MANY}\n".encode(), "", "'label' has 40 values in 40 labelled rows; "),
    "an infinite number": (b"a,label\n1,x\n2,y\ninf,\n", "", "Column 'a' has inf in row 3; give a number below"),
    "a number too large": (b"a,label\n1,x\n2,y\n1e39,\n", "", "Column 'a' has 1e+39 in row 3; give a number below"),
    "no column of use": (b"a,label\n1,x\n1,y\n", "", "bad has no column to learn from (a: one value only)."),
    "no column but the target": (b"label\nx\ny\n", "", "bad has no column to learn from (it has none but"),
    "no such column to drop": (b"a,label\n1,x\n", "--drop b", "bad has no column 'b'; it has 'a', 'label'."),
    "more rows of other columns": (
        b"a,b,label\n1,2,x\n",
        "--also other",
        "other has no column 'a', 'b'; give the same",
    ),
    "no such model": (b"a,label\n1,x\n", "--model vanila", "There is no model 'vanila'; did you mean 'vanilla'?"),
    "no hidden size": (b"a,label\n1,x\n", "--hidden 8,a", "--hidden has 'a' where a whole number should be."),
    "y of another length": (_npz(X=_X, label=np.arange(9)), "", "bad: label has 9 rows and X has 10; give both"),
    "y in two columns": (_npz(X=_X, label=_X), "", "bad: label has the shape (10, 2); give one value for each row."),
    "X without columns": (_npz(X=_X[:, :0], label=np.arange(10)), "", "bad: X has no columns (its shape is (10, 0)); "),
    "no X": (_npz(Y=_X), "", "bad has no array X with a row for each example; save it with np.savez(path, X=X, y=y)."),
    "X of objects": (_npz(X=_OBJECTS), "", "bad: X holds Python objects, which are not read; save numbers or text."),
    "infinity in X": (
        _npz(X=np.where(_X == 5, np.inf, _X), label=np.arange(10) % 2),
        "",
        "Column 'x1' has inf in row 3;",
    ),
    "a workbook": (
        _zip("xl/workbook.xml"),
        "",
        "bad is a zip file, but not NPZ; save the table as CSV, Parquet or NPZ.",
    ),
    "half an NPZ file": (_npz(X=_X)[:200], "", "bad is not a whole NPZ file ("),
    "an array": (b"\x93NUMPY\x01", "", "bad is a single NumPy array; save it with its classes, by np.savez"),
    "a compressed file": (b"\x1f\x8b\x08", "", "bad is compressed with gzip; give the file that gunzip makes of it."),
    "half a Parquet file": (_parquet(clinic(9))[:500], "", "bad is not a whole Parquet file ("),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_table_is_one_sentence_and_what_was_saved_stays(tmp_path: Path, what: str) -> None:
    content, options, sentence = BAD[what]
    (tmp_path / "bad").write_bytes(content)
    (tmp_path / "other").write_bytes(b"label\nx\n")
    (tmp_path / "m.safetensors").write_bytes(b"precious")
    arguments = ["fit", "bad", "--target", "label", "--out", "m.safetensors", *options.split()]
    done = laddernet(*arguments, cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"laddernet: {sentence}")
    assert done.err.endswith((".\n", "?\n", "all.\n"))
    assert done.err.count("\n") == 1
    assert (tmp_path / "m.safetensors").read_bytes() == b"precious"
    assert sorted(os.listdir(tmp_path)) == ["bad", "m.safetensors", "other"]


def test_a_parquet_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_text("a,label\n1,x\n")
    with pytest.raises(InputError, match=r"t\.parquet is not a Parquet file; write it anew, or give it another name"):
        open_table(tmp_path / "t.parquet")


@pytest.mark.process
def test_a_terminal_that_knows_only_ascii_will_do(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    clinic(20).to_csv(tmp_path / "new.csv", index=False)
    command = [sys.executable, "-m", "laddernet", "predict", str(fitted[0] / "clinic.safetensors"), "new.csv"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*command, "--keep", "ward"], cwd=tmp_path, env=environment, capture_output=True, check=True)
    assert "süd, 2" in done.stdout.decode("utf-8")  # a table is in UTF-8, wherever it goes
    inspected = [*command[:3], "inspect", command[4]]
    assert b"?" in subprocess.run(inspected, cwd=tmp_path, env=environment, capture_output=True, check=True).stdout


def test_a_named_pipe_is_refused_for_it_can_be_read_only_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"pipe can be read only once; give a file, or '-' for standard input\.$"):
        open_table(tmp_path / "pipe")


def test_a_csv_table_needs_a_target(tmp_path: Path) -> None:
    clinic().to_csv(tmp_path / "c.csv", index=False)
    done = laddernet("fit", "c.csv", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(
        "laddernet: --target is missing; name the column that holds the classes, one of 'patient',"
    )


@pytest.mark.parametrize("options", [("absent/m.safetensors",), (".",)])
def test_a_place_that_cannot_be_written_to_is_found_before_the_training(
    tmp_path: Path, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(LadderClassifier, "fit")
    clinic().to_csv(tmp_path / "c.csv", index=False)
    done = laddernet("fit", "c.csv", "--target", "result", "--out", *options, cwd=tmp_path)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith("laddernet: Cannot write ")


def _foreign(model: bytes) -> bytes:
    return safetensors.numpy.save({"a": np.zeros(3)})


def _changed(model: bytes) -> bytes:
    return model.replace(b'\\"target\\": \\"result\\"', b'\\"target\\": \\"resort\\"')


def _without_columns(model: bytes) -> bytes:
    """A file with its checksum right and a piece missing."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m"
        path.write_bytes(model)
        arrays, about = modelfile.read(path, "table")
        modelfile.write(path, "table", arrays, {name: held for name, held in about.items() if name != "columns"})
        return path.read_bytes()


MODELS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "cut off": (lambda model: model[:-100], "m is not a whole model file ("),
    "empty": (lambda model: b"", "m is not a whole model file ("),
    "a CSV file": (lambda model: b"a,b\n1,2\n" * 50, "m is not a whole model file ("),
    "from elsewhere": (_foreign, "m is a safetensors file, but not a model of laddernet;"),
    "without a piece": (_without_columns, "m is not a model as laddernet saves it (KeyError: 'columns'); save the"),
    "changed in its text": (_changed, "m is damaged or was changed"),
    "changed in a number": (lambda model: model[:-1] + bytes([model[-1] ^ 1]), "m is damaged or was changed"),
}


@pytest.mark.parametrize("command", ["predict", "suggest", "inspect"])
@pytest.mark.parametrize("what", MODELS)
def test_a_bad_model_file_is_one_sentence(
    tmp_path: Path, what: str, command: str, fitted: tuple[Path, Finished]
) -> None:
    change, sentence = MODELS[what]
    whole = (fitted[0] / "clinic.safetensors").read_bytes()
    assert change(whole) != whole
    (tmp_path / "m").write_bytes(change(whole))
    rest = [] if command == "inspect" else [fitted[0] / "clinic.csv", "--out", "p.csv"]
    done = laddernet(command, "m", *rest, cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"laddernet: {sentence}")
    assert done.err.count("\n") == 1
    assert os.listdir(tmp_path) == ["m"]


def test_nothing_is_written_over_what_is_read(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    data = clinic().to_csv(index=False)
    (tmp_path / "c.csv").write_text(data)
    model = fitted[0] / "clinic.safetensors"
    for arguments in (("fit", "c.csv", "--target", "result"), ("predict", model, "c.csv"), ("suggest", model, "c.csv")):
        done = laddernet(*arguments, "--out", tmp_path / "c.csv", cwd=tmp_path)
        assert done == (2, "", "laddernet: --out is c.csv, which is read from; name another file.\n")
    assert (tmp_path / "c.csv").read_text() == data


def test_what_fit_did_not_save_is_only_replaced_by_its_name(tmp_path: Path) -> None:
    clinic().to_csv(tmp_path / "c.csv", index=False)
    model = tmp_path / "c.safetensors"
    fit = ("fit", "c.csv", "--target", "result", *OPTIONS, "--no-estimate")
    for precious in (b"precious", _foreign(b"")):
        model.write_bytes(precious)
        done = laddernet(*fit, cwd=tmp_path)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("laddernet: c.safetensors exists and is not a whole model that `fit` saved; name ")
        assert model.read_bytes() == precious
    assert laddernet(*fit, "--out", "c.safetensors", cwd=tmp_path).code == 0
    first = model.stat().st_ino
    assert laddernet(*fit, cwd=tmp_path).code == 0  # a model of one's own makes room for the next
    assert model.stat().st_ino != first


@pytest.mark.parametrize("command", ["fit", "curve"])
@pytest.mark.parametrize("option", ["--epochs", "--max-steps", "--networks"])
def test_no_training_at_all_is_refused_before_the_table_is_read(tmp_path: Path, command: str, option: str) -> None:
    done = laddernet(command, "absent.csv", option, "0", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert option in done.err
    assert "absent.csv" not in done.err


@pytest.mark.parametrize("path", [".", "absent.csv", "-"])
def test_what_is_no_file_cannot_be_learned_from(tmp_path: Path, path: str) -> None:
    done = laddernet("fit", path, "--target", "y", cwd=tmp_path)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith(("laddernet: Cannot read ", "laddernet: `fit` reads its table more than once;"))


def test_columns_that_a_new_table_lacks_are_named(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    clinic(5).drop(columns=["age", "ward"]).to_csv(tmp_path / "new.csv", index=False)
    done = laddernet("predict", fitted[0] / "clinic.safetensors", "new.csv", "--out", "p.csv", cwd=tmp_path)
    advice = "give all that the model was fitted with; `laddernet inspect` lists them"
    assert done == (2, "", f"laddernet: new.csv has no column 'age', 'ward'; {advice}.\n")
    assert os.listdir(tmp_path) == ["new.csv"]


class Stopped(Exception):
    pass


@pytest.mark.parametrize("command", ["fit", "predict", "suggest"])
def test_ctrl_c_leaves_what_was_there_and_nothing_half_written(
    tmp_path: Path, command: str, fitted: tuple[Path, Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> Any:
        raise KeyboardInterrupt

    def leave(code: int) -> Any:
        raise SystemExit(code)

    monkeypatch.setattr(LadderClassifier, "fit" if command == "fit" else "predict_proba", stop)
    monkeypatch.setattr(os, "_exit", leave)
    (tmp_path / "out").write_text("precious")
    data = fitted[0] / "clinic.csv"
    rest = [data, "--target", "result"] if command == "fit" else [fitted[0] / "clinic.safetensors", data]
    done = laddernet(command, *rest, "--out", "out", cwd=tmp_path)
    assert done.code == 130
    assert done.err.startswith("Stopped; ")
    assert (tmp_path / "out").read_text() == "precious"
    assert os.listdir(tmp_path) == ["out"]


def test_ctrl_c_during_the_estimate_leaves_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    def leave(code: int) -> Any:
        raise SystemExit(code)

    monkeypatch.setattr("laddernet.cli.table.estimate", stop)
    monkeypatch.setattr(os, "_exit", leave)
    clinic().to_csv(tmp_path / "c.csv", index=False)
    done = laddernet("fit", "c.csv", "--target", "result", *OPTIONS, cwd=tmp_path)
    assert (done.code, done.err) == (130, "Stopped; c.safetensors is saved, without an estimate.\n")
    assert TableModel.load(tmp_path / "c.safetensors").estimate is None
