import csv
import io
import os
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from clinic import clinic, rows_of
from rich.console import Console
from support import Finished, laddernet, wait_for

from laddernet.cli.label import Prompt, Sheet, keys_of
from laddernet.table.read import open_table
from laddernet.table.rounds import open_labels
from laddernet.table.rows import read_rows
from laddernet.table.table import Dialect

STREAMS = ("stdin", "stdout", "stderr")


def sheet(folder: Path, *labels: str) -> Sheet:
    rows = [[str(number), name, f"a{number}", "well"] for number, name in enumerate(labels, 1)]
    return Sheet(folder / "l.csv", "result", Dialect(";"), ["id", "result", "note", "predicted class"], rows)


def answers(given: Sheet, keys: str, *typed: str) -> str:
    """Answer the prompt with these keys and typed names; return what it shows."""
    console = Console(record=True, width=80, file=io.StringIO())
    following, names = iter(keys), iter(typed)

    def key() -> str:
        try:
            return next(following)
        except StopIteration:
            raise EOFError from None

    Prompt(given, ["ill", "well"], ["result", "predicted class"], key, lambda _: next(names), console).run()
    return console.export_text()


def labels(given: Sheet) -> list[str]:
    return [row[1] for row in given.rows]


def test_a_key_gives_the_row_a_class_and_other_keys_have_no_effect(tmp_path: Path) -> None:
    given = sheet(tmp_path, "", "", "")
    shown = answers(given, "ixX\r\x1bw")
    assert labels(given) == ["ill", "well", ""]
    assert "a1" in shown
    assert "1 of 3" in shown
    assert shown.count("well") == 3 + 1  # among the keys of each row, and as an answer, but not as the model's class


def test_rows_are_skipped_undone_and_left(tmp_path: Path) -> None:
    given = sheet(tmp_path, "", "", "")
    answers(given, "isuuwq")  # ill, skip, back to the second, back to the first, well
    assert labels(given) == ["well", "", ""]
    answers(given, "qi")
    assert labels(given) == ["well", "", ""]
    answers(given, "uuw")  # before the first open row there is nothing to undo
    assert labels(given) == ["well", "well", ""]


def test_another_class_is_typed_once_and_then_has_a_key(tmp_path: Path) -> None:
    given = sheet(tmp_path, "", "", "", "")
    answers(given, "ttdti", "", "dead", "=x")
    assert labels(given) == ["dead", "dead", "=x", "ill"]
    (part,) = open_table(given.path).parts(["result"])
    assert part["result"].tolist() == ["dead", "dead", "=x", "ill"]


def test_the_file_is_whole_after_each_answer(tmp_path: Path) -> None:
    given = sheet(tmp_path, "", "", "ill")
    seen = []

    def key() -> str:
        seen.append([row["result"] for row in rows_of(given.path, ";")] if given.path.exists() else None)
        return "w"

    Prompt(given, ["ill", "well"], [], key, input, Console(file=io.StringIO())).run()
    assert seen == [None, ["well", "", "ill"]]
    assert [row["result"] for row in rows_of(given.path, ";")] == ["well", "well", "ill"]


def test_each_class_has_a_key_of_its_own_as_long_as_there_are_keys() -> None:
    digits = [str(number) for number in range(10)]
    assert keys_of(digits) == dict(zip(digits, digits, strict=True))
    many = keys_of([f"class {number}" for number in range(100)])
    assert len(set(many.values())) == len(many) == 10 + 26 - len("tsuq")
    assert not set("tsuq") & set(many)


