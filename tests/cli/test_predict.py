import csv
import io
import json
import os
import re
import subprocess
import sys
import tracemalloc
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from clinic import NETWORK, OPTIONS, by_hand, clinic, rows_of
from support import Finished, laddernet

from laddernet.classifier.estimator import LadderClassifier
from laddernet.classifier.few_labels import FewLabelClassifier
from laddernet.table import table as tables
from laddernet.table.read import open_table


def hand_made() -> FewLabelClassifier:
    codes = clinic()["result"].map({"ill": 0, "well": 1}).fillna(-1).to_numpy(int)
    classifier = FewLabelClassifier("blend", ladder=LadderClassifier(**NETWORK), random_state=NETWORK["random_state"])
    return classifier.fit(by_hand(clinic()), codes)


@pytest.mark.usefixtures("few_trees")
def test_predict_writes_what_the_estimator_says_of_inputs_made_by_hand(
    tmp_path: Path, fitted: tuple[Path, Finished]
) -> None:
    new = clinic(100, 100, seed=3)
    # Other order, an additional column, another delimiter, and no target: columns are matched by their names.
    shuffled = new[["smoker", "age", "patient", "admitted", "ward"]].assign(extra=1)
    shuffled.to_csv(tmp_path / "new.csv", index=False, sep=";")
    model = fitted[0] / "clinic.safetensors"
    options = ("--out", "p.csv", "--proba", "--keep", "patient")
    done = laddernet("predict", model, "new.csv", *options, cwd=tmp_path)
    assert done == (0, "100 rows; saved to p.csv\n", "new.csv: 'extra' not known to the model, and not used.\n")
    expected = hand_made().predict_proba(by_hand(new))
    rows = rows_of(tmp_path / "p.csv", ";")
    assert list(rows[0]) == ["patient", "class", "confidence", "p(ill)", "p(well)"]
    assert [int(row["patient"]) for row in rows] == new["patient"].tolist()
    assert [row["class"] for row in rows] == [("ill", "well")[k] for k in expected.argmax(axis=1)]
    given_p = np.array([[float(row["p(ill)"]), float(row["p(well)"])] for row in rows])
    assert np.abs(given_p - expected).max() < 1e-5
    assert np.array_equal([float(row["confidence"]) for row in rows], given_p.max(axis=1))
    # and it has learned something
    assert np.mean([row["class"] == truth for row, truth in zip(rows, new["result"], strict=True)]) > 0.8


