import sys
from pathlib import Path

import pandas as pd
import pytest
from clinic import clinic

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
