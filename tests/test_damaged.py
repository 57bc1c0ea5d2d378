"""Counterexamples that `make torture` found: each is one sentence and exit code 2."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
from support import Finished, laddernet

from laddernet.errors import InputError
from laddernet.inference import modelfile
from laddernet.table.model import TableModel
from laddernet.training import checkpoint


def is_one_sentence(ended: Finished, words: str) -> None:
    assert ended.code == 2
    assert ended.err.startswith("laddernet: ")
    assert len(ended.err.splitlines()) == 1
    assert words in ended.err


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    model: Path, tmp_path: Path, name: str, value: Any
) -> None:
    arrays, about = modelfile.read(model, "table")
    modelfile.write(tmp_path / "bad.safetensors", "table", arrays, {**about, name: value})
    is_one_sentence(laddernet("inspect", "bad.safetensors", cwd=tmp_path), "is not a model as laddernet saves it")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("scaling.shift", lambda array: array[:, None]),
        ("scaling.factor", lambda array: array[:0]),
        ("networks.0.encoder.1.W", lambda array: array[:-1]),
        ("networks.0.encoder.1.W", lambda array: array[:, :-1]),
    ],
)
@pytest.mark.parametrize("command", ["predict", "suggest", "inspect"])
def test_a_model_with_a_fitting_checksum_and_other_shapes_is_refused(
    model: Path, tmp_path: Path, command: str, name: str, change: Callable[[np.ndarray], np.ndarray]
) -> None:
    arrays, about = modelfile.read(model, "table")
    arrays[f"classifier/{name}"] = np.ascontiguousarray(change(arrays[f"classifier/{name}"]))
    modelfile.write(tmp_path / "bad.safetensors", "table", arrays, about)
    (tmp_path / "table.csv").write_text("size\n0.5\n1.5\n")
    table = [] if command == "inspect" else ["table.csv"]
    ended = laddernet(command, "bad.safetensors", *table, cwd=tmp_path)
    is_one_sentence(ended, "is not a model as laddernet saves it")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("members.extra-trees.left", lambda array: np.zeros_like(array)),
        ("members.extra-trees.feature", lambda array: array + 1),
        ("members.self-training.W", lambda array: array[:, :-1]),
        ("members.ladder.scaling.shift", lambda array: array[:0]),
    ],
)
@pytest.mark.parametrize("command", ["predict", "suggest", "inspect"])
def test_a_blend_with_a_fitting_checksum_and_other_arrays_is_refused(
    blend: Path, tmp_path: Path, command: str, name: str, change: Callable[[np.ndarray], np.ndarray]
) -> None:
    arrays, about = modelfile.read(blend, "table")
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


def test_a_model_with_a_fitting_checksum_and_other_columns_is_refused(model: Path, tmp_path: Path) -> None:
    arrays, about = modelfile.read(model, "table")
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


def test_damaged_pandas_metadata_do_not_keep_a_parquet_file_from_being_read(model: Path, tmp_path: Path) -> None:
    pd.DataFrame({"size": [0.5, 1.5]}).to_parquet(tmp_path / "t.parquet")
    content = (tmp_path / "t.parquet").read_bytes()
    # Once as it is, and once in the schema that Arrow keeps in base64.
    assert b'"index_columns"' in content
    (tmp_path / "t.parquet").write_bytes(content.replace(b'"index_columns":', b'"index_columns"\xff'))
    done = laddernet("predict", model, "t.parquet", cwd=tmp_path)
    assert (done.code, len(done.out.splitlines())) == (0, 3)


@pytest.mark.parametrize("change", [{"epoch": "1"}, {"history": 0.5}, {"history": [1]}])
def test_a_checkpoint_with_a_fitting_checksum_and_other_types_is_refused(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    state = {"a": np.zeros(2, np.float32)}
    checkpoint.save(tmp_path, 1, state, fingerprint="f", history=[{"epoch": 1}])
    path = tmp_path / "epoch-000001.json"
    record = {**json.loads(path.read_bytes()), **change}
    record.pop("check")
    record["check"] = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps(record))
    with pytest.raises(InputError, match="No checkpoint in"):
        checkpoint.load(tmp_path, state, fingerprint="f")
    assert safetensors.numpy.load_file(tmp_path / "epoch-000001.safetensors")


def test_repeats_without_end_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,y\n1,x\n2,z\n")
    done = laddernet("curve", "t.csv", "--target", "y", "--repeats", str(2**53), cwd=tmp_path)
    assert done.code == 2
    assert "1000" in done.err


def test_a_column_with_a_name_without_end_is_named_in_a_short_sentence(model: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text(f"size,{'z' * 20_000}\n1,1\n")
    ended = laddernet("predict", model, "new.csv", "--out", "out.csv", cwd=tmp_path)
    assert (ended.code, len(ended.err.splitlines())) == (0, 1)
    assert "z" * 90 in ended.err
    assert len(ended.err) < 500
