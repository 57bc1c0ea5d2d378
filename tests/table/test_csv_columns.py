import csv
import io
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from clinic import clinic
from hypothesis import example, given, settings
from hypothesis import strategies as st

from laddernet.errors import InputError
from laddernet.table import read_csv, table
from laddernet.table.csv_columns import parse_columns
from laddernet.table.read import open_table

_CELLS = st.text(alphabet="ab1.,;|\t \"'=-\n\räü\0", max_size=6)


@st.composite
def _written(draw: st.DrawFn) -> str:
    """A table as some program writes it, the lines of which end alike, or nearly so."""
    delimiter = draw(st.sampled_from(",;\t|:"))
    width = draw(st.integers(1, 3))
    # Mostly plain cells, so that there are regular blocks between the others.
    plain = st.one_of(
        st.text(alphabet="ab1. ", max_size=4), st.sampled_from(["a, b", 'an "a"', "two\nlines", " x", "it's"])
    )
    rows = draw(st.lists(st.lists(st.one_of(plain, plain, plain, _CELLS), min_size=width, max_size=width), max_size=12))
    out = io.StringIO(newline="")
    style = {"quoting": draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]))}
    writer = csv.writer(out, delimiter=delimiter, lineterminator=draw(st.sampled_from(["\n", "\r\n"])), **style)
    writer.writerow("xyz"[:width])
    writer.writerows(rows)
    return draw(st.sampled_from(["", "\ufeff"])) + out.getvalue()


_raw = st.text(alphabet='aab1  ,,,""\'=\n\n\n\r;\ufeff', max_size=40)


def _outcome(path: Path, delimiter: str | None) -> Any:
    """The cells of the columns, or the sentence with which they are refused."""
    try:
        opened = open_table(path, delimiter=delimiter)
        return [(part.index.tolist(), part.to_numpy(object).tolist()) for part in opened.parts(opened.columns)]
    except InputError as error:
        return str(error)


@settings(max_examples=400)
@given(
    text=st.one_of(_written(), _raw, _raw.map("x,y\n".__add__)),
    cells=st.integers(1, 30),
    delimiter=st.sampled_from([None, ","]),
)
@example("x,y\n1, 2\n", 9, None)
@example('x,y\n1," 2"\n', 9, None)
@example('x,y\n1, "2"\n', 9, None)
@example('x,y\n5" pipe,"a\nb"\n', 1, None)
@example("x\n\n  \na\n", 1, None)
def test_columns_have_the_cells_and_the_refusals_of_rows(text: str, cells: int, delimiter: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder) / "t.csv"
        path.write_bytes(text.encode())
        patch.setattr(table, "CELLS", cells)
        found = _outcome(path, delimiter)
        patch.setattr(read_csv, "parse_columns", lambda *block: None)
        assert found == _outcome(path, delimiter)


@pytest.mark.parametrize(
    "text",
    [
        clinic(40).to_csv(index=False),
        clinic(40).to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\r\n"),
        clinic(40).assign(note='an "a", and\ntwo lines; it\'s').to_csv(index=False),
        clinic(40).drop(columns="ward").to_csv(index=False).replace(",", ", "),
    ],
    ids=["pandas", "R", "texts", "spaces"],
)
def test_a_regular_table_is_parsed_in_columns(text: str) -> None:
    lines = text.splitlines(keepends=True)
    width = len(next(csv.reader(lines)))
    rows = list(csv.reader(lines[1:] if "note" not in text else io.StringIO(text[text.index("\n") + 1 :], newline="")))
    parsed = parse_columns(text[text.index("\n") + 1 :], ",", width)
    assert parsed is not None
    assert [list(row) for row in zip(*parsed.to_pydict().values(), strict=True)] == [
        [cell.lstrip(" ") for cell in row] for row in rows
    ]


def test_without_pyarrow_a_table_is_read_row_by_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clinic(40).to_csv(tmp_path / "t.csv", index=False)
    columns = _outcome(tmp_path / "t.csv", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert parse_columns("1,2\n", ",", 2) is None
    assert _outcome(tmp_path / "t.csv", None) == columns
