import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from support import OPTIONS, laddernet

from laddernet.cli.main import _COMMANDS

WIDE = {**os.environ, "COLUMNS": "300"}


def test_the_version_is_that_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = laddernet("--version", cwd=tmp_path)
    assert done.code == 0
    assert re.fullmatch(r"laddernet \d+\.\d+\.\d+\n", done.out)


def test_python_m_laddernet_is_the_same_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["laddernet", "--version"])
    with pytest.raises(SystemExit, match=r"^0$"):
        runpy.run_module("laddernet", run_name="__main__")
    assert capsys.readouterr().out.startswith("laddernet ")


HEAVY = {"jax", "equinox", "optax", "optuna", "sqlalchemy", "sklearn", "scipy", "pandas", "numpy", "matplotlib", "ray"}
COMMANDS = [name for names in _COMMANDS.values() for name in names]


def imported_by(*calls: list[str]) -> tuple[str, set[str]]:
    """What calls of the command print, one after another in a new process, and the heavy modules that they import."""
    program = f"""
import sys
from laddernet.cli.main import main
for arguments in {list(calls)!r}:
    sys.argv = ["laddernet", *arguments]
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
print(*sorted({HEAVY!r} & set(sys.modules)), sep=",", file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=WIDE, check=True)
    return done.stdout, set(filter(None, done.stderr.strip().split(",")))


@pytest.mark.process
def test_help_lists_every_command_and_its_own_help_begins_with_the_same_words() -> None:
    listed, heavy = imported_by(["--help"])
    assert not heavy
    for command in COMMANDS:
        described = re.search(rf"│ {command} +(\S.*\S) +│", listed)
        assert described is not None
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("COLUMNS", "300")
            shown = re.sub(r"\s+", " ", laddernet(command, "--help", cwd=Path()).out)
        assert described[1] in shown


@pytest.mark.process
def test_no_help_and_no_list_of_models_imports_what_takes_long() -> None:
    shown, heavy = imported_by(*([command, "--help"] for command in COMMANDS), ["models"], ["models", "--json"])
    assert shown.count("Usage: laddernet ") == len(COMMANDS)
    assert not heavy


@pytest.mark.process
def test_the_list_of_data_sets_needs_only_numpy(tmp_path: Path) -> None:
    shown, heavy = imported_by(["data"], ["data", "--json"])
    assert "digits" in shown
    assert heavy <= {"numpy"}


def test_help_shows_the_defaults_that_are_said_in_words(tmp_path: Path) -> None:
    shown = re.sub(r"[\s│]+", " ", laddernet("train", "--help", cwd=tmp_path).out)
    assert shown.count("[default: recipe's]") >= 3
    assert "[default: the paper's for mnist]" in shown


def test_a_misspelt_command_is_met_with_the_one_that_was_meant(tmp_path: Path) -> None:
    done = laddernet("predct", cwd=tmp_path)
    assert done.code == 2
    assert "Did you mean 'predict'" in done.err


@pytest.mark.parametrize(
    "options",
    ["--epochs x", "--seed 1.5", "--evaluate-every 0", "--checkpoint-every -1", "--no-such-option", "extra"],
)
def test_what_is_no_command_line_at_all_is_one_sentence_and_ends_with_2(tmp_path: Path, options: str) -> None:
    done = laddernet("train", *options.split(), cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("laddernet: ")
    assert options.split()[0] in done.err
    assert done.err.endswith("; `laddernet train --help` shows the options.\n")
    assert done.err.count("\n") == 1
    assert os.listdir(tmp_path) == []


def test_a_name_with_a_line_break_does_not_break_the_sentence(tmp_path: Path) -> None:
    (tmp_path / "two\nlines").touch()
    done = laddernet("train", *OPTIONS, "--out", "two\nlines/run", cwd=tmp_path)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
