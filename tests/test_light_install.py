"""What works, and what is said, where only the packages of ``pip install laddernet`` are there."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from clinic import clinic
from support import Finished

from laddernet.cli.main import _COMMANDS
from laddernet.errors import _EXTRAS

# As if the packages were not installed: what is imported first of all refuses them.
BLOCKER = """import sys


class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Blocker())
"""

# Runs several commands in one process, and prints the exit code, output and errors of each.
SCRIPT = """import contextlib, io, json, sys
from laddernet.cli.main import main

ended = []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["laddernet", *arguments]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    ended.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(ended))
"""


def python(folder: Path, script: str, *arguments: str, there: tuple[str, ...] = ()) -> str:
    """Return what a script prints that finds none of the extras' packages but those named."""
    site = folder / "site"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(BLOCKER.format(packages=_EXTRAS.keys() - set(there)))
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, cwd=folder, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def commands(folder: Path, *lines: str, there: tuple[str, ...] = ()) -> list[Any]:
    return json.loads(python(folder, SCRIPT, json.dumps([line.split() for line in lines]), there=there))


@pytest.mark.process
def test_prediction_needs_no_extra_and_every_help_is_there(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    model = fitted[0] / "clinic.safetensors"
    clinic(40, labelled=9, seed=9).to_csv(tmp_path / "new.csv", index=False)
    lines = [
        f"predict {model} new.csv --out p.csv",
        f"suggest {model} new.csv --out s.csv",
        f"inspect {model}",
        f"compare {model} {model} new.csv",
        f"export {model} m.onnx",
        "models",
        "data",
    ]
    helps = ["--help", *(f"{name} --help" for names in _COMMANDS.values() for name in names)]
    ended = commands(tmp_path, *lines, *helps, there=("onnx",))
    wrong = {line: end for line, end in zip([*lines, *helps], ended, strict=True) if end[0] or end[2]}
    assert not wrong
    assert {file.name for file in tmp_path.iterdir()} >= {"p.csv", "s.csv", "m.onnx"}


@pytest.mark.process
def test_what_needs_an_extra_says_which(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    clinic(40).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    model = fitted[0] / "clinic.safetensors"
    lines = {
        "fit t.csv --target result": "train",
        "curve t.csv --target result": "train",
        "train": "train",
        "study": "study",
        "study status --out x": "study",
        "report --out x": "study",
        "tune vanilla": "study",
        f"export {model} m.onnx": "onnx",
        f"predict {model} t.parquet": "parquet",
        "curve t.csv --target result --out c.svg": "plot",
    }
    for (line, extra), (code, out, err) in zip(lines.items(), commands(tmp_path, *lines), strict=True):
        assert (code, out, err.count("\n")) == (2, "", 1), (line, err)
        assert f"which is not installed; install it with pip install 'laddernet[{extra}]'" in err, line
    assert {file.name for file in tmp_path.iterdir()} == {"t.csv", "t.parquet", "site"}


@pytest.mark.process
def test_in_python_too(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    script = """import sys
import laddernet
import pandas as pd

frame = pd.read_csv(sys.argv[2])
print(len(laddernet.TableModel.load(sys.argv[1]).predict(frame)))
for attempt in (
    lambda: laddernet.LadderClassifier().fit([[0.0], [1.0]], [0, 1]),
    lambda: laddernet.TableModel.fit(frame, "result"),
    lambda: laddernet.configure,
):
    try:
        attempt()
    except ImportError as error:
        assert isinstance(error, laddernet.InputError)
        print(error)
"""
    words = r"needs \w+, which is not installed; install it with pip install 'laddernet\[train\]'\."
    printed = python(tmp_path, script, str(fitted[0] / "clinic.safetensors"), str(fitted[0] / "clinic.csv"))
    rows, *said = printed.splitlines()
    assert rows == "240"
    for sentence, what in zip(said, ("Training", "Training", "laddernet.configure"), strict=True):
        assert re.fullmatch(f"{what} {words}", sentence)
