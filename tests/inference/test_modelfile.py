import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import laddernet, refused

from laddernet.errors import InputError
from laddernet.inference import modelfile

ARRAYS = {"a": np.arange(6.0).reshape(2, 3), "b": np.array([True, False])}
ABOUT: dict[str, Any] = {"names": ["ä", "b"], "number": 3}


def test_a_file_holds_what_was_written(tmp_path: Path) -> None:
    by_columns = np.asfortranarray(ARRAYS["a"])  # safetensors would write its memory in another order
    modelfile.write(tmp_path / "m", "table", ARRAYS | {"a": by_columns}, ABOUT)
    arrays, about = modelfile.read(tmp_path / "m", "table")
    assert {name: array.tolist() for name, array in arrays.items()} == {n: a.tolist() for n, a in ARRAYS.items()}
    assert about.items() >= ABOUT.items()
    assert about["format"] == modelfile.FORMAT
    assert os.listdir(tmp_path) == ["m"]


@pytest.mark.parametrize(("kind", "way"), [("classifier", r"LadderClassifier\.load"), ("table", "`laddernet predict`")])
def test_a_model_of_another_kind_is_refused_with_what_opens_it(tmp_path: Path, kind: str, way: str) -> None:
    modelfile.write(tmp_path / "m", kind, ARRAYS, ABOUT)
    other = "table" if kind == "classifier" else "classifier"
    with pytest.raises(InputError, match=f"is a {kind} model, not a {other} model; open it with {way}"):
        modelfile.read(tmp_path / "m", other)


def test_a_file_of_a_newer_version_is_refused_with_that_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modelfile, "FORMAT", modelfile.FORMAT + 1)
    modelfile.write(tmp_path / "m", "table", ARRAYS, ABOUT | {"version": "9.9"})
    monkeypatch.undo()
    with pytest.raises(InputError, match=r"was saved by laddernet 9\.9, which is newer; install that version"):
        modelfile.read(tmp_path / "m", "table")


def test_any_changed_byte_is_noticed(tmp_path: Path) -> None:
    modelfile.write(tmp_path / "m", "table", ARRAYS, ABOUT)
    whole = (tmp_path / "m").read_bytes()
    for place in range(len(whole)):
        (tmp_path / "m").write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        try:
            arrays, about = modelfile.read(tmp_path / "m", "table")
        except InputError:
            continue
        # Only a change that says the same, as of white space in the header, may pass.
        assert about.items() >= ABOUT.items()
        assert all(np.array_equal(arrays[name], array) for name, array in ARRAYS.items())


@pytest.mark.parametrize("error", [KeyError("columns"), ValueError("two\nlines"), RecursionError()])
def test_an_error_in_the_content_is_one_sentence(error: Exception) -> None:
    sentence = r"^m is not a model as laddernet saves it \(.*\); save the model anew\.$"
    with pytest.raises(InputError, match=sentence), modelfile.understood("m"):
        raise error


def test_a_file_of_zeros_is_no_model_and_is_not_read_whole(tmp_path: Path) -> None:
    with (tmp_path / "m").open("wb") as file:
        file.truncate(1 << 42)  # which takes no space
    refused(laddernet("inspect", "m", cwd=tmp_path), "m is not a whole model file (its header would have 0 bytes);")
