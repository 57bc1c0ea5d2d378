"""The command `suggest`."""

import csv
import os
from pathlib import Path

import numpy as np
import pandas as pd
from clinic import clinic, rows_of
from support import Finished, laddernet

from laddernet.table.model import TableModel


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
    added = ["predicted class", "confidence", "use"]
    assert list(rows[0]) == ["rank", "spreadsheet row", "patient", "result", *added]
    numbers = np.array([int(row["spreadsheet row"]) - 2 for row in rows])
    assert many["patient"].iloc[numbers].astype(str).tolist() == [row["patient"] for row in rows]
    assert {row["result"] for row in rows} == {""}
    assert many["patient"].iloc[numbers].nunique() == 10
    uses = [float(row["use"]) for row in rows]
    assert uses == sorted(uses, reverse=True)
    # These rows are nearer to all rows than random ones are.
    model = TableModel.load(path)
    places = model.embed(model.features(many))
    known = np.flatnonzero(many["result"].notna())

    def distance(taken: np.ndarray) -> float:
        squares = np.square(places[:, None] - places[np.concatenate([known, taken])]).sum(axis=2)
        return float(np.sqrt(squares.min(axis=1)).mean())

    rng = np.random.default_rng(0)
    drawn = [distance(rng.choice(unlabelled, 10, replace=False)) for _ in range(20)]
    assert distance(numbers) < min(drawn)


def test_where_all_rows_are_labelled_there_is_nothing_to_suggest(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    clinic(50).to_csv(tmp_path / "c.csv", index=False)
    model = fitted[0] / "clinic.safetensors"
    done = laddernet("suggest", model, "c.csv", "--target", "result", "--out", "s.csv", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("laddernet: c.csv has no unlabelled row; ")
    assert os.listdir(tmp_path) == ["c.csv"]
    clinic(50).drop(columns="result").to_csv(tmp_path / "c.csv", index=False)
    assert laddernet("suggest", model, "c.csv", "--count", "60", cwd=tmp_path).out.count("\n") == 51


def test_suggest_writes_identifier_empty_target_and_all_cells_unless_columns_are_named(
    tmp_path: Path, fitted: tuple[Path, Finished]
) -> None:
    new = clinic(30, 0, seed=3).assign(confidence="high", note="=1")
    new[["age", "patient", *new.columns[2:]]].to_csv(tmp_path / "new.csv", index=False)
    call = ("suggest", fitted[0] / "clinic.safetensors", "new.csv", "--count", "30", "--out", "s.csv")
    added = ["predicted class", "confidence (laddernet)", "use"]

    def written(*options: str) -> list[dict[str, str]]:
        assert laddernet(*call, *options, cwd=tmp_path).code == 0
        return rows_of(tmp_path / "s.csv")

    rows = written()
    others = ["age", "ward", "smoker", "admitted", "hospital", "confidence", "note"]
    assert list(rows[0]) == ["rank", "spreadsheet row", "patient", "result", *others, *added]
    assert {row["result"] for row in rows} == {""}
    given_rows = rows_of(tmp_path / "new.csv")
    for row in rows:
        there = given_rows[int(row["spreadsheet row"]) - 2]
        assert {name: row[name].removeprefix("'") for name in ("patient", *others)} == {
            name: there[name] for name in ("patient", *others)
        }
    assert list(written("--keep", "")[0]) == [
        "rank",
        "spreadsheet row",
        "result",
        *added,
    ]
    assert list(written("--keep", "ward,patient")[0])[2:5] == ["patient", "result", "ward"]
    new.drop(columns=["patient", "result"]).to_csv(tmp_path / "new.csv", index=False)
    assert list(written()[0])[:4] == ["rank", "spreadsheet row", "result", "age"]


def test_suggest_leaves_out_rows_that_have_a_label_in_a_file(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    model, table = fitted[0] / "clinic.safetensors", fitted[0] / "clinic.csv"
    assert laddernet("suggest", model, table, "--out", "one.csv", cwd=tmp_path).code == 0
    first = pd.read_csv(tmp_path / "one.csv", dtype=object)
    first["result"] = ["ill"] * 10 + [None] * 10
    first.to_csv(tmp_path / "one.csv", index=False)
    done = laddernet("suggest", model, table, "--labels", "one.csv", "--count", "200", cwd=tmp_path)
    again = {row["patient"] for row in csv.DictReader(done.out.splitlines())}
    assert len(again) == 170
    assert set(first["patient"][10:]) <= again
    assert not set(first["patient"][:10]) & again
    done = laddernet("suggest", model, table, "--labels", "one.csv", "--out", "one.csv", cwd=tmp_path)
    assert done == (2, "", "laddernet: --out is one.csv, which is read from; name another file.\n")