def test_the_same_rows_as_parquet_or_in_small_parts_get_the_same_predictions(
    tmp_path: Path, fitted: tuple[Path, Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    new = clinic(100, seed=3)
    new.to_csv(tmp_path / "new.csv", index=False)
    new.assign(admitted=pd.to_datetime(new["admitted"])).to_parquet(tmp_path / "new.parquet")
    model = fitted[0] / "clinic.safetensors"
    outs = [laddernet("predict", model, name, cwd=tmp_path) for name in ("new.csv", "new.parquet")]
    monkeypatch.setattr(tables, "CELLS", 70)
    outs.append(laddernet("predict", model, "new.csv", cwd=tmp_path))
    frames = [pd.read_csv(io.StringIO(out.out)) for out in outs]
    for frame in frames:
        assert list(frame.columns) == ["patient", "class", "confidence"]
        assert frame["class"].equals(frames[0]["class"])
        # A matrix product of fewer rows is summed in another order.
        assert np.allclose(frame["confidence"], frames[0]["confidence"], atol=2e-6)


def test_columns_of_a_parquet_file_are_copied_as_they_are(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    key = pd.array([9007199254740993, None, 1], dtype="Int64")
    more = {"key": key, "share": np.float32([0.1, np.nan, 2]), "list": [[1, 2], [], None], "on": [True, None, False]}
    clinic(3).assign(**more).to_parquet(tmp_path / "new.parquet")
    keep = ("--keep", "key,share,list,on")
    done = laddernet("predict", fitted[0] / "clinic.safetensors", "new.parquet", *keep, cwd=tmp_path)
    copied = [row[:4] for row in csv.reader(done.out.splitlines())]
    assert copied[1:] == [["9007199254740993", "0.1", "[1, 2]", "True"], ["", "", "[]", ""], ["1", "2.0", "", "False"]]


FORMULAS = ["=HYPERLINK(0)", "+1-2", "-x", "@a", "\tb", "a;=b", "it's", "-1.5", "+49 30", 'say "-no"']


@pytest.fixture(scope="session")
def formulas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table of cells that a spreadsheet would compute, and a model whose classes are such."""
    folder = tmp_path_factory.mktemp("formulas")
    frame = clinic()
    frame["result"] = frame["result"].map({"ill": "=ill()", "well": "-1"})
    frame["=note"] = (FORMULAS * len(frame))[: len(frame)]
    frame.to_csv(folder / "t.csv", index=False)
    done = laddernet(*("fit", "t.csv", "--target", "result", "--drop", "=note", *OPTIONS, "--no-estimate"), cwd=folder)
    assert (done.code, done.err) == (0, "")
    return folder


@pytest.mark.parametrize("command", ["predict", "suggest"])
def test_no_cell_that_is_written_is_a_formula_and_all_are_read_as_they_were(
    formulas: Path, tmp_path: Path, command: str
) -> None:
    more = ("--proba",) if command == "predict" else ("--count", "200")
    options = ("t.safetensors", "t.csv", "--keep", "=note,age", "--out", tmp_path / "p.csv", *more)
    assert laddernet(command, *options, cwd=formulas).code == 0
    header, *rows = csv.reader(io.StringIO((tmp_path / "p.csv").read_text()))
    written = {cell for row in (header, *rows) for cell in row}
    assert {"'=note", "'=HYPERLINK(0)", "'=ill()", "a;'=b", "it's", "-1.5", "-1"} <= written
    for cell in written:
        with suppress(ValueError):
            float(cell)
            continue
        assert not any(part.strip().startswith(tuple("=+-@")) for part in re.split('[,;"]', cell))
    best = "class" if command == "predict" else "predicted class"
    (again,) = open_table(tmp_path / "p.csv").parts(["=note", best])
    assert set(again["=note"]) <= set(FORMULAS)
    assert set(again[best]) == {"=ill()", "-1"}

    assert laddernet(command, *options, "--raw", cwd=formulas).code == 0
    header, *rows = csv.reader(io.StringIO((tmp_path / "p.csv").read_text()))
    assert {"=note", "=HYPERLINK(0)", "=ill()", "a;=b"} <= {cell for row in (header, *rows) for cell in row}


def test_a_table_four_times_as_long_takes_no_more_memory(
    tmp_path: Path, fitted: tuple[Path, Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "CELLS", 7 * 500)
    monkeypatch.setattr("laddernet.table.ahead.cores", lambda: 1)  # parts of several threads overlap by chance
    model = fitted[0] / "clinic.safetensors"
    block = clinic(1000, 0, seed=1).to_csv(index=False, header=False)
    header = ",".join(clinic(1).columns) + "\n"
    peaks = []
    for blocks in (2, 8):
        (tmp_path / "long.csv").write_text(header + block * blocks)
        tracemalloc.start()
        done = laddernet("predict", model, "long.csv", "--out", "p.csv", cwd=tmp_path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert done.out == f"{1000 * blocks:,} rows; saved to p.csv\n"
    assert peaks[1] < 1.1 * peaks[0]
    assert peaks[1] < 8e6


def test_cells_that_cannot_be_read_count_as_missing_and_are_told(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    new = clinic(20, seed=2).astype({"age": object})
    odd = new.copy()
    odd.loc[4, "age"] = "old"
    new.loc[4, "age"] = None
    odd.to_csv(tmp_path / "odd.csv", index=False)
    new.to_csv(tmp_path / "new.csv", index=False)
    model = fitted[0] / "clinic.safetensors"
    done = laddernet("predict", model, "odd.csv", cwd=tmp_path)
    assert (done.code, done.err) == (0, "age: 1 cell is not of the column's kind, and counted as missing.\n")
    assert done.out == laddernet("predict", model, "new.csv", cwd=tmp_path).out


def test_a_kept_column_named_class_does_not_clash(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    clinic(5).assign(**{"class": "x"}).to_csv(tmp_path / "new.csv", index=False)
    model = fitted[0] / "clinic.safetensors"
    done = laddernet("predict", model, "new.csv", "--keep", "class,result", cwd=tmp_path)
    assert done.out.splitlines()[0] == "class (given),result,class,confidence"
    assert done.out.splitlines()[1].startswith("x,")


def test_what_was_there_stays_if_the_table_turns_out_bad_at_its_end(
    tmp_path: Path, fitted: tuple[Path, Finished], small_parts: None
) -> None:
    (tmp_path / "p.csv").write_text("precious")
    (tmp_path / "new.csv").write_text(clinic(100).to_csv(index=False) + "1,2\n")
    done = laddernet("predict", fitted[0] / "clinic.safetensors", "new.csv", "--out", "p.csv", cwd=tmp_path)
    advice = "mend that line, or name another --delimiter"
    assert done == (2, "", f"laddernet: new.csv, line 102: 2 cells where the header has 7 columns; {advice}.\n")
    assert (tmp_path / "p.csv").read_text() == "precious"
    assert sorted(os.listdir(tmp_path)) == ["new.csv", "p.csv"]


def test_a_column_with_a_name_without_end_is_named_in_a_short_sentence(iris_model: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text(f"a,b,c,d,e,{'z' * 20_000}\n1,1,1,1,u,1\n")
    ended = laddernet("predict", iris_model, "new.csv", "--out", "out.csv", cwd=tmp_path)
    assert (ended.code, len(ended.err.splitlines())) == (0, 1)
    assert "z" * 90 in ended.err
    assert len(ended.err) < 500


@pytest.mark.process
def test_a_pipe_goes_in_and_out_and_may_be_closed_early(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    model = fitted[0] / "clinic.safetensors"
    text = clinic(10_000, seed=4).to_csv(index=False)
    command = [sys.executable, "-m", "laddernet", "predict", str(model), "-"]
    running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdin
    assert running.stdout
    assert running.stderr
    running.stdin.write(text.encode())
    running.stdin.close()
    assert running.stdout.readline() == b"patient,class,confidence\n"
    running.stdout.close()  # as `head -1` does
    assert running.stderr.read() == b""
    running.stderr.close()
    assert running.wait() == 1


@pytest.mark.process
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is full")
def test_a_disk_that_is_full_is_one_sentence(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    clinic(5).to_csv(tmp_path / "new.csv", index=False)
    command = [sys.executable, "-m", "laddernet", "predict", str(fitted[0] / "clinic.safetensors"), "new.csv"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    why = "Cannot write to standard output (No space left on device)"
    assert (done.returncode, done.stderr) == (2, f"laddernet: {why}; send it to a place that has space.\n")


@pytest.mark.process
def test_a_terminal_that_knows_only_ascii_will_do(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    clinic(20).to_csv(tmp_path / "new.csv", index=False)
    command = [sys.executable, "-m", "laddernet", "predict", str(fitted[0] / "clinic.safetensors"), "new.csv"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*command, "--keep", "ward"], cwd=tmp_path, env=environment, capture_output=True, check=True)
    assert "süd, 2" in done.stdout.decode("utf-8")  # a table is in UTF-8, wherever it goes
    inspected = [*command[:3], "inspect", command[4]]
    assert b"?" in subprocess.run(inspected, cwd=tmp_path, env=environment, capture_output=True, check=True).stdout


# --- Output -----------------------------------------------------------------------------------------------------


def test_the_identifiers_that_fit_found_are_copied_unless_columns_are_named(
    tmp_path: Path, fitted: tuple[Path, Finished]
) -> None:
    new = clinic(30, 0, seed=3)
    new.to_csv(tmp_path / "new.csv", index=False)
    call = ("predict", fitted[0] / "clinic.safetensors", "new.csv")

    def copied(*options: str) -> list[dict[str, str]]:
        return list(csv.DictReader(laddernet(*call, *options, cwd=tmp_path).out.splitlines()))

    rows = copied()
    assert list(rows[0])[:2] == ["patient", "class"]
    assert {int(row["patient"]) for row in rows} <= set(new["patient"])
    assert list(copied("--keep", "")[0])[:1] == ["class"]
    assert list(copied("--keep", "ward,age")[0])[:3] == ["ward", "age", "class"]
    new.drop(columns="patient").to_csv(tmp_path / "new.csv", index=False)  # then there is nothing to copy
    assert list(copied()[0])[:1] == ["class"]


@pytest.fixture(scope="session")
def german(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table as a German spreadsheet writes it, and its model."""
    folder = tmp_path_factory.mktemp("german")
    clinic().to_csv(folder / "t.csv", index=False, sep=";", decimal=",", encoding="utf-8-sig")
    assert laddernet("fit", "t.csv", "--target", "result", *OPTIONS, "--no-estimate", cwd=folder).code == 0
    return folder


@pytest.mark.parametrize("command", ["predict", "suggest"])
def test_output_has_the_delimiter_the_decimal_comma_and_the_mark_of_the_input(german: Path, command: str) -> None:
    call = (command, "t.safetensors", "t.csv", "--keep", "patient,age,ward")
    assert laddernet(*call, "--out", "p.csv", cwd=german).code == 0
    content = (german / "p.csv").read_text("utf-8")
    assert content.startswith("\ufeff")
    assert laddernet(*call, cwd=german).out == content.removeprefix("\ufeff")
    written = pd.read_csv(german / "p.csv", sep=";", decimal=",", encoding="utf-8-sig")
    assert written["confidence"].between(0.5, 1).all()
    assert written["confidence"].dtype == written["age"].dtype == float
    assert set(written["ward"]) == {"north", "süd, 2", "east"}
    (again,) = open_table(german / "p.csv").parts(["confidence"])
    assert all("," in cell or cell == "1" for cell in again["confidence"])


def test_a_table_with_commas_between_cells_keeps_decimal_points(german: Path, tmp_path: Path) -> None:
    clinic(20).to_csv(tmp_path / "new.csv", index=False, decimal=",")  # the numbers are in quotes
    done = laddernet("predict", german / "t.safetensors", "new.csv", "--keep", "", cwd=tmp_path)
    rows = list(csv.DictReader(done.out.splitlines()))
    assert all(0.5 <= float(row["confidence"]) <= 1 for row in rows)


@pytest.mark.parametrize("command", ["predict", "suggest"])
def test_json_has_an_object_for_each_row_with_the_values_of_the_csv(
    tmp_path: Path, fitted: tuple[Path, Finished], command: str
) -> None:
    clinic(30, 0, seed=3).assign(note="a\x1b[31m\n").to_csv(tmp_path / "new.csv", index=False)
    call = (command, fitted[0] / "clinic.safetensors", "new.csv", "--keep", "patient,note,ward")
    plain = list(csv.DictReader(io.StringIO(laddernet(*call, cwd=tmp_path).out, newline="")))
    done = laddernet(*call, "--json", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert "\x1b" not in done.out
    found = [json.loads(line) for line in done.out.splitlines()]
    assert [{name: "" if value is None else str(value) for name, value in row.items()} for row in found] == plain
    done = laddernet(*call, "--json", "--out", "p.json", cwd=tmp_path)
    assert json.loads(done.out)["out"] == "p.json"
    assert json.loads(done.out)["rows"] == len(found)
    assert [json.loads(line) for line in (tmp_path / "p.json").read_text().splitlines()] == found


def test_large_whole_numbers_and_short_floats_of_arrays_keep_their_digits(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.tile([0.1, 0.7], 60).astype(np.float32)
    x = rng.normal(size=(120, 11)) + 2 * (y[:, None] > 0.5)
    key = np.arange(2**63, 2**63 + 120, dtype=np.uint64)
    np.savez(tmp_path / "t.npz", X=x, y=np.where(np.arange(120) < 40, y, np.float32(np.nan)), key=key)
    done = laddernet("fit", "t.npz", *OPTIONS, "--no-estimate", cwd=tmp_path)
    assert [line.split()[0] for line in done.out.splitlines()[1:3]] == ["0.1", "0.7"]
    done = laddernet("predict", "t.safetensors", "t.npz", "--keep", "key,y", cwd=tmp_path)
    rows = list(csv.DictReader(done.out.splitlines()))
    assert [int(row["key"]) for row in rows] == key.tolist()
    assert {row["class"] for row in rows} == {"0.1", "0.7"}
    assert {row["y"] for row in rows} == {"0.1", "0.7", ""}
