import io
import json
import os
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from clinic import NETWORK, OPTIONS, clinic, foreign
from support import ESC, Finished, laddernet, printable

from laddernet.classifier.estimator import LadderClassifier
from laddernet.classifier.members import METHODS
from laddernet.cli.estimating import called
from laddernet.inference import modelfile
from laddernet.table.columns import IDENTIFIER
from laddernet.table.model import TableModel

LADDER = ("--method", "ladder", "--no-estimate")


def test_fit_tells_the_labels_of_each_class_what_is_not_used_and_what_to_expect(fitted: tuple[Path, Finished]) -> None:
    folder, done = fitted
    lines = done.out.splitlines()
    counts = clinic()["result"].value_counts()
    assert lines[0] == "clinic.csv: 240 rows, 60 of them labelled; 4 columns are used"
    assert [line.split()[:2] for line in lines[1:3]] == [["ill", str(counts["ill"])], ["well", str(counts["well"])]]
    assert lines[3:5] == [f"Not used: 'patient' ({IDENTIFIER})", "Not used: 'hospital' (one value only)"]
    assert re.match(r"Trained a blend of the Ladder Network, .* for \d+ s; saved to clinic\.safetensors$", lines[5])
    assert lines[6].startswith("Expected error on new rows: ")
    assert lines[7].startswith("With half of the labels it is ")
    assert lines[8].startswith("Its mean confidence was ")
    known = TableModel.load(folder / "clinic.safetensors").estimate
    assert known is not None
    assert known.methods is not None
    assert lines[9].split() == ["on", "the", "same", "folds", "wrong", "error", "90", "%", "interval"]
    shown = {METHODS[name].removeprefix("the ").removeprefix("a "): wrong for name, wrong in known.methods.items()}
    methods = [re.match(r" (.+?) +([\d.]+) +([\d.]+) % +[\d.]+–[\d.]+ %", line) for line in lines[10:17]]
    assert {m[1]: float(m[2]) for m in methods if m} == shown
    assert [float(m[2]) for m in methods if m] == sorted(shown.values())
    assert lines[17] == known.advice
    assert lines[18].split() == ["class", "held", "out", "wrong", "90", "%", "interval", "ill", "well"]
    assert [line.split()[:2] for line in lines[19:]] == [["ill", str(counts["ill"])], ["well", str(counts["well"])]]
    matrix = [[0.0 if cell == "·" else float(cell) for cell in line.split()[-2:]] for line in lines[19:]]
    np.testing.assert_allclose(matrix, known.matrix(2))
    assert sorted(os.listdir(folder)) == ["clinic.csv", "clinic.safetensors"]


