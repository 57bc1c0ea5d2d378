import csv
import io
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laddernet.errors import InputError
from laddernet.table.read import open_table
from laddernet.table.table import Dialect
from laddernet.table.write import _without_formula, csv_writer


@given(st.lists(st.text(alphabet="=+-@',;\"\t\n x1.", min_size=1), min_size=1))
def test_a_spreadsheet_finds_no_formula_in_any_text_and_it_is_read_as_it_was(given_texts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        with csv_writer(path) as out:
            out.head(["first", "text"])
            out.write(out.lines([["x"] * len(given_texts), given_texts]))
        with path.open(newline="") as file:
            written = [row[1] for row in list(csv.reader(file))[1:]]
        for cell in written:
            if not re.fullmatch(r"[+-]?(\d+[.,]?\d*|[.,]\d+)", cell):
                assert not any(part.lstrip().startswith(tuple("=+-@")) for part in re.split('[,;"]', cell))
        (part,) = open_table(path, delimiter=",").parts(["text"])
        assert [text.lstrip(" ") for text in part["text"]] == [text.lstrip(" ") for text in given_texts]


_texts = st.text(alphabet="ab1 .:-=+@',;\"\t\n\rä", max_size=6)
_floats = st.floats(0, 1).map(lambda value: round(value, 6))


@given(
    columns=st.integers(0, 6).flatmap(
        lambda rows: st.lists(
            st.one_of(
                st.lists(kind, min_size=rows, max_size=rows)
                for kind in (
                    _texts,
                    st.text(alphabet="ab1 .:-", min_size=1, max_size=4),
                    _floats,
                    st.one_of(_texts, st.none()),
                    st.one_of(_texts, st.floats(), st.integers(), st.booleans(), st.none()),
                )
            ),
            min_size=1,
            max_size=4,
        )
    ),
    dialect=st.builds(Dialect, delimiter=st.sampled_from(",;\t|:1"), decimal=st.sampled_from(".,")),
    raw=st.booleans(),
)
def test_lines_made_of_columns_are_those_that_the_standard_library_writes_row_by_row(
    columns: list[list[Any]], dialect: Dialect, raw: bool
) -> None:
    def cell(value: Any) -> Any:
        if isinstance(value, float) and dialect.decimal == ",":
            value = str(value).replace(".", ",")
        return value if raw else _without_formula(value)

    written = io.StringIO(newline="")
    expected = csv.writer(written, delimiter=dialect.delimiter, lineterminator="\n")
    expected.writerows(map(cell, row) for row in zip(*columns, strict=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", io.StringIO())
        with csv_writer(Path("-"), raw=raw, dialect=dialect) as out:
            assert out.lines(columns) == written.getvalue()


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
