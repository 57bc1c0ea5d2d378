import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from clinic import OPTIONS, clinic, foreign
from rich.console import Console
from support import ESC, Finished, laddernet, printable

from laddernet.classifier.estimator import LadderClassifier
from laddernet.cli.estimating import called
from laddernet.inference import modelfile
from laddernet.table.model import TableModel


def _changed(model: bytes) -> bytes:
    return model.replace(b'\\"target\\": \\"result\\"', b'\\"target\\": \\"resort\\"')


def _without_columns(model: bytes) -> bytes:
    """A file with its checksum right and a piece missing."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m"
        path.write_bytes(model)
        arrays, about = modelfile.read(path, "table")
        modelfile.write(path, "table", arrays, {name: held for name, held in about.items() if name != "columns"})
        return path.read_bytes()


MODELS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "cut off": (lambda model: model[:-100], "m is not a whole model file ("),
    "empty": (lambda model: b"", "m is not a whole model file ("),
    "a CSV file": (lambda model: b"a,b\n1,2\n" * 50, "m is not a whole model file ("),
    "from elsewhere": (foreign, "m is a safetensors file, but not a model of laddernet;"),
    "without a piece": (_without_columns, "m is not a model as laddernet saves it (KeyError: 'columns'); save the"),
    "changed in its text": (_changed, "m is damaged or was changed"),
    "changed in a number": (lambda model: model[:-1] + bytes([model[-1] ^ 1]), "m is damaged or was changed"),
}


@pytest.mark.parametrize("command", ["predict", "suggest", "inspect"])
@pytest.mark.parametrize("what", MODELS)
def test_a_bad_model_file_is_one_sentence(
    tmp_path: Path, what: str, command: str, fitted: tuple[Path, Finished]
) -> None:
    change, sentence = MODELS[what]
    whole = (fitted[0] / "clinic.safetensors").read_bytes()
    assert change(whole) != whole
    (tmp_path / "m").write_bytes(change(whole))
    rest = [] if command == "inspect" else [fitted[0] / "clinic.csv", "--out", "p.csv"]
    done = laddernet(command, "m", *rest, cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"laddernet: {sentence}")
    assert done.err.count("\n") == 1
    assert os.listdir(tmp_path) == ["m"]


def test_nothing_is_written_over_what_is_read(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    data = clinic().to_csv(index=False)
    (tmp_path / "c.csv").write_text(data)
    model = fitted[0] / "clinic.safetensors"
    for arguments in (("fit", "c.csv", "--target", "result"), ("predict", model, "c.csv"), ("suggest", model, "c.csv")):
        done = laddernet(*arguments, "--out", tmp_path / "c.csv", cwd=tmp_path)
        assert done == (2, "", "laddernet: --out is c.csv, which is read from; name another file.\n")
    assert (tmp_path / "c.csv").read_text() == data


def test_columns_that_a_new_table_lacks_are_named(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    clinic(5).drop(columns=["age", "ward"]).to_csv(tmp_path / "new.csv", index=False)
    done = laddernet("predict", fitted[0] / "clinic.safetensors", "new.csv", "--out", "p.csv", cwd=tmp_path)
    advice = "give all that the model was fitted with; `laddernet inspect` lists them"
    assert done == (2, "", f"laddernet: new.csv has no column 'age', 'ward'; {advice}.\n")
    assert os.listdir(tmp_path) == ["new.csv"]


@pytest.mark.parametrize("command", ["fit", "predict", "suggest"])
def test_ctrl_c_leaves_what_was_there_and_nothing_half_written(
    tmp_path: Path, command: str, fitted: tuple[Path, Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> Any:
        raise KeyboardInterrupt

    def leave(code: int) -> Any:
        raise SystemExit(code)

    monkeypatch.setattr(LadderClassifier, "fit" if command == "fit" else "predict_proba", stop)
    monkeypatch.setattr(os, "_exit", leave)
    (tmp_path / "out").write_text("precious")
    data = fitted[0] / "clinic.csv"
    rest = [data, "--target", "result"] if command == "fit" else [fitted[0] / "clinic.safetensors", data]
    done = laddernet(command, *rest, "--out", "out", cwd=tmp_path)
    assert done.code == 130
    assert done.err.startswith("Stopped; ")
    assert (tmp_path / "out").read_text() == "precious"
    assert os.listdir(tmp_path) == ["out"]


def test_inspect_shows_columns_classes_network_and_estimate(fitted: tuple[Path, Finished]) -> None:
    folder, printed = fitted
    done = laddernet("inspect", "clinic.safetensors", "--json", cwd=folder)
    about = json.loads(done.out)
    assert (done.code, done.err) == (0, "")
    counts = clinic()["result"].value_counts()
    assert about["labels"] == {"ill": counts["ill"], "well": counts["well"]}
    assert [(column["name"], column["kind"]) for column in about["columns"]] == [
        ("age", "number"),
        ("ward", "category"),
        ("smoker", "boolean"),
        ("admitted", "date"),
    ]
    assert about["columns"][1]["does"].startswith("an input for each of 'east', 'north', 'süd, 2'")
    assert about["network"]["sizes"] == [11, 8, 2]
    # By hand: weights up and down, γ and β above the input, nine a unit in the combinator.
    weights = 11 * 8 + 8 * 2
    linear = 2 * 11 * 2 + 2 * 2 + 9 * (11 + 2)
    assert (about["network"]["networks"], about["network"]["linear_share"]) == (2, 0.25)
    assert about["network"]["parameters"] == 2 * (2 * weights + 2 * (8 + 2) + 9 * (11 + 8 + 2)) + linear
    assert about["network"]["settings"]["steps"] == 64
    estimate = printed.out[printed.out.index("Expected error") :]
    assert about["estimate"]["sentences"] == estimate.splitlines()[:3]
    assert about["method"] == about["estimate"]["method"] == "blend"
    assert about["members"] == ["ladder", "logistic", "extra-trees"]
    shown = laddernet("inspect", "clinic.safetensors", cwd=folder).out
    assert shown.endswith(estimate)
    words = " ".join(shown.split())
    for what in (
        "a blend of the Ladder Network, logistic regression and extra-trees, saved by",
        "2 of 11-8-2 and one of 11-2, ",
        "hospital not used one value only",
        "class (result)",
        about["sha256"],
    ):
        assert what in words


# --- compare ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def two_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a good model, one that learned wrong labels, and a labelled table that neither has seen."""
    folder = tmp_path_factory.mktemp("two")
    swapped = clinic().assign(result=clinic()["result"].map({"ill": "well", "well": "ill"}))
    for name, frame in {"good": clinic(), "bad": swapped}.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
        assert laddernet("fit", f"{name}.csv", "--target", "result", *OPTIONS, "--no-estimate", cwd=folder).code == 0
    new = clinic(100, 80, seed=3)
    new.loc[0, "result"] = "unheard of"  # wrong for both
    new.to_csv(folder / "new.csv", index=False)
    return folder


