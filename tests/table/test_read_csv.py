import csv
import sys
from pathlib import Path

import pandas as pd
import pytest
from clinic import SMALL, clinic
from support import laddernet, refused

from laddernet.table.read import open_table


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


def test_a_cell_of_more_than_131072_characters_is_read(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"a,b\n{'x' * 200_000},1\n")
    (part,) = open_table(tmp_path / "t.csv").parts(["a"])
    assert len(part["a"][1]) == 200_000


def test_a_cell_or_a_line_beyond_the_bound_is_said_to_be_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, untrained: None
) -> None:
    (tmp_path / "t.csv").write_text(f"a,label\n1,{'x' * 2000}\n")
    monkeypatch.setattr("laddernet.table.read_csv._LONGEST_CELL", 1000)
    before = csv.field_size_limit(1000)
    try:
        done = laddernet("fit", "t.csv", "--target", "label", cwd=tmp_path)
    finally:
        csv.field_size_limit(before)
    advice = "shorten it, or close the quote that was left open"
    refused(done, f"t.csv, line 2: a cell has more than 1,000 characters; {advice}.")
    monkeypatch.setattr("laddernet.table.read_csv._LONGEST_LINE", 2000)
    done = laddernet("fit", "t.csv", "--target", "label", cwd=tmp_path)
    refused(done, "t.csv: a line has 2,000 characters or more; give a table in lines.")


@pytest.mark.parametrize("encoding", ["utf-8\udc80", "utf\0", "base64", "\x1b[31m"])
def test_an_encoding_that_is_none_is_one_sentence(tmp_path: Path, encoding: str, untrained: None) -> None:
    (tmp_path / "t.csv").write_text(SMALL)
    done = laddernet("fit", "t.csv", "--target", "label", "--encoding", encoding, cwd=tmp_path)
    refused(done, "There is no encoding '")


def test_a_nameless_first_column_as_pandas_and_r_write_it_gets_a_name(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(",a\n0,5\n1,6\n")
    assert open_table(tmp_path / "t.csv").columns == ["column 1", "a"]


def test_the_place_of_a_column_is_not_searched_among_the_columns(tmp_path: Path) -> None:
    """A file of 100,000 columns took minutes; a list's `index` would be called once for each column."""
    (tmp_path / "wide.csv").write_text(",".join(f"c{n}" for n in range(50)) + "\n" + ",".join("1" * 50) + "\n")
    table = open_table(tmp_path / "wide.csv")
    searches = []

    def record(_: object, event: str, called: object) -> None:
        if event == "c_call" and getattr(called, "__name__", "") == "index" and type(called.__self__) is list:
            searches.append(called)

    sys.setprofile(record)
    try:
        (part,) = table.parts(table.columns)
    finally:
        sys.setprofile(None)
    assert part.shape == (1, 50)
    assert searches == []
