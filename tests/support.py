"""What the tests of training, runs and the command line share: one small network, so that it is compiled once."""

import io
import os
import re
import sys
import time
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from laddernet import machine
from laddernet.cli.main import main
from laddernet.data import Dataset, TrainingData, load, training_data
from laddernet.training.checkpoint import named_arrays
from laddernet.training.config import Config
from laddernet.training.loop import Trained
from laddernet.training.run import run
from laddernet.training.settings import configure

# 40 labels and batches of 100 labelled rows, 1198 unlabelled rows and batches of 400: neither divides the other.
SETTINGS: dict[str, Any] = {"labels": 40, "hidden": (8, 4), "batch_size": 400, "epochs": 4}
OPTIONS = ("--labels", "40", "--hidden", "8,4", "--batch-size", "400", "--epochs", "4")
STEPS = 3  # of an epoch
PATIENCE = 900  # seconds until a test is taken to hang, on a machine with much else to do; nothing else depends on it
UNTRAINED = "There should be no training."  # the error of a fit in tests that must not train
NO_UNITS = "This processor has no bfloat16 units: it gives the results of bfloat16, but no faster than float32."
ESC = "\x1b[31m\u202e\x9b1m\x07[bold]$"  # control characters, as a hostile table may have them


def wait_for(condition: Callable[[], object], ended: Callable[[], object] = lambda: None) -> None:
    """Wait for an event; fail if ``ended`` says that it cannot come any more."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        end = ended()
        assert end is None or condition(), f"ended with {end}"
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.005)


def held(file: Path, after: int) -> dict[str, str]:
    """The environment of processes that write ``after`` checkpoints each and then wait until ``file`` is gone."""
    file.touch()
    path = os.pathsep.join(filter(None, [str(Path(__file__).parent / "hold"), os.environ.get("PYTHONPATH")]))
    # A process keeps even its smallest programs for the next.
    keep = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    return {**os.environ, **keep, "PYTHONPATH": path, "HOLD": str(file), "HOLD_AFTER": str(after)}


# A combinator in a file; the formula goes in the braces.
MINE = """from laddernet.network.combinators import Linear


class Mine(Linear):
    def __call__(self, z_tilde, u):
        return {}
"""


@cache
def digits() -> Dataset:
    return load("digits")


def tiny_config(**changes: Any) -> Config:
    return configure(digits(), **{**SETTINGS, **changes})


def tiny_data(config: Config) -> TrainingData:
    return training_data(digits(), config.labels, config.validation, config.seed)


class Killed(BaseException):
    """The end of a process, as a test plays it."""


def run_tiny(folder: Path, **options: Any) -> dict[str, Any]:
    config, rows = tiny_config(epochs=3), digits()
    test = (rows.x_test, rows.y_test)
    return run(config, tiny_data(config), test, folder, command=["laddernet"], checkpoint_every=0, **options)


class Finished(NamedTuple):
    code: int
    out: str
    err: str


def laddernet(*arguments: str | Path, cwd: Path) -> Finished:
    """What the command `laddernet` does, in this process: to start another takes seconds."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = call_main(*arguments, cwd=cwd)
    return Finished(code, out.getvalue(), err.getvalue())


def call_main(*arguments: str | Path, cwd: Path) -> int:
    with patch.object(sys, "argv", ["laddernet", *map(str, arguments)]), chdir(cwd):
        try:
            main()
        except SystemExit as end:
            return int(end.code or 0)
    return 0


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, but for locks, which are only ever held."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def exact(done: Trained) -> dict[str, bytes]:
    """A trained network's arrays, to be compared bit by bit."""
    arrays = named_arrays({"ladder": done.ladder, "statistics": done.statistics})
    return {name: array.tobytes() for name, array in arrays.items()}


def without_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the processor one without bfloat16 units, for which commands print `NO_UNITS`."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "cpuinfo").write_text("flags\t\t: fpu avx512f\n")
    monkeypatch.setattr(machine, "_ROOT", tmp_path)


def refused(done: Finished, sentence: str) -> None:
    """Check that a command was refused in one sentence that begins like this."""
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"laddernet: {sentence}"), done.err
    assert done.err.count("\n") == 1


ESC = "\x1b[31m\u202e\x9b1m\x07[bold]$"


def printable(text: str) -> bool:
    """Return whether a text has no control characters but line breaks, and none that turn its direction."""
    return not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", text)
