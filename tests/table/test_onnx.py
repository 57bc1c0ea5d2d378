import json
import math
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from clinic import clinic, rows_of
from hypothesis import given, settings
from hypothesis import strategies as st
from support import Finished, laddernet

from laddernet.classifier.estimator import LadderClassifier
from laddernet.classifier.few_labels import FewLabelClassifier
from laddernet.classifier.members import Members
from laddernet.classifier.methods import fit_members
from laddernet.inference.network import Network, Scaling
from laddernet.inference.onnx import TEXT_OPSET, Graph
from laddernet.table.columns import Column
from laddernet.table.model import TableModel
from laddernet.table.onnx import read
from laddernet.table.read import open_table
from laddernet.table.rows import read_rows

# --- Tables -----------------------------------------------------------------------------------------------------------


def any_table(path: Path, seed: int, draw: int = 0, rows: int = 150) -> None:
    """Write a CSV file with columns of all kinds; the seed chooses columns and forms, the draw the cells."""
    rng = np.random.default_rng([seed, draw])
    missing = ["", "NA", "?", "nan", " "]

    def chosen(values: Any) -> Any:
        return values[rng.integers(len(values))]

    def with_holes(cells: list[str], odd: str) -> list[str]:
        holes = rng.random(len(cells))
        spaced = [f" {cell} " if rng.random() < 0.1 else cell for cell in cells]
        return [
            chosen(missing) if hole < 0.1 else odd if hole > 0.98 else cell
            for cell, hole in zip(spaced, holes, strict=True)
        ]

    grouped = [f"{number:,.2f}" for number in rng.normal(0, 10**6, rows)]
    decimal = [[f"{n:.3f}", f"{n:.3f}".replace(".", ",")][seed % 2] for n in rng.normal(5, 2, rows)]
    swapped = [number.translate(str.maketrans(",.", ".,")) for number in grouped]
    numbers = {
        "decimal": decimal,
        "grouped": [grouped, swapped][seed % 2],
        "large": [repr(n) for n in 1e9 + rng.random(rows)],
    }
    days = pd.Timestamp("1965-03-01") + pd.to_timedelta(rng.integers(0, 30000, rows), unit="D")
    moments = days + pd.to_timedelta(rng.integers(0, 86400, rows), unit="s")
    day = ["%Y-%m-%d", "%d.%m.%Y", "%b %d, %Y", "%m/%d/%y"][seed % 4]
    time = ["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S+02:00", "%d.%m.%Y %H:%M", "%m/%d/%Y %I:%M:%S %p"][seed // 2 % 4]
    words = ["red", "Rot; tief", "grün", 'say "no"', "a,b", "two\nlines", "light  blue", "007", "*.[x]\\", "=1+1"]
    columns = {
        **{name: with_holes(cells, "none") for name, cells in numbers.items()},
        "code": with_holes([f"00{n}" for n in rng.integers(0, 99, rows)], "x"),
        "paid": with_holes([chosen(["yes", "No", "YES", "true"]) for _ in range(rows)], "maybe"),
        "colour, etc.": with_holes([chosen(words) for _ in range(rows)], "rare"),
        "few": [chosen(["a", "b"]) for _ in range(rows)],
        "day": with_holes(days.strftime(day).tolist(), "soon"),
        "time": with_holes(moments.strftime(time).tolist(), "later"),
        "label": [chosen(["z", "x", "y", ""][seed % 8 == 3 :]) for _ in range(rows)],
    }
    absent = np.random.default_rng(seed).choice(list(columns)[:-2], seed % 4, replace=False)
    names = [name for name in columns if name not in absent]
    pd.DataFrame(columns)[names].to_csv(path, index=False, sep=",;"[seed % 2])


def network(x: np.ndarray, classes: int, seed: int) -> LadderClassifier:
    """A classifier of random weights: how it was trained is no matter here."""
    rng = np.random.default_rng(seed)
    sizes = (x.shape[1], 7, classes)
    weights = tuple(rng.normal(0, size[0] ** -0.5, size).astype(np.float32) for size in pairwise(sizes))
    biases = tuple(rng.normal(0, 1, size).astype(np.float32) for size in sizes[1:])
    factor = (1 / np.maximum(x.std(axis=0), 1e-6)).astype(np.float32)
    classifier = LadderClassifier()
    classifier.n_features_in_, classifier.classes_ = sizes[0], np.arange(classes)
    classifier.network_ = Network(Scaling(x.mean(axis=0), factor, 3.0), weights, biases)
    return classifier


OTHERS = ((), ("self-training", "extra-trees"), ("logistic", "forest"), ("boosting",))


def model_of(path: Path, seed: int) -> TableModel:
    """A model of the table in a file: a network and the methods that the seed chooses."""
    rows = read_rows(open_table(path), "label")
    ladder = network(rows.X, len(rows.classes), seed)
    classifier = FewLabelClassifier()
    classifier.n_features_in_, classifier.classes_, classifier.method_ = ladder.n_features_in_, ladder.classes_, "blend"
    classifier.members_ = fit_members(OTHERS[seed % 4], rows.X, rows.codes, ladder=None, seed=seed)
    classifier.members_.models["ladder"] = ladder
    return TableModel.of(rows, classifier)


def answers(path: Path, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """The labels and probabilities that onnxruntime gives for the columns of a table that the model takes."""
    session = onnxruntime.InferenceSession(str(path))
    kinds = {"tensor(string)": object, "tensor(double)": np.float64}
    rows = {i.name: frame[[i.name]].to_numpy().astype(kinds[i.type]) for i in session.get_inputs()}
    label, probabilities = session.run(None, rows)
    return label, probabilities


@pytest.mark.parametrize("seed", range(12))
def test_a_runtime_predicts_from_the_cells_of_a_file_what_the_model_does(tmp_path: Path, seed: int) -> None:
    any_table(tmp_path / "t.csv", seed)
    any_table(tmp_path / "new.csv", seed, draw=1)
    model = model_of(tmp_path / "t.csv", seed)
    model.to_onnx(tmp_path / "m.onnx")
    for file in ("t.csv", "new.csv"):
        table = open_table(tmp_path / file)
        (frame,) = table.parts(table.columns)
        label, probabilities = answers(tmp_path / "m.onnx", frame)
        np.testing.assert_allclose(probabilities, model.predict_proba(frame), rtol=0, atol=1e-5)
        assert label.tolist() == model.predict(frame).tolist()


def test_a_model_that_was_fitted_predicts_on_the_command_line_what_its_export_does(
    tmp_path: Path, fitted: tuple[Path, Finished]
) -> None:
    model = fitted[0] / "clinic.safetensors"
    done = laddernet("export", str(model), "m.onnx", cwd=tmp_path)
    assert (done.code, done.out, done.err) == (0, "4 columns in, 2 classes out; saved to m.onnx\n", "")
    clinic(60, seed=3).to_csv(tmp_path / "new.csv", index=False)
    assert laddernet("predict", str(model), "new.csv", "--proba", "--out", "p.csv", cwd=tmp_path).code == 0
    cells = pd.read_csv(tmp_path / "new.csv", dtype=str, keep_default_na=False)
    label, probabilities = answers(tmp_path / "m.onnx", cells)
    rows = rows_of(tmp_path / "p.csv")
    assert label.tolist() == [row["class"] for row in rows]
    expected = [[float(row["p(ill)"]), float(row["p(well)"])] for row in rows]
    np.testing.assert_allclose(probabilities, expected, rtol=0, atol=1e-5)


def test_the_file_is_valid_and_says_what_the_model_is(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    model = TableModel.load(fitted[0] / "clinic.safetensors")
    model.to_onnx(tmp_path / "m.onnx")
    made = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(made, full_check=True)
    about = {prop.key: prop.value for prop in made.metadata_props}
    assert (about["target"], json.loads(about["classes"])) == ("result", ["ill", "well"])
    assert about["version"] == model.version
    assert [column["name"] for column in json.loads(about["columns"])] == ["age", "ward", "smoker", "admitted"]
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    inputs = [(i.name, i.type, i.shape) for i in session.get_inputs()]
    assert inputs == [(name, "tensor(string)", ["rows", 1]) for name in ("age", "ward", "smoker", "admitted")]
    assert [output.name for output in session.get_outputs()] == ["label", "probabilities"]


def test_numbers_may_be_numbers(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    model = TableModel.load(fitted[0] / "clinic.safetensors")
    model.to_onnx(tmp_path / "m.onnx", numbers=True)
    frame = clinic(40, seed=4)
    assert frame["age"].isna().any()
    label, probabilities = answers(tmp_path / "m.onnx", frame)
    np.testing.assert_allclose(probabilities, model.predict_proba(frame), rtol=0, atol=1e-5)
    assert label.tolist() == model.predict(frame).tolist()


def test_columns_may_have_the_names_of_the_outputs(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pd.DataFrame({"label": rng.normal(size=40), "probabilities": ["a", "b"] * 20, "kind": ["x", "y"] * 20}).to_csv(
        tmp_path / "t.csv", index=False
    )
    table = open_table(tmp_path / "t.csv")
    rows = read_rows(table, "kind")
    classifier = FewLabelClassifier()
    classifier.method_, classifier.members_ = "ladder", Members(Scaling(np.zeros(3), np.ones(3), None), {})
    classifier.members_.models["ladder"] = network(rows.X, 2, seed=0)
    model = TableModel.of(rows, classifier)
    model.to_onnx(tmp_path / "m.onnx")
    (frame,) = table.parts(table.columns)
    label, probabilities = answers(tmp_path / "m.onnx", frame)
    assert label.tolist() == model.predict(frame).tolist()
    np.testing.assert_allclose(probabilities, model.predict_proba(frame), rtol=0, atol=1e-5)


# --- Cells ------------------------------------------------------------------------------------------------------------

COLUMNS = {
    "point": Column("c", "number", "1000.5"),
    "groups": Column("c", "number", "1,000.5"),
    "comma": Column("c", "number", "1000,5"),
    "boolean": Column("c", "boolean"),
    "iso": Column("c", "time", "ISO8601"),
    "german": Column("c", "date", "%d.%m.%Y"),
    "american": Column("c", "time", "%b %d, %y %I:%M:%S %p"),
}
CELLS = [
    *(
        "",
        "NA",
        "?",
        " ",
        "nan",
        "NaN",
        "inf",
        "x",
        "0",
        "1",
        " 2.5 ",
        "-.5",
        "5.",
        "1e3",
        "1E-2",
        "1e-320",
        "0x10",
        "1_000",
    ),
    *(
        "1,5",
        "1,500",
        "1.500",
        "1.500,25",
        "-1,234,567.5",
        "12,34",
        "0,5e2",
        "3e38",
        "4e38",
        "٣",
        "1 2",
        "\t1",
        "1\xa0",
    ),
    *("yes", "No", "TRUE", "f", "y ", "10", "ſ"),
    *(
        "2024-02-29",
        "2023-02-29",
        "20240131",
        "2024",
        "2024/1/5",
        "2024.1-5",
        "1969-12-31T23:59:59.25Z",
        "2024-01-31 9:05",
    ),
    *(
        "2024-01-31 22:30 -0530",
        "0001-01-01",
        "9999-12-31",
        "now",
        "-1",
        "-2024-01-01",
        "2024-01-31T24:00",
        "2024-13-01",
    ),
    *("31.01.2024", "1.2.2024", "31.04.2024", "29.02.1900", "01.01.0001", "01.01.0000", " 5.1.2024", "١1.01.2024"),
    *("Jan 5, 24 12:00:00 AM", "jan  5, 69 1:5:7 pm", "FEB 29, 01 12:30:00 PM", "Sep 31, 20 1:00:00 AM"),
]


@cache
def session(kind: str, folder: Path) -> onnxruntime.InferenceSession:
    graph = Graph(TEXT_OPSET, {"c", "out"})
    graph("Identity", read(graph, COLUMNS[kind]), output="out")
    graph.write(folder / f"{kind}.onnx", [("c", object, ["rows", 1])], [("out", np.float64, ["rows", 1])])
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 4
    return onnxruntime.InferenceSession(str(folder / f"{kind}.onnx"), quiet)


def in_runtime(kind: str, folder: Path, cells: list[str]) -> list[float] | str:
    """What the graph reads, or the sentence with which it refuses."""
    try:
        (out,) = session(kind, folder).run(None, {"c": np.array(cells, object)[:, None]})
    except Exception as error:
        found = re.search(r"Name:'(.*)' Status", str(error))
        return found[1] if found else str(error)
    return [float(value) for value in out[:, 0]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("columns")


def same(found: list[float] | str, cells: list[str], column: Column) -> bool:
    """Whether the graph reads these cells as the model does, or refuses what it must."""
    if any(cell.strip(" ") != cell.strip() for cell in cells):
        return found == "Column 'c': a cell begins or ends with white space that is not a space; remove it."
    expected = column.read(pd.Series(cells, dtype=object))
    if (np.abs(expected) > np.finfo(np.float32).max).any():
        return found == "Column 'c': a number is above 3e38; give a smaller one, or leave the cell empty."
    return isinstance(found, list) and np.allclose(found, expected, rtol=1e-12, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_cell_is_read_in_a_runtime_as_by_the_model(folder: Path, kind: str) -> None:
    wrong = [cell for cell in CELLS if not same(in_runtime(kind, folder, [cell]), [cell], COLUMNS[kind])]
    assert not wrong


@settings(max_examples=40)
@given(
    kind=st.sampled_from(list(COLUMNS)),
    cells=st.lists(
        st.one_of(st.sampled_from(CELLS), st.text(st.characters(exclude_characters="\0"), max_size=6)),
        min_size=1,
        max_size=9,
    ),
)
def test_cells_are_read_in_a_runtime_as_by_the_model(folder: Path, kind: str, cells: list[str]) -> None:
    assert same(in_runtime(kind, folder, cells), cells, COLUMNS[kind])


def test_a_column_of_which_no_cell_is_understood_is_refused_as_at_prediction(folder: Path) -> None:
    sentence = "Column 'c': no cell is understood; give numbers written as 1000,5."
    assert in_runtime("comma", folder, ["1.5"] * 10) == sentence
    assert in_runtime("comma", folder, ["1.5"] * 9) == pytest.approx([math.nan] * 9, nan_ok=True)
    assert in_runtime("comma", folder, ["", "NA"] * 9) == pytest.approx([math.nan] * 18, nan_ok=True)
