"""`fit` and `curve` with labels in files."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from clinic import OPTIONS, clinic, rows_of
from support import Finished, laddernet

from laddernet.inference import modelfile
from laddernet.table.model import TableModel

MODELS = ("c.safetensors", "whole.safetensors")


def answered(path: Path, *, sep: str = ",", first: int = 0) -> None:
    """Fill in the target of a file that `suggest` wrote, from a row on, with the truth."""
    asked = pd.read_csv(path, sep=sep, dtype=object, keep_default_na=False, encoding="utf-8-sig")
    truth = clinic(labelled=240).set_index("patient")["result"]
    asked.loc[first:, "result"] = [truth[int(key)] for key in asked["patient"][first:]]
    asked.to_csv(path, sep=sep, index=False)


def test_labels_from_a_file_train_the_same_model_as_labels_in_the_table(
    tmp_path: Path, fitted: tuple[Path, Finished]
) -> None:
    (tmp_path / "c.csv").write_bytes((fitted[0] / "clinic.csv").read_bytes())
    model = fitted[0] / "clinic.safetensors"
    for number, count in ((1, 12), (2, 8)):
        earlier = ("--labels", "1.csv") if number == 2 else ()
        options = ("--count", count, *earlier, "--out", f"{number}.csv")
        assert laddernet("suggest", model, "c.csv", *map(str, options), cwd=tmp_path).code == 0
        answered(tmp_path / f"{number}.csv")
    fit = ("fit", "--target", "result", *OPTIONS, "--no-estimate")
    done = laddernet(*fit, "c.csv", "--labels", "1.csv", "--labels", "2.csv", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    keys = [int(row["patient"]) for name in ("1.csv", "2.csv") for row in rows_of(tmp_path / name)]
    frame = clinic()
    asked = frame["patient"].isin(keys)
    assert asked.sum() == 20
    frame.loc[asked, "result"] = clinic(labelled=240)["result"][asked]
    new = frame["result"][60:].dropna()
    lines = done.out.splitlines()
    counted = [re.fullmatch(r"(\d)\.csv: (\d+) new labels \(ill: (\d+), well: (\d+)\)", line) for line in lines]
    rounds = [list(map(int, found.groups())) for found in counted if found]
    assert [each[:2] for each in rounds] == [[1, 12], [2, 8]]
    assert sum(each[2] for each in rounds) == (new == "ill").sum()
    assert lines[0] == "c.csv: 240 rows, 80 of them labelled; 4 columns are used"

    frame.to_csv(tmp_path / "whole.csv", index=False)
    assert laddernet(*fit, "whole.csv", cwd=tmp_path).code == 0
    (arrays, about), (expected, described) = (modelfile.read(tmp_path / name, "table") for name in MODELS)
    assert about == described
    assert {name: array.tobytes() for name, array in arrays.items()} == {n: a.tobytes() for n, a in expected.items()}


@pytest.mark.usefixtures("few_trees")
def test_fit_puts_the_estimate_of_the_earlier_model_beside_the_new_one(
    tmp_path: Path, fitted: tuple[Path, Finished]
) -> None:
    for name in ("clinic.csv", "clinic.safetensors"):
        (tmp_path / name).write_bytes((fitted[0] / name).read_bytes())
    kept = TableModel.load(tmp_path / "clinic.safetensors").estimate
    assert kept is not None
    laddernet("suggest", "clinic.safetensors", "clinic.csv", "--count", "6", "--out", "l.csv", cwd=tmp_path)
    answered(tmp_path / "l.csv")
    fit = ("fit", "clinic.csv", "--target", "result", *OPTIONS, "--estimate", "--labels", "l.csv")
    fit = (*fit, "--out", "new.safetensors")
    done = laddernet(*fit, cwd=tmp_path)
    new = TableModel.load(tmp_path / "new.safetensors").estimate
    assert new is not None
    assert new.judged == kept.judged + 6
    last = done.out.splitlines()[-1]
    assert last.startswith(f"The earlier model: {kept.error:.1f} % (")
    assert f"60 labelled rows); now {new.error:.1f} % (" in last
    assert last.endswith(": no clear difference.")
    os.rename(tmp_path / "clinic.safetensors", tmp_path / "elsewhere.safetensors")
    about = json.loads(laddernet(*fit, "--json", cwd=tmp_path).out)
    assert about["earlier_estimate"]["error"] == new.error
    assert [(each["file"], sum(each["new"].values())) for each in about["rounds"]] == [("l.csv", 6)]


def test_a_german_table_gets_and_takes_labels_in_its_own_dialect_with_formulas_as_they_were(tmp_path: Path) -> None:
    frame = clinic()
    frame["result"] = frame["result"].map({"ill": "=krank", "well": "gesund"})
    frame["ward"] = frame["ward"].map({"north": "@nord", "süd, 2": "süd; 2", "east": "ost"})
    frame.to_csv(tmp_path / "t.csv", index=False, sep=";", decimal=",", encoding="utf-8-sig")
    fit = ("fit", "t.csv", "--target", "result", *OPTIONS, "--no-estimate")
    assert laddernet(*fit, cwd=tmp_path).code == 0
    assert laddernet("suggest", "t.safetensors", "t.csv", "--out", "l.csv", cwd=tmp_path).code == 0
    content = (tmp_path / "l.csv").read_text("utf-8")
    assert content.startswith("\ufeffrank;spreadsheet row;patient;result;age;")
    assert "'@nord" in content
    head, *lines = content.splitlines()
    filled = [re.sub(r"^((?:[^;]*;){3});", r"\1'=krank;", line) for line in lines]
    (tmp_path / "l.csv").write_text("\n".join([head, *filled]), "utf-8")
    done = laddernet(*fit, "--labels", "l.csv", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert "l.csv: 20 new labels (=krank: 20)" in done.out.splitlines()
    assert sum("l.csv" in line for line in done.out.splitlines()) == 1  # no warning of changed cells


def test_labels_go_with_parquet_and_with_an_array_by_the_number_of_a_row(tmp_path: Path) -> None:
    frame = clinic().drop(columns="patient")
    frame.assign(admitted=pd.to_datetime(frame["admitted"])).to_parquet(tmp_path / "t.parquet")
    rng = np.random.default_rng(0)
    y = np.tile([0, 1], 60)
    np.savez(tmp_path / "a.npz", X=rng.normal(size=(120, 11)) + 2 * y[:, None], y=np.where(np.arange(120) < 40, y, -1))
    for table, target in (("t.parquet", "result"), ("a.npz", "y")):
        fit = ("fit", table, "--target", target, *OPTIONS, "--no-estimate", "--out", "m.safetensors")
        assert laddernet(*fit, cwd=tmp_path).code == 0
        assert laddernet("suggest", "m.safetensors", table, "--out", "l.csv", cwd=tmp_path).code == 0
        asked = pd.read_csv(tmp_path / "l.csv", dtype=object, keep_default_na=False)
        asked[target] = asked["predicted class"]
        asked.to_csv(tmp_path / "l.csv", index=False)
        done = laddernet(*fit, "--labels", "l.csv", cwd=tmp_path)
        assert (done.code, done.err) == (0, "")
        (line,) = (line for line in done.out.splitlines() if line.startswith("l.csv"))
        assert line.startswith("l.csv: 20 new labels (")


def test_curve_takes_labels_in_files(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    call = ("suggest", fitted[0] / "clinic.safetensors", fitted[0] / "clinic.csv", "--out", "l.csv")
    assert laddernet(*call, cwd=tmp_path).code == 0
    answered(tmp_path / "l.csv", first=15)
    options = ("--labels", "l.csv", "--counts", "1", "--repeats", "2", *OPTIONS, "--json")
    done = laddernet("curve", fitted[0] / "clinic.csv", "--target", "result", *options, cwd=tmp_path)
    assert sum(json.loads(done.out)["labels"].values()) == 65


def test_a_file_of_labels_that_is_absent_or_standard_input_is_refused(
    tmp_path: Path, fitted: tuple[Path, Finished]
) -> None:
    for path, start in (("absent.csv", "Cannot read absent.csv "), ("-", "`fit` reads its table more than once;")):
        options = ("--target", "result", "--labels", path, "--out", "m.safetensors")
        done = laddernet("fit", fitted[0] / "clinic.csv", *options, cwd=tmp_path)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        assert done.err.startswith(f"laddernet: {start}")
    assert os.listdir(tmp_path) == []
