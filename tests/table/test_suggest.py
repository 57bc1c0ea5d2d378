from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from clinic import clinic
from support import Finished

from laddernet.inference import modelfile
from laddernet.table import table as tables
from laddernet.table.model import TableModel
from laddernet.table.read import open_table
from laddernet.table.suggest import rank, suggest
from laddernet.table.table import Table


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
        monkeypatch.setattr(tables, "CELLS", size)
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


def test_suggestions_keep_all_digits_of_an_identifier(
    tmp_path: Path, fitted: tuple[Path, Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = clinic(20, 0).assign(key=pd.array([None, *range(2**53 + 1, 2**53 + 20)], dtype="Int64"))
    frame.to_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(tables, "CELLS", 40)  # several parts, one of which has no missing key
    model = TableModel.load(fitted[0] / "clinic.safetensors")
    found = suggest(model, open_table(tmp_path / "t.parquet"), count=20, keep=["key"]).frame["key"]
    assert sorted(found.dropna()) == list(range(2**53 + 1, 2**53 + 20))
