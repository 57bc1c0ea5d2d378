import errno
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from clinic import SMALL
from support import ESC, OPTIONS, laddernet, printable, refused

from laddernet.cli.main import _COMMANDS

WIDE = {**os.environ, "COLUMNS": "300"}
BIN = Path(sys.executable).parent


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


HEAVY = {"jax", "equinox", "optax", "optuna", "sqlalchemy", "sklearn", "scipy", "pandas", "matplotlib", "ray"}
COMMANDS = [name for names in _COMMANDS.values() for name in names]


def imported_by(*calls: list[str], **environment: str) -> tuple[str, set[str]]:
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
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=WIDE | environment, check=True
    )
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
def test_the_list_of_data_sets_imports_nothing_that_takes_long() -> None:
    shown, heavy = imported_by(["data"], ["data", "--json"])
    assert "digits" in shown
    assert not heavy


# --- Completion -------------------------------------------------------------------------------------------------


def completed(shell: str, words: str, patch: pytest.MonkeyPatch) -> str:
    """What a shell receives when Tab is pressed at the end of these words."""
    patch.setenv("_LADDERNET_COMPLETE", f"complete_{shell}")
    patch.setenv("COMP_WORDS", words)
    patch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    patch.setenv("_TYPER_COMPLETE_ARGS", words)
    patch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    done = laddernet(cwd=Path())
    assert (done.code, done.err) == (0, "")
    return done.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_commands_and_options_are_completed(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def names(words: str) -> list[str]:
        out = completed(shell, words, monkeypatch)
        quoted = r'"([^"]+)":"' if shell == "zsh" else r"^([^\t\n]+)"
        return re.findall(quoted, out, re.MULTILINE)

    assert sorted(names("laddernet ")) == sorted(COMMANDS)
    assert names("laddernet pre") == ["predict"]
    assert names("laddernet fit --tar") == ["--target"]
    assert names("laddernet fit data.csv --target label --m") == ["--method", "--model", "--max-steps"]
    assert {"--count", "--keep", "--json"} <= set(names("laddernet suggest model.safetensors --"))


def test_where_a_file_is_meant_the_shell_completes_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert completed("bash", "laddernet fit da", monkeypatch).strip() == ""  # then bash offers files
    assert completed("zsh", "laddernet fit da", monkeypatch).strip() == "_files"


@pytest.mark.process
def test_completion_imports_nothing_that_takes_long() -> None:
    protocol = {"_LADDERNET_COMPLETE": "complete_bash", "COMP_WORDS": "laddernet predict --", "COMP_CWORD": "2"}
    shown, heavy = imported_by([], **protocol)
    assert "--proba" in shown.splitlines()
    assert not heavy


@pytest.mark.process
@pytest.mark.skipif(not shutil.which("bash"), reason="bash is missing")
def test_bash_completes_once_completion_is_installed(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}

    def bash(*lines: str) -> str:
        # Standard input, not -c: bash replaces itself by a single command, and would not be the shell that is found.
        done = subprocess.run(
            ["bash", "--norc"], input="\n".join(lines), capture_output=True, text=True, env=environment, check=True
        )
        assert done.stderr == ""
        return done.stdout

    assert "bash completion installed in" in bash("laddernet --install-completion", "true")
    press_tab = [
        "source ~/.bashrc",
        "COMP_WORDS=(laddernet ins); COMP_CWORD=1; _laddernet_completion laddernet; echo ${COMPREPLY[@]}",
        "COMP_WORDS=(laddernet predict --pr); COMP_CWORD=2; _laddernet_completion laddernet; echo ${COMPREPLY[@]}",
        "complete -p laddernet",
    ]
    assert bash(*press_tab).splitlines() == [
        "inspect",
        "--proba",
        "complete -o default -F _laddernet_completion laddernet",
    ]
    assert (
        bash("laddernet --show-completion", "true").strip() in (tmp_path / ".bash_completions/laddernet.sh").read_text()
    )


def test_help_shows_the_defaults_that_are_said_in_words(tmp_path: Path) -> None:
    shown = re.sub(r"[\s│]+", " ", laddernet("train", "--help", cwd=tmp_path).out)
    assert shown.count("[default: the recipe's]") >= 3
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


# --- Errors of the system ---------------------------------------------------------------------------------------


def test_an_error_of_the_system_is_not_said_to_be_of_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("laddernet.data.known", fails)
    advice = "close other files, or raise the limit on open files (ulimit -n)"
    refused(laddernet("data", cwd=tmp_path), f"The system refused a request (Too many open files); {advice}.")

    def breaks(*_: Any, **__: Any) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("laddernet.data.known", breaks)
    refused(laddernet("data", cwd=tmp_path), "The system refused a request (Broken pipe); ")


def test_no_memory_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise MemoryError("Unable to allocate 40.0 TiB")

    monkeypatch.setattr("laddernet.data.known", fails)
    refused(laddernet("data", cwd=tmp_path), "There is not enough memory (Unable to allocate 40.0 TiB); give a ")


@pytest.mark.process
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is full")
@pytest.mark.parametrize("unbuffered", [False, True])
def test_only_what_standard_output_refuses_is_said_to_be_of_it(unbuffered: bool) -> None:
    program = [sys.executable, *(["-u"] if unbuffered else []), "-m", "laddernet", "--version"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    why = "Cannot write to standard output (No space left on device)"
    assert (done.returncode, done.stderr) == (2, f"laddernet: {why}; send it to a place that has space.\n")


# --- Terminals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        (ESC,),
        (f"--{ESC}",),
        ("fit", f"--{ESC}"),
        ("fit", "t.csv", "--seed", ESC),
        ("fit", "t.csv", ESC),
        ("fit", ESC, "--target", "label"),
        ("fit", "t.csv", "--target", ESC),
        ("fit", "t.csv", "--target", "label", "--drop", ESC),
        ("fit", "t.csv", "--target", "label", "--out", f"absent/{ESC}"),
        ("fit", "t.csv", "--target", "label", "--model", ESC),
        ("inspect", ESC),
        ("data", ESC),
        ("train", "--model", f"{ESC}.py:A"),
        ("train", "--recipe", ESC),
        ("train", "--tuned", ESC),
    ],
)
def test_no_escape_sequence_of_an_argument_reaches_the_terminal(
    tmp_path: Path, arguments: tuple[str, ...], untrained: None
) -> None:
    (tmp_path / "t.csv").write_text(SMALL)
    done = laddernet(*arguments, cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert printable(done.err)
