from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from clinic import clinic
from hypothesis import given
from hypothesis import strategies as st

from laddernet.errors import InputError
from laddernet.table.read import open_table
from laddernet.table.rounds import ROW, alike, open_labels
from laddernet.table.rows import Rows, read_rows
from laddernet.table.table import Table


def to_label(rows: list[int], labels: list[str | None], *without: str) -> pd.DataFrame:
    """A file for these rows of the clinic, which `suggest` could have written, with labels."""
    frame = clinic().iloc[rows].assign(result=labels, **{ROW: [row + 2 for row in rows]})
    return frame.drop(columns=list(without))


def read(*files: pd.DataFrame, frame: pd.DataFrame | None = None, also: pd.DataFrame | None = None) -> Rows:
    table = Table.of(clinic() if frame is None else frame, "clinic.csv")
    labels = [Table.of(file, f"round{number}.csv") for number, file in enumerate(files, 1)]
    others = [] if also is None else [Table.of(also.drop(columns="result"), "more.csv")]
    return read_rows(table, "result", also=others, labels=labels)


def named(rows: Rows) -> list[str]:
    """The class of each row, "" where it has none."""
    return [*np.array([*rows.classes, ""])[rows.codes]]


@pytest.mark.parametrize("without", [ROW, "patient"])
def test_labels_find_their_rows_by_identifier_or_by_the_number_that_a_spreadsheet_shows(without: str) -> None:
    given_labels = ["well", "ill", None, "well"]
    rows = read(to_label([200, 61, 100, 239], given_labels, without).sample(frac=1, random_state=0))
    expected = clinic()["result"].fillna("")
    expected[[200, 61, 239]] = ["well", "ill", "well"]
    assert named(rows) == expected.tolist()
    assert [(each.new, each.changed, each.known) for each in rows.rounds] == [({"ill": 1, "well": 2}, 0, 0)]
    assert rows.notices == []


def test_with_an_identifier_the_order_of_the_table_and_the_row_numbers_do_not_matter() -> None:
    shuffled = clinic().sample(frac=1, random_state=1)
    rows = read(to_label([200], ["well"]), frame=shuffled)
    assert rows.notices == []
    assert named(rows)[shuffled.index.get_loc(200)] == "well"


def test_rows_that_were_added_to_the_table_have_labels_by_their_identifiers_only() -> None:
    more = clinic(30, seed=5).assign(patient=np.arange(30) + 1240)
    labels = more.iloc[[3]].assign(result="well")
    assert named(read(labels, also=more))[243] == "well"
    by_number = labels.drop(columns="patient").assign(**{ROW: 245})
    assert read(by_number, also=more).notices == [
        "round1.csv: not in the table, so the label is not used: spreadsheet row 245"
    ]


def test_of_two_labels_the_last_counts_with_a_warning() -> None:
    first, second = to_label([200, 61, 200], ["well", "ill", "ill"]), to_label([61, 200, 0], ["well", "ill", "well"])
    rows = read(first, second)
    assert clinic()["result"][0] == "ill"
    assert [named(rows)[row] for row in (200, 61, 0)] == ["ill", "well", "well"]
    assert rows.notices == [
        "round1.csv: two labels of one row; the last one counts: patient 1200 ('well', then 'ill')",
        "round2.csv: two labels of one row; the last one counts: patient 1061 ('ill', then 'well')",
        "round2.csv: another label than in the table; the last one counts: patient 1000 ('ill', then 'well')",
    ]
    assert [each.sentence() for each in rows.rounds] == [
        "round1.csv: 2 new labels (ill: 1, well: 1), 1 changed",
        "round2.csv: 0 new labels, 2 changed, 1 known",
    ]


def test_rows_that_are_not_in_the_table_are_left_out_with_a_warning() -> None:
    strangers = to_label([200, 201, 202], ["well"] * 3).assign(patient=[9, 10, 1202])
    rows = read(strangers)
    assert [named(rows)[row] for row in (200, 201, 202)] == ["", "", "well"]
    assert rows.notices == ["round1.csv: not in the table, so the label is not used: patient 9 and 1 more"]
    beyond = to_label([200, 201, 202], ["well"] * 3, "patient").assign(**{ROW: [1, 242, "x"]})
    rows = read(beyond)
    absent = "round1.csv: not in the table, so the label is not used: spreadsheet row 1 and 2 more"
    assert absent in rows.notices
    assert named(rows) == clinic()["result"].fillna("").tolist()


def test_a_row_whose_cells_changed_keeps_its_label_only_if_it_has_an_identifier() -> None:
    edited = to_label([200], ["well"]).assign(age=99.5)
    was = clinic()["age"][200]
    rows = read(edited)
    assert named(rows)[200] == "well"
    assert rows.notices == [
        f"round1.csv: other cells than in the table; the label is used: patient 1200 (age is '99.5' and was '{was}')"
    ]
    rows = read(edited.drop(columns="patient"))
    assert named(rows)[200] == ""
    (notice,) = rows.notices
    assert notice.startswith("round1.csv: other cells than the table's row of that number, so the label is not used")
    assert "spreadsheet row 202 (age is '99.5'" in notice


