from pathlib import Path

import pandas as pd
from clinic import array

from laddernet.table.cells import texts
from laddernet.table.rows import read_rows


def test_bytes_are_the_text_that_they_hold(tmp_path: Path) -> None:
    assert read_rows(array(tmp_path, ["dög".encode(), b"cat"] * 4), None).classes == ("cat", "dög")
    assert texts(pd.Series([b"NA", b"\xff", b"\xfe"])).tolist() == ["", "\\xff", "\\xfe"]
