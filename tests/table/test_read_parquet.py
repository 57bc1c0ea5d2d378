import io
import sys
from pathlib import Path

import pandas as pd
import pytest
from clinic import clinic
from support import laddernet, refused

from laddernet.errors import InputError
from laddernet.table.read import open_table


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


def test_damaged_pandas_metadata_do_not_keep_a_parquet_file_from_being_read(tmp_path: Path, iris_model: Path) -> None:
    pd.DataFrame({"a": [0.5, 1.5], "b": [1, 2], "c": [1, 2], "d": [1, 2], "e": ["u", "v"]}).to_parquet(
        tmp_path / "t.parquet"
    )
    content = (tmp_path / "t.parquet").read_bytes()
    # Once as it is, and once in the schema that Arrow keeps in base64.
    assert b'"index_columns"' in content
    (tmp_path / "t.parquet").write_bytes(content.replace(b'"index_columns":', b'"index_columns"\xff'))
    done = laddernet("predict", iris_model, "t.parquet", cwd=tmp_path)
    assert (done.code, len(done.out.splitlines())) == (0, 3)


def test_a_parquet_file_with_text_that_is_not_utf8_is_one_sentence(tmp_path: Path, untrained: None) -> None:
    out = io.BytesIO()
    pd.DataFrame({"a": ["Ward north"] * 5, "label": list("xyxyx")}).to_parquet(out, compression=None)
    (tmp_path / "t").write_bytes(out.getvalue().replace(b"Ward north", b"Ward \xffo\xffth"))
    refused(laddernet("fit", "t", "--target", "label", cwd=tmp_path), "t is not a whole Parquet file (")


def test_a_parquet_file_may_have_any_name(tmp_path: Path) -> None:
    path = tmp_path / "a\udc80 $[bold]\n"
    with path.open("wb") as file:
        pd.DataFrame({"a": [1, 2]}).to_parquet(file)
    assert open_table(path).columns == ["a"]
