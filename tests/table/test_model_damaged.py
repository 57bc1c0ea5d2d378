"""Model files whose checksum is right and whose content is wrong."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from support import Finished, laddernet, refused

from laddernet.inference import modelfile
from laddernet.table.model import TableModel


def is_one_sentence(ended: Finished, words: str) -> None:
    assert ended.code == 2
    assert ended.err.startswith("laddernet: ")
    assert len(ended.err.splitlines()) == 1
    assert words in ended.err


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    frame = pd.DataFrame({"size": [0.5, 1.5] * 6, "y": ["cat", "dog"] * 6})
    TableModel.fit(frame, "y", method="ladder", hidden=(4,), n_networks=1, max_steps=1).save(path)
    return path


@pytest.fixture(scope="module")
def blend(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("blend") / "model.safetensors"
    frame = pd.DataFrame({"size": [0.5, 1.5] * 6, "y": ["cat", "dog"] * 6})
    TableModel.fit(frame, "y", hidden=(4,), n_networks=1, max_steps=1).save(path)
    return path


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rows", "many"),
        ("labels", {"cat": None, "dog": 6}),
        ("labels", {"cat": {}, "dog": 6}),
        ("classes", ["cat"]),
        ("dropped", {"id": 3}),
        ("target", 1),
    ],
)
def test_a_model_with_a_fitting_checksum_and_other_types_is_refused(
    small: Path, tmp_path: Path, name: str, value: Any
) -> None:
    arrays, about = modelfile.read(small, "table")
    modelfile.write(tmp_path / "bad.safetensors", "table", arrays, {**about, name: value})
    is_one_sentence(laddernet("inspect", "bad.safetensors", cwd=tmp_path), "is not a model as laddernet saves it")


@pytest.mark.parametrize(
    ("whole", "name", "change"),
    [
        ("small", "scaling.shift", lambda array: array[:, None]),
        ("small", "scaling.factor", lambda array: array[:0]),
        ("small", "scaling.factor", lambda array: array.astype(np.int64)),
        ("small", "networks.0.encoder.1.W", lambda array: array[:-1]),
        ("small", "networks.0.encoder.1.W", lambda array: array[:, :-1]),
        ("blend", "members.extra-trees.left", lambda array: np.zeros_like(array)),
        ("blend", "members.extra-trees.feature", lambda array: array + 1),
        ("blend", "members.logistic.W", lambda array: array[:, :-1]),
        ("blend", "members.ladder.scaling.shift", lambda array: array[:0]),
    ],
)
@pytest.mark.parametrize("command", ["predict", "suggest", "inspect"])
def test_a_model_with_a_fitting_checksum_and_other_arrays_is_refused(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    command: str,
    whole: str,
    name: str,
    change: Callable[[np.ndarray], np.ndarray],
) -> None:
    arrays, about = modelfile.read(request.getfixturevalue(whole), "table")
    arrays[f"classifier/{name}"] = np.ascontiguousarray(change(arrays[f"classifier/{name}"]))
    modelfile.write(tmp_path / "bad.safetensors", "table", arrays, about)
    (tmp_path / "table.csv").write_text("size\n0.5\n1.5\n")
    table = [] if command == "inspect" else ["table.csv"]
    ended = laddernet(command, "bad.safetensors", *table, cwd=tmp_path)
    is_one_sentence(ended, "is not a model as laddernet saves it")


@pytest.mark.parametrize(
    ("name", "value"),
    [("method", "svm"), ("method", "forest"), ("ladder", {}), ("errors", 3), ("parameters", []), ("bound", "far")],
)
def test_a_blend_with_a_fitting_checksum_and_another_description_is_refused(
    blend: Path, tmp_path: Path, name: str, value: Any
) -> None:
    arrays, about = modelfile.read(blend, "table")
    about["classifier"][name] = value
    modelfile.write(tmp_path / "bad.safetensors", "table", arrays, about)
    is_one_sentence(laddernet("inspect", "bad.safetensors", cwd=tmp_path), "")


def test_a_model_with_a_fitting_checksum_and_other_columns_is_refused(small: Path, tmp_path: Path) -> None:
    arrays, about = modelfile.read(small, "table")
    about["classifier"]["n_features_in"] = {}
    modelfile.write(tmp_path / "bad.safetensors", "table", arrays, about)
    is_one_sentence(laddernet("inspect", "bad.safetensors", cwd=tmp_path), "is not a model as laddernet saves it")


@pytest.mark.parametrize("seconds", [10**15, 10**30])
def test_a_model_whose_dates_are_out_of_range_is_refused(tmp_path: Path, seconds: int) -> None:
    frame = pd.DataFrame({"when": pd.date_range("2024-01-01", periods=12), "y": ["cat", "dog"] * 6})
    TableModel.fit(frame, "y", method="ladder", hidden=(4,), n_networks=1, max_steps=1).save(
        tmp_path / "model.safetensors"
    )
    arrays, about = modelfile.read(tmp_path / "model.safetensors", "table")
    about["learned"]["since"]["when"] = seconds
    modelfile.write(tmp_path / "bad.safetensors", "table", arrays, about)
    is_one_sentence(laddernet("inspect", "bad.safetensors", cwd=tmp_path), "is not a model as laddernet saves it")


def _set(*path: str, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(about: dict[str, Any]) -> None:
        for name in path[:-1]:
            about = about[name]
        about[path[-1]] = to

    return change


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "a trillion networks": (
        _set("classifier", "networks", to=10**12),
        "The model declares 1000000000000 networks and holds 1; save the model anew.",
    ),
    "classes of a gigabyte": (
        _set("classifier", "classes", "dtype", to="<U400000000"),
        "The model declares 3 classes of the type <U400000000; save the model anew.",
    ),
    "classes that are objects": (_set("classifier", "classes", "dtype", to="O"), "The model declares 3 classes of"),
    "a type that is none": (
        _set("classifier", "classes", "dtype", to="<U4x"),
        "m is not a model as laddernet saves it",
    ),
    "categories of a trillion rows": (
        _set("learned", "rare", to=10**12),
        "The model's limit of rare categories is 1000000000000 rows; save the model anew.",
    ),
    "a bound that is no number": (
        _set("classifier", "bound", to={}),
        "The model's bound is not a number above 0; save the model anew.",
    ),
    "a number too large": (_set("classifier", "shares", to=[10**400]), "m is not a model as laddernet saves it (Over"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_model_file_with_its_checksum_right_and_its_claims_wrong_is_one_sentence(
    tmp_path: Path, iris_model: Path, what: str
) -> None:
    change, sentence = CHANGES[what]
    arrays, about = modelfile.read(iris_model, "table")
    change(about)
    modelfile.write(tmp_path / "m", "table", arrays, about)
    refused(laddernet("inspect", "m", cwd=tmp_path), sentence)


def test_a_model_file_that_is_nested_too_deeply_is_one_sentence(tmp_path: Path, iris_model: Path) -> None:
    arrays, about = modelfile.read(iris_model, "table")
    deep = "[" * 10_000 + "]" * 10_000
    with patch("json.dumps", lambda value, **how: deep if "format" in value else dumps(value, **how)):
        modelfile.write(tmp_path / "m", "table", arrays, about)
    refused(laddernet("inspect", "m", cwd=tmp_path), "m is not a model as laddernet saves it (ValueError: nested too")
    header = b'{"__metadata__":' + deep.encode() + b"}"
    (tmp_path / "m").write_bytes(len(header).to_bytes(8, "little") + header)
    refused(laddernet("inspect", "m", cwd=tmp_path), "m is not a whole model file (nested too deeply);")


dumps = json.dumps