def test_compare_counts_what_predict_says_and_names_the_better_model(two_models: Path) -> None:
    new = pd.read_csv(two_models / "new.csv")
    predicted = [TableModel.load(two_models / f"{name}.safetensors").predict(new) for name in ("good", "bad")]
    truth = new["result"].to_numpy()[:80]
    right = [classes[:80] == truth for classes in predicted]
    call = ("compare", "good.safetensors", "bad.safetensors", "new.csv")
    done = laddernet(*call, "--json", cwd=two_models)
    about = json.loads(done.out)
    assert (done.code, done.err) == (0, "")
    assert (about["rows"], about["judged"], about["target"]) == (100, 80, "result")
    assert about["agree"] == np.count_nonzero(predicted[0] == predicted[1])
    assert [model["wrong"] for model in about["models"]] == [80 - good.sum() for good in right]
    assert about["only_right"] == [np.sum(right[0] & ~right[1]), np.sum(right[1] & ~right[0])]
    assert sum(change["rows"] for change in about["changes"]) == 100 - about["agree"]
    assert about["p_value"] < 1e-6
    lines = laddernet(*call, cwd=two_models).out.splitlines()
    assert lines[0] == f"The models agree on {about['agree']} of 100 rows ({about['agree']:.1f} %)."
    assert lines[1].startswith(f"good.safetensors: {about['models'][0]['wrong']} of 80 labelled rows wrong, ")
    assert ": good.safetensors is better (p = " in lines[3]


def test_compare_without_labels_says_where_the_models_agree(two_models: Path, tmp_path: Path) -> None:
    clinic(30, seed=3).drop(columns="result").to_csv(tmp_path / "new.csv", index=False)
    good = two_models / "good.safetensors"
    done = laddernet("compare", good, good, "new.csv", cwd=tmp_path)
    unknown = "No row has a label, so their errors are unknown."
    assert done == (0, f"The models agree on 30 of 30 rows (100.0 %).\n{unknown}\n", "")
    done = laddernet("compare", good, good, "new.csv", "--target", "reslt", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("laddernet: new.csv has no column 'reslt'; ")


def test_no_escape_sequence_of_a_model_reaches_the_terminal(
    tmp_path: Path, iris_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laddernet.cli.inspect._out", Console(width=300))
    arrays, about = modelfile.read(iris_model, "table")
    first, *others = about["classes"]
    classes = [f"{first}{ESC}", *others]
    labels = dict(zip(classes, about["labels"].values(), strict=True))
    about |= {"target": f"l{ESC}", "dropped": {f"n{ESC}": f"r{ESC}"}, "labels": labels, "version": f"v{ESC}"}
    about["classes"] = classes
    modelfile.write(tmp_path / "m", "table", arrays, about)
    for options in ((), ("--json",)):
        shown = laddernet("inspect", "m", *options, cwd=tmp_path)
        assert (shown.code, shown.err) == (0, "")
        assert printable(shown.out)
        assert shown.out.count("1b[31m\\u202e\\") == 5
        assert "[bold]$" in shown.out


@pytest.mark.parametrize(
    ("members", "words"),
    [
        (None, "a blend of the Ladder Network, logistic regression and extra-trees"),
        (
            ["ladder", "self-training", "extra-trees"],  # of a file before 2026-11-19
            "a blend of the Ladder Network, self-training logistic regression and extra-trees",
        ),
    ],
)
def test_a_blend_is_called_by_its_members(members: list[str] | None, words: str) -> None:
    assert called("blend", "vanilla", members) == words