def test_more_rows_without_labels_and_npz_are_learned_from(tmp_path: Path) -> None:
    # Columns such that the network's shape is that of the clinic: eleven inputs, two classes.
    rng = np.random.default_rng(0)
    y = np.tile([0, 1], 60)
    x = rng.normal(size=(120, 11)) + 2 * y[:, None]
    np.savez(tmp_path / "few.npz", X=x[:60], y=np.where(np.arange(60) < 20, y[:60], -1))
    np.savez(tmp_path / "more.npz", X=x[60:])
    done = laddernet("fit", "few.npz", "--also", "more.npz", *OPTIONS, *LADDER, cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("few.npz: 120 rows, 20 of them labelled; 11 columns are used\n")
    codes = np.where(np.arange(120) < 20, y, -1)
    expected = LadderClassifier(**NETWORK).fit(x, codes).predict(x)
    done = laddernet("predict", "few.safetensors", "more.npz", cwd=tmp_path)
    assert [int(line.split(",")[0]) for line in done.out.splitlines()[1:]] == expected[60:].tolist()
    done = laddernet("suggest", "few.safetensors", "few.npz", "--count", "60", cwd=tmp_path)
    assert {int(line.split(",")[1]) for line in done.out.splitlines()[1:]} == set(range(22, 62))
    np.savez(tmp_path / "wide.npz", X=np.zeros((3, 12)))
    done = laddernet("predict", "few.safetensors", "wide.npz", cwd=tmp_path)
    assert done == (2, "", "laddernet: wide.npz: X has 12 columns; the model takes 11.\n")


def test_there_is_no_estimate_where_labels_or_time_do_not_allow_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = clinic()
    for name in ("ill", "well"):
        few.loc[few.index[few["result"] == name][1:], "result"] = None
    few.to_csv(tmp_path / "few.csv", index=False)
    clinic().to_csv(tmp_path / "clinic.csv", index=False)
    done = laddernet("fit", "few.csv", "--target", "result", *OPTIONS, "--confusion", "c.svg", cwd=tmp_path)
    end = "No estimate: no class has two labels; it needs two or more of a class."
    assert done.out.splitlines()[-1] == end
    assert done.err == "c.svg was not written: the model has no estimate; fit it with --estimate.\n"
    monkeypatch.setattr("laddernet.cli.estimating._PATIENCE", 0)  # no training takes less
    done = laddernet("fit", "clinic.csv", "--target", "result", *OPTIONS, cwd=tmp_path)
    assert done.out.splitlines()[-1].startswith("No estimate: it would take about ")
    assert TableModel.load(tmp_path / "clinic.safetensors").estimate is None


def _npz(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def _zip(name: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(name, "content")
    return out.getvalue()


def _parquet(frame: pd.DataFrame) -> bytes:
    out = io.BytesIO()
    frame.to_parquet(out)
    return out.getvalue()


class Unpickled:
    """Would leave a trace if it were ever unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, ("unpickled",))


_X = np.arange(20.0).reshape(10, 2)


_OBJECTS = np.array([[Unpickled()]], object)


_MANY = "\n".join(f"{i},{i * 1.5}" for i in range(40))


BAD: dict[str, tuple[bytes, str, str]] = {
    "a row too short": (b"a,label\n1,x\n2\n", "", "bad, line 3: 1 cell where the header has 2 columns; mend"),
    "a row too long": (b"a,label\n1,x\n2,y,z\n", "", "bad, line 3: 3 cells where the header has 2 columns; mend"),
    "a row too short after a quoted break": (b'a,label\n"1\n",x\n2\n', "", "bad, line 4: 1 cell where"),
    "another encoding": ("a,label\n1,x\n2,ä\n".encode("cp1252"), "", "bad, line 3, is not utf-8 text; name"),
    "no such encoding": (b"a,label\n", "--encoding latin9000", "There is no encoding 'latin9000'; utf-8, "),
    "an encoding that is not the file's": (b"a,label\n1,x\n", "--encoding utf-16", "bad is not utf-16 text; name"),
    "a delimiter of two characters": (b"a,label\n", "--delimiter ab", "The delimiter is 'ab'; give one character"),
    "an open quote": (b'a,label\n1,"x\n2,y\n', "", "bad, line 3: not CSV (unexpected end of data); mend"),
    "nothing": (b"", "", "bad is empty; give a table with the columns' names in its first line."),
    "blank lines": (b"\n\n", "", "bad is empty; give a table"),
    "a header alone": (b"a,label\n", "", "bad: no row has a 'label'; give at least one label of two classes."),
    "two columns of one name": (b"a,a,label\n1,2,x\n", "", "bad has two columns named 'a'; give each"),
    "no such target": (b"a,labels\n1,x\n", "", "bad has no column 'label'; did you mean 'labels'?"),
    "nothing like the target": (b"a,b\n1,x\n", "", "bad has no column 'label'; it has 'a', 'b'."),
    "no label": (b"a,label\n1,\n2,NA\n", "", "bad: no row has a 'label'; give at least one label"),
    "one class": (b"a,label\n1,x\n2,\n3,x\n", "", "bad: all labels are 'x'; give labels of two classes or more."),
    "a target that is measured": (f"a,label\n{_MANY}\n".encode(), "", "'label' has 40 values in 40 labelled rows; "),
    "an infinite number": (b"a,label\n1,x\n2,y\ninf,\n", "", "Column 'a' has inf in row 3; give a number below"),
    "a number too large": (b"a,label\n1,x\n2,y\n1e39,\n", "", "Column 'a' has 1e+39 in row 3; give a number below"),
    "no column of use": (b"a,label\n1,x\n1,y\n", "", "bad has no column to learn from (a: one value only)."),
    "no column but the target": (b"label\nx\ny\n", "", "bad has no column to learn from (it has none but"),
    "no such column to drop": (b"a,label\n1,x\n", "--drop b", "bad has no column 'b'; it has 'a', 'label'."),
    "more rows of other columns": (
        b"a,b,label\n1,2,x\n",
        "--also other",
        "other has no column 'a', 'b'; give the same",
    ),
    "no such model": (b"a,label\n1,x\n", "--model vanila", "There is no model 'vanila'; did you mean 'vanilla'?"),
    "no hidden size": (b"a,label\n1,x\n", "--hidden 8,a", "--hidden has 'a' where a whole number should be."),
    "y of another length": (_npz(X=_X, label=np.arange(9)), "", "bad: label has 9 rows and X has 10; give both"),
    "y in two columns": (_npz(X=_X, label=_X), "", "bad: label has the shape (10, 2); give one value for each row."),
    "X without columns": (_npz(X=_X[:, :0], label=np.arange(10)), "", "bad: X has no columns (its shape is (10, 0)); "),
    "no X": (_npz(Y=_X), "", "bad has no array X with a row for each example; save it with np.savez(path, X=X, y=y)."),
    "X of objects": (_npz(X=_OBJECTS), "", "bad: X holds Python objects, which are not read; save numbers or text."),
    "infinity in X": (
        _npz(X=np.where(_X == 5, np.inf, _X), label=np.arange(10) % 2),
        "",
        "Column 'x1' has inf in row 3;",
    ),
    "a workbook": (
        _zip("xl/workbook.xml"),
        "",
        "bad is a zip file, but not NPZ; save the table as CSV, Parquet or NPZ.",
    ),
    "half an NPZ file": (_npz(X=_X)[:200], "", "bad is not a whole NPZ file ("),
    "an array": (b"\x93NUMPY\x01", "", "bad is a single NumPy array; save it with its classes, by np.savez"),
    "a compressed file": (b"\x1f\x8b\x08", "", "bad is compressed with gzip; give the file that gunzip makes of it."),
    "half a Parquet file": (_parquet(clinic(9))[:500], "", "bad is not a whole Parquet file ("),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_table_is_one_sentence_and_what_was_saved_stays(tmp_path: Path, what: str) -> None:
    content, options, sentence = BAD[what]
    (tmp_path / "bad").write_bytes(content)
    (tmp_path / "other").write_bytes(b"label\nx\n")
    (tmp_path / "m.safetensors").write_bytes(b"precious")
    arguments = ["fit", "bad", "--target", "label", "--out", "m.safetensors", *options.split()]
    done = laddernet(*arguments, cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"laddernet: {sentence}")
    assert done.err.endswith((".\n", "?\n", "all.\n"))
    assert done.err.count("\n") == 1
    assert (tmp_path / "m.safetensors").read_bytes() == b"precious"
    assert sorted(os.listdir(tmp_path)) == ["bad", "m.safetensors", "other"]


def test_a_csv_table_needs_a_target(tmp_path: Path) -> None:
    clinic().to_csv(tmp_path / "c.csv", index=False)
    done = laddernet("fit", "c.csv", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    sentence = "laddernet: --target is missing; name the column that holds the classes,"
    assert done.err == f"{sentence} perhaps --target 'result'.\n"
    clinic()[["patient", "age"]].to_csv(tmp_path / "c.csv", index=False)
    assert laddernet("fit", "c.csv", cwd=tmp_path).err == f"{sentence} one of 'patient', 'age'.\n"


@pytest.mark.parametrize("options", [("absent/m.safetensors",), (".",)])
def test_a_place_that_cannot_be_written_to_is_found_before_the_training(
    tmp_path: Path, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LadderClassifier, "fit", None)
    clinic().to_csv(tmp_path / "c.csv", index=False)
    done = laddernet("fit", "c.csv", "--target", "result", "--out", *options, cwd=tmp_path)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith("laddernet: Cannot write ")


def test_what_fit_did_not_save_is_only_replaced_by_its_name(tmp_path: Path) -> None:
    clinic().to_csv(tmp_path / "c.csv", index=False)
    model = tmp_path / "c.safetensors"
    fit = ("fit", "c.csv", "--target", "result", *OPTIONS, "--no-estimate")
    for precious in (b"precious", foreign(b"")):
        model.write_bytes(precious)
        done = laddernet(*fit, cwd=tmp_path)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("laddernet: c.safetensors exists and is not a whole model that `fit` saved; name ")
        assert model.read_bytes() == precious
    assert laddernet(*fit, "--out", "c.safetensors", cwd=tmp_path).code == 0
    first = model.stat().st_ino
    assert laddernet(*fit, cwd=tmp_path).code == 0  # a model of one's own makes room for the next
    assert model.stat().st_ino != first


@pytest.mark.parametrize("command", ["fit", "curve"])
@pytest.mark.parametrize("option", ["--epochs", "--max-steps", "--networks"])
def test_no_training_at_all_is_refused_before_the_table_is_read(tmp_path: Path, command: str, option: str) -> None:
    done = laddernet(command, "absent.csv", option, "0", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert option in done.err
    assert "absent.csv" not in done.err


@pytest.mark.parametrize("path", [".", "absent.csv", "-"])
def test_what_is_no_file_cannot_be_learned_from(tmp_path: Path, path: str) -> None:
    done = laddernet("fit", path, "--target", "y", cwd=tmp_path)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith(("laddernet: Cannot read ", "laddernet: `fit` reads its table more than once;"))


@pytest.mark.usefixtures("few_trees")
def test_ctrl_c_during_the_estimate_leaves_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    def leave(code: int) -> Any:
        raise SystemExit(code)

    monkeypatch.setattr("laddernet.table.estimate.estimate", stop)
    monkeypatch.setattr(os, "_exit", leave)
    clinic().to_csv(tmp_path / "c.csv", index=False)
    done = laddernet("fit", "c.csv", "--target", "result", *OPTIONS, cwd=tmp_path)
    assert (done.code, done.err) == (130, "Stopped; c.safetensors is saved, without an estimate.\n")
    assert TableModel.load(tmp_path / "c.safetensors").estimate is None


@pytest.mark.usefixtures("few_trees")
def test_fit_as_json_prints_one_object_with_what_it_says_otherwise(
    tmp_path: Path, fitted: tuple[Path, Finished]
) -> None:
    clinic().to_csv(tmp_path / "c.csv", index=False)
    done = laddernet("fit", "c.csv", "--target", "result", *OPTIONS, "--estimate", "--json", cwd=tmp_path)
    about = json.loads(done.out)
    assert (done.code, done.err) == (0, "")
    assert (about["model"], about["rows"], sum(about["labels"].values())) == ("c.safetensors", 240, 60)
    assert about["dropped"] == {"patient": IDENTIFIER, "hospital": "one value only"}
    assert about["estimate"]["sentences"] == fitted[1].out.splitlines()[6:9]
    assert about["method"] == about["estimate"]["method"]
    again = laddernet("fit", "c.csv", "--target", "result", *OPTIONS, "--json", "--no-estimate", cwd=tmp_path)
    assert json.loads(again.out)["estimate"] is None


def test_repeats_without_end_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,y\n1,x\n2,z\n")
    done = laddernet("curve", "t.csv", "--target", "y", "--repeats", str(2**53), cwd=tmp_path)
    assert done.code == 2
    assert "1000" in done.err


def test_curve_as_json_prints_one_object(tmp_path: Path) -> None:
    clinic().to_csv(tmp_path / "c.csv", index=False)
    options = ("--counts", "1,5", "--repeats", "2", *OPTIONS)
    done = laddernet("curve", "c.csv", "--target", "result", *options, "--json", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    about = json.loads(done.out)
    assert [point["per_class"] for point in about["points"]] == [1, 5]
    plain = laddernet("curve", "c.csv", "--target", "result", *options, cwd=tmp_path).out.splitlines()
    assert "Ladder Network  logistic regression" in "\n".join(plain)
    assert about["forecast"] == plain[-1]
    shown = [float(line.split()[2]) for line in plain if line.split()[0] in ("1", "5")]
    assert shown == [round(point["error"]["mean"], 1) for point in about["points"]]


def test_the_model_is_called_ladder_network_and_its_variants_by_their_ids() -> None:
    assert called("ladder", "vanilla") == "a Ladder Network"
    assert called("ladder", "linear") == "the model linear"
    assert called("blend", "vanilla").startswith("a blend of the Ladder Network, ")
    assert called("forest", "linear") == "a random forest"


@pytest.mark.parametrize("method", ["ladder", "forest", "boosting", "logistic"])
def test_every_method_is_saved_shown_and_predicts(tmp_path: Path, method: str) -> None:
    clinic().to_csv(tmp_path / "c.csv", index=False)
    options = ("--target", "result", *OPTIONS, "--no-estimate", "--method", method)
    done = laddernet("fit", "c.csv", *options, cwd=tmp_path)
    assert f"Trained {called(method, 'vanilla')} for " in done.out
    again = laddernet("fit", "c.csv", *options, "--out", "again.safetensors", cwd=tmp_path)
    assert again.code == 0
    (arrays, about), (same_arrays, same) = (
        modelfile.read(tmp_path / f"{name}.safetensors", "table") for name in ("c", "again")
    )
    assert about == same
    assert {name: array.tobytes() for name, array in arrays.items()} == {
        name: array.tobytes() for name, array in same_arrays.items()
    }
    assert json.loads(laddernet("inspect", "c.safetensors", "--json", cwd=tmp_path).out)["method"] == method
    shown = laddernet("inspect", "c.safetensors", cwd=tmp_path)
    assert (shown.code, shown.err) == (0, "")
    done = laddernet("predict", "c.safetensors", "c.csv", cwd=tmp_path)
    predicted = [line.split(",")[1] for line in done.out.splitlines()[1:]]
    truth = clinic(labelled=240)["result"]
    assert np.mean(np.array(predicted) == truth) > 0.85
    done = laddernet("suggest", "c.safetensors", "c.csv", "--count", "3", cwd=tmp_path)
    assert (done.code, len(done.out.splitlines())) == (0, 4)


def test_an_unknown_method_is_refused_before_the_table_is_read(tmp_path: Path) -> None:
    done = laddernet("fit", "absent.csv", "--target", "y", "--method", "svm", cwd=tmp_path)
    sentence = "There is no method 'svm'; give one of auto, blend, ladder, logistic, self-training, forest, "
    assert (done.code, done.err) == (2, f"laddernet: {sentence}extra-trees, boosting.\n")


def test_pictures_of_the_estimate_are_written_and_drawn_again_by_inspect(
    tmp_path: Path, fitted: tuple[Path, Finished]
) -> None:
    model = fitted[0] / "clinic.safetensors"
    done = laddernet("inspect", model, "--confusion", "c.svg", "--calibration", "k.png", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-2:] == ["saved to c.svg", "saved to k.png"]
    assert sorted(os.listdir(tmp_path)) == ["c.svg", "k.png"]
    done = laddernet("inspect", model, "--confusion", "c.gif", cwd=tmp_path)
    assert (done.code, done.err.count("\n")) == (2, 1)


def test_no_escape_sequence_of_a_table_reaches_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fitted(of: LadderClassifier, *_: Any) -> LadderClassifier:
        return of

    monkeypatch.setattr(LadderClassifier, "fit", fitted)
    monkeypatch.setattr(TableModel, "save", lambda model, path: None)
    frame = pd.DataFrame({f"n{ESC}": [1, 2, 3, 4.5] * 5, f"one{ESC}": 1, "label": ["x", f"y{ESC}"] * 10})
    frame[f"n{ESC}"] = [*frame[f"n{ESC}"].astype(str)[:19], f"odd{ESC}"]
    frame.to_csv(tmp_path / f"t{ESC}.csv", index=False)
    done = laddernet(
        "fit",
        f"t{ESC}.csv",
        "--target",
        "label",
        "--no-estimate",
        "--method",
        "ladder",
        "--out",
        f"m{ESC}",
        cwd=tmp_path,
    )
    assert (done.code, done.err) == (0, "")
    assert printable(done.out)
    assert done.out.count("\\x1b[31m\\u202e\\x9b1m\\x07[bold]$") >= 5