def test_a_class_that_the_table_does_not_have_is_named_with_the_class_that_it_is_like() -> None:
    rows = read(to_label([200, 201], ["wel", "dead"]))
    assert rows.classes == ("dead", "ill", "wel", "well")
    assert rows.notices == ["round1.csv: a class that no row of the table has: 'wel' (near 'well') and 1 more"]


def test_all_labels_may_come_from_files_and_a_file_may_have_none() -> None:
    bare = clinic().assign(result=None)
    labels = to_label([0, 1, 2, 3, 4, 5], clinic()["result"][:6].tolist())
    rows = read(labels, to_label([7], [None]), frame=bare)
    assert sum(rows.labels.values()) == 6
    assert rows.notices == ["round2.csv: no row has a label"]
    with pytest.raises(InputError, match="no row has a 'result'"):
        read(to_label([7], [None]), frame=bare)


def test_the_mark_of_unlabelled_rows_is_no_label_in_a_file_either() -> None:
    table = Table.of(clinic().assign(result=clinic()["result"].fillna("unknown")), "clinic.csv")
    labels = Table.of(to_label([200, 201, 0], ["well", "unknown", "unknown"]), "round1.csv")
    rows = read_rows(table, "result", labels=[labels], unlabeled="unknown")
    assert [named(rows)[row] for row in (200, 201, 0)] == ["well", "", "ill"]
    assert rows.notices == []


def test_a_file_without_a_column_that_identifies_rows_or_without_the_target_is_refused() -> None:
    with pytest.raises(InputError, match=r"^round1\.csv has no column that .* give it the identifier 'patient' or "):
        read(to_label([200], ["well"], "patient", ROW))
    with pytest.raises(InputError, match=r"^round1\.csv has no column 'result'; did you mean 'Result'\?$"):
        read(to_label([200], ["well"]).rename(columns={"result": "Result"}))


def test_a_table_that_has_the_column_of_row_numbers_itself_keeps_it() -> None:
    frame = clinic().assign(**{ROW: "x"}).drop(columns="patient")
    labels = frame.iloc[[200]].assign(result="well", **{f"{ROW} (laddernet)": 202})
    rows = read(labels, frame=frame)
    assert named(rows)[200] == "well"
    assert rows.notices == []


def test_a_spreadsheet_may_write_numbers_dates_and_truth_in_its_own_form() -> None:
    frame = clinic().drop(columns="patient").assign(dose=np.arange(240) / 7, on=np.tile([True, False], 120))
    labels = frame.iloc[[200, 202]].assign(result="well", **{ROW: [202, 204]}).astype(object)
    labels["dose"] = [f"{dose:.9g}" for dose in labels["dose"]]
    labels["on"] = "TRUE"
    labels["age"] = [f"{age}0" for age in labels["age"]]
    labels["admitted"] = [f"{day[8:]}.{day[5:7]}.{day[:4]}" for day in labels["admitted"]]
    rows = read(labels, frame=frame)
    assert rows.notices == []
    assert rows.rounds[0].new == {"well": 2}


@given(st.floats(min_value=1e-9, max_value=1e9), st.integers(min_value=7, max_value=17))
def test_a_number_of_seven_digits_or_more_is_alike_and_another_is_not(number: float, digits: int) -> None:
    assert alike(f"{number:.{digits}g}", repr(number))
    assert not alike(f"{number * 1.001:.{digits}g}", repr(number))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_a_file_that_a_spreadsheet_saved_in_another_dialect_is_read(tmp_path: Path, encoding: str) -> None:
    frame = clinic().assign(ward="süd")
    frame.to_csv(tmp_path / "t.csv", index=False, sep="\t")
    frame.iloc[[200]].assign(result="well").to_csv(tmp_path / "l.csv", index=False, sep=";", encoding=encoding)
    rows = read_rows(open_table(tmp_path / "t.csv"), "result", labels=[open_labels(tmp_path / "l.csv")])
    assert named(rows)[200] == "well"
    assert rows.notices == []


def test_a_file_in_the_unusual_dialect_of_the_table_is_read(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    clinic().iloc[[200]].assign(result="wörld").to_csv(path, index=False, sep="#", encoding="cp437")
    (part,) = open_labels(path, delimiter="#", encoding="cp437").parts(["result"])
    assert part["result"].tolist() == ["wörld"]


def test_labels_do_not_depend_on_how_the_table_is_cut(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clinic().to_csv(tmp_path / "t.csv", index=False)
    to_label([200, 61, 150], ["well", "ill", "well"]).to_csv(tmp_path / "l.csv", index=False)
    to_label([7, 8, 220], ["well", "ill", "well"], "patient").to_csv(tmp_path / "m.csv", index=False)
    found = []
    for size in (1 << 19, 50):
        monkeypatch.setattr("laddernet.table.table.CELLS", size)
        files = [open_labels(tmp_path / name) for name in ("l.csv", "m.csv")]
        rows = read_rows(open_table(tmp_path / "t.csv"), "result", labels=files)
        found.append((named(rows), rows.notices, rows.rounds))
    assert found[0] == found[1]
    assert [found[0][0][row] for row in (200, 61, 150, 220)] == ["well", "ill", "well", "well"]
