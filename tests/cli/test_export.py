import json
from pathlib import Path

import onnxruntime
import pytest
from support import Finished, laddernet


def test_export_describes_what_it_wrote_as_json(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    model = str(fitted[0] / "clinic.safetensors")
    done = laddernet("export", model, "m.onnx", "--numbers", "--json", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    about = json.loads(done.out)
    assert (about["model"], about["out"], about["target"], about["classes"]) == (
        model,
        "m.onnx",
        "result",
        ["ill", "well"],
    )
    inputs = onnxruntime.InferenceSession(str(tmp_path / "m.onnx")).get_inputs()
    assert about["columns"] == [i.name for i in inputs]
    assert [i.type for i in inputs] == ["tensor(double)", *["tensor(string)"] * 3]


@pytest.mark.parametrize(
    ("out", "sentence"),
    [
        ("m.safetensors", "--out is m.safetensors, which is read from; name another file."),
        ("none/m.onnx", "Cannot write none/m.onnx (No such file or directory)"),
        (".", "Cannot write ., which is a folder; name a file."),
    ],
)
def test_a_place_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, fitted: tuple[Path, Finished], out: str, sentence: str
) -> None:
    saved = (fitted[0] / "clinic.safetensors").read_bytes()
    (tmp_path / "m.safetensors").write_bytes(saved)
    done = laddernet("export", "m.safetensors", out, cwd=tmp_path)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert sentence in done.err
    assert [file.name for file in tmp_path.iterdir()] == ["m.safetensors"]
    assert (tmp_path / "m.safetensors").read_bytes() == saved