def test_without_a_terminal_it_is_one_sentence(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    done = laddernet("label", fitted[0] / "clinic.csv", cwd=tmp_path)
    sentence = "`label` asks at a terminal, and there is none; use `suggest`, whose file a person fills in."
    assert done == (2, "", f"laddernet: {sentence}\n")
    assert os.listdir(tmp_path) == []


class Terminal:
    """A command of ours in a terminal of its own."""

    def __init__(self, *arguments: str, cwd: Path) -> None:
        self._ours, theirs = os.openpty()
        command, streams = [sys.executable, "-m", "laddernet", *arguments], dict.fromkeys(STREAMS, theirs)
        self.process = subprocess.Popen(command, cwd=cwd, env={**os.environ, "TERM": "xterm"}, **streams)
        os.close(theirs)
        os.set_blocking(self._ours, False)
        self.shown = ""

    def read(self) -> str:
        """Read what is new, and return all that was shown."""
        with suppress(OSError):  # nothing is new, or the process has ended
            self.shown += os.read(self._ours, 1 << 16).decode(errors="replace")  # a character may be cut
        return self.shown

    def press(self, keys: str, until: str, *, line: bool = False) -> None:
        """Press a key once one is waited for, or type a line; then wait until a text is shown again."""
        before = self.read().count(until)
        wait_for(lambda: line or not termios.tcgetattr(self._ours)[3] & termios.ICANON, self.process.poll)
        os.write(self._ours, keys.encode())
        self.wait(until, before)

    def wait(self, until: str, before: int = 0) -> None:
        """Wait until a text is shown more often than before."""
        wait_for(lambda: self.read().count(until) > before, self.process.poll)

    def end(self) -> int:
        """Wait for the end, and return the exit code."""
        wait_for(lambda: self.read() and self.process.poll() is not None)
        os.close(self._ours)
        return self.process.returncode


@pytest.fixture
def clinic_folder(tmp_path: Path, fitted: tuple[Path, Finished]) -> Iterator[Path]:
    for name in ("clinic.csv", "clinic.safetensors"):
        (tmp_path / name).write_bytes((fitted[0] / name).read_bytes())
    return tmp_path


@pytest.mark.process
def test_at_a_terminal_answers_are_kept_after_a_kill_and_fit_takes_them(clinic_folder: Path) -> None:
    path = clinic_folder / "clinic.labels.csv"
    terminal = Terminal("label", "clinic.csv", "--count", "3", cwd=clinic_folder)
    terminal.wait("1 of 3")
    terminal.press("i", "2 of 3")
    terminal.process.kill()
    terminal.end()
    first = rows_of(path)
    assert [row["result"] for row in first] == ["ill", "", ""]

    terminal = Terminal("label", "clinic.csv", "--count", "3", cwd=clinic_folder)
    terminal.wait("1 of 2")
    terminal.press("s", "2 of 2")
    terminal.press("u", "1 of 2")
    terminal.press("w", "2 of 2")
    terminal.press("\x03", "Stopped; clinic.labels.csv has every answer.")
    assert terminal.end() == 130
    assert [row["result"] for row in rows_of(path)] == ["ill", "well", ""]

    terminal = Terminal("label", "clinic.csv", "--count", "3", cwd=clinic_folder)
    terminal.wait("1 of 1")
    terminal.press("t", "class: ")
    next_command = "Next: laddernet fit clinic.csv --target result --labels clinic.labels.csv"
    terminal.press("dead\n", next_command, line=True)
    assert "3 of 3 rows have a label; saved to clinic.labels.csv" in terminal.read()
    assert terminal.end() == 0

    terminal = Terminal("label", "clinic.csv", "--count", "2", cwd=clinic_folder)  # all have a label: two more
    terminal.wait("1 of 2")
    terminal.press("q", "3 of 5 rows have a label")
    assert terminal.end() == 0
    rows = rows_of(path)
    assert [row["result"] for row in rows] == ["ill", "well", "dead", "", ""]
    assert rows[0] | {"result": ""} == first[0] | {"result": ""}
    assert len({row["patient"] for row in rows}) == 5
    table = clinic().set_index("patient")
    assert table.loc[[int(row["patient"]) for row in rows], "result"].isna().all()
    read = read_rows(open_table(clinic_folder / "clinic.csv"), "result", labels=[open_labels(path)])
    assert read.rounds[0].new == {"dead": 1, "ill": 1, "well": 1}


@pytest.mark.process
def test_at_a_terminal_what_is_missing_is_one_sentence_and_nothing_is_written_over(clinic_folder: Path) -> None:
    os.rename(clinic_folder / "clinic.safetensors", clinic_folder / "m.safetensors")
    terminal = Terminal("label", "clinic.csv", cwd=clinic_folder)
    assert terminal.end() == 2
    assert terminal.shown.startswith("laddernet: There is no model clinic.safetensors; make one with `laddernet fit ")

    (clinic_folder / "precious.csv").write_text("a,b\n1,2\n")
    terminal = Terminal("label", "clinic.csv", "--model", "m.safetensors", "--out", "precious.csv", cwd=clinic_folder)
    assert terminal.end() == 2
    assert terminal.shown.startswith("laddernet: precious.csv has no column 'result'; ")
    assert (clinic_folder / "precious.csv").read_text() == "a,b\n1,2\n"
    with (clinic_folder / "clinic.csv").open() as file:
        assert len(list(csv.reader(file))) == 241
