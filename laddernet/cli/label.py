"""The command ``label``: it asks for labels at a terminal. It needs no JAX.

Packages are imported when it runs, so that ``--help`` and shell completion are fast.
"""

import shlex
import string
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Lines
from rich.text import Text

from laddernet.cli.options import stoppable
from laddernet.cli.predict import dialect_of, opened
from laddernet.cli.table_options import Delimiter, Encoding, Labels, ModelTarget, ModelUnlabeled
from laddernet.errors import InputError
from laddernet.text import show, visible

if TYPE_CHECKING:
    import pandas as pd

    from laddernet.table.model import TableModel
    from laddernet.table.table import Dialect, Table

_ACTIONS = {"t": "type another class", "s": "skip", "u": "undo", "q": "quit"}
_CELLS = 30  # cells of a row that are shown


def label(
    data: Annotated[Path, typer.Argument(help="A table with unlabelled rows: CSV, Parquet or NPZ.")],
    model: Annotated[
        Path | None, typer.Option(help="A model that `laddernet fit` saved. [default: DATA's name with .safetensors]")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The file of labels. [default: DATA's name with .labels.csv]")
    ] = None,
    target: ModelTarget = None,
    unlabeled: ModelUnlabeled = None,
    labels: Labels = None,
    count: Annotated[int, typer.Option(min=1, max=1000, help="The number of rows to ask for, up to 1000.")] = 20,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
) -> None:
    """Ask at the terminal for the labels of the most useful rows, with one key for each class.

    The file of labels is written after each answer. The same command goes on where it stopped, and asks for further
    rows when all have a label. `fit --labels` reads the file.
    """
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty()):
        raise InputError("`label` asks at a terminal, and there is none; use `suggest`, whose file a person fills in.")
    from laddernet.table.rounds import ROW, own_name
    from laddernet.table.suggest import ADDED

    path = model or data.with_suffix(".safetensors")
    out = out or data.with_suffix(".labels.csv")
    if not path.exists():
        raise InputError(f"There is no model {path}; make one with `laddernet fit {data}`, or name one with --model.")
    trained, table = opened(path, data, out, delimiter=delimiter, encoding=encoding)
    trained.check(table)
    if target is not None:
        table.require([target])
    elif trained.target in table.columns:
        target = trained.target
    sheet = _sheet(out, target or trained.target, dialect_of(trained, table))
    if not sheet.open_rows():
        files = [*(labels or ()), *([out] if out.exists() else [])]
        _add_suggestions(sheet, trained, table, files, target=target, unlabeled=unlabeled, count=count)
    hidden = [own_name(name, {*table.columns, sheet.target}) for name in ADDED if name != ROW]
    with stoppable(f"Stopped; {out} has every answer."):
        Prompt(sheet, list(trained.classes), [sheet.target, *hidden]).run()
    done = len(sheet.rows) - len(sheet.open_rows())
    show(f"{done:,} of {len(sheet.rows):,} rows have a label; saved to {out}")
    if done:
        command = ["laddernet", "fit", str(data), "--target", sheet.target, "--labels", str(out)]
        show(f"Next: {shlex.join(command)}")


# --- The file of labels -----------------------------------------------------------------------------------------


@dataclass
class Sheet:
    """A file of labels: its rows, of which one column is filled in."""

    path: Path
    target: str
    dialect: "Dialect"
    header: list[str] = field(default_factory=list)
    rows: list[list[Any]] = field(default_factory=list)

    @property
    def place(self) -> int:
        """The place of the target among the columns."""
        return self.header.index(self.target)

    def open_rows(self) -> list[int]:
        """Return the numbers of the rows without a label."""
        return [number for number, row in enumerate(self.rows) if not row[self.place]]

    def give(self, number: int, name: str) -> None:
        """Give a row a label, or "" for none, and write the file."""
        self.rows[number][self.place] = name
        self.save()

    def save(self) -> None:
        """Write the whole file."""
        from laddernet.table.write import csv_writer

        with csv_writer(self.path, dialect=self.dialect) as writer:
            writer.head(self.header)
            writer.write(writer.lines(list(zip(*self.rows, strict=True))))


def _sheet(path: Path, target: str, dialect: "Dialect") -> Sheet:
    """Read the file of labels, or begin one."""
    from laddernet.table.rounds import open_labels

    sheet = Sheet(path, target, dialect)
    if path.exists():
        source = open_labels(path)
        source.require([target])
        sheet.header = source.columns
        sheet.dialect = replace(source.dialect, decimal=dialect.decimal)
        for part in source.parts(source.columns):
            sheet.rows += map(list, zip(*(_filled(part[name]) for name in part), strict=True))
    return sheet


def _add_suggestions(
    sheet: Sheet, model: "TableModel", table: "Table", labels: Sequence[Path], *, target: str | None, **options: Any
) -> None:
    """Add the rows to label next; a column that a person took out of the file stays out."""
    from laddernet.table.rounds import open_labels
    from laddernet.table.suggest import suggest

    files = [open_labels(path) for path in labels]
    with Console(stderr=True).status(Text("Choosing rows")):
        found = suggest(model, table, target=target, keep=table.columns, labels=files, **options)
    if not found.total:
        raise InputError(f"{table.name} has no unlabelled row; give one with rows that have no {sheet.target!r}.")
    frame = found.to_label(sheet.target, table.columns, model.identifiers)
    sheet.header = sheet.header or list(frame)
    columns = [_filled(frame[name]) if name in frame else [""] * len(frame) for name in sheet.header]
    sheet.rows += map(list, zip(*columns, strict=True))
    sheet.save()


def _filled(column: "pd.Series[Any]") -> list[Any]:
    """Convert a column's cells for the file, "" where one is missing."""
    from laddernet.table.write import cells_of

    return ["" if cell is None else cell for cell in cells_of(column)]


# --- The prompt -------------------------------------------------------------------------------------------------


def keys_of(classes: Sequence[str]) -> dict[str, str]:
    """Choose a key for each class: a character of its name, or else a digit or a letter; some may get none.

    >>> keys_of(["ill", "well", "sound", "3"])
    {'i': 'ill', 'w': 'well', 'o': 'sound', '3': '3'}
    """
    keys: dict[str, str] = {}
    for name in classes:
        for key in (*name.casefold(), *string.digits, *string.ascii_lowercase):
            if key.isprintable() and not key.isspace() and key not in {*keys, *_ACTIONS}:
                keys[key] = name
                break
    return keys


@dataclass
class Prompt:
    """Asks for the label of each row of a file that has none."""

    sheet: Sheet
    classes: list[str]
    hidden: Sequence[str]  # columns that are not shown: the model's prediction could influence the person
    key: Callable[[], str] = typer.getchar
    text: Callable[[str], str] = input
    console: Console = field(default_factory=Console)

    def run(self) -> None:
        """Ask until every row has an answer or the user quits."""
        asked = self.sheet.open_rows()
        at = 0
        while at < len(asked):
            self._show(asked[at], f"{at + 1:,} of {len(asked):,}")
            answer = self._answer()
            if answer == "q":
                return
            if answer == "u":
                at = max(at - 1, 0)
                self.sheet.give(asked[at], "")
                continue
            if answer != "s":
                self.sheet.give(asked[at], answer.removeprefix("="))
            at += 1

    def _answer(self) -> str:
        """Wait for a key that has a meaning; return an action, or "=" and a class."""
        keys = keys_of(self.classes)
        named = [f"[{key}] {name}" for key, name in (keys | _ACTIONS).items()]
        self.console.print(Text(visible("  ".join(named)), "bold"))
        while True:
            try:
                key = self.key()
                typed = self.text("class: ").strip() if key == "t" else ""
            except EOFError:
                return "q"
            if key in keys or typed:
                name = typed or keys[key]
                self.classes += [name] * (name not in self.classes)
                self.console.print(Text(f"→ {visible(name)}", "green"))
                return f"={name}"
            if key in _ACTIONS and key != "t":
                return key

    def _show(self, number: int, heading: str) -> None:
        """Print the cells of a row."""
        self.console.rule(Text(heading))
        cells = Lines(box=None, show_header=False)
        shown = [pair for pair in zip(self.sheet.header, self.sheet.rows[number], strict=True) if pair[1] != ""]
        shown = [(name, cell) for name, cell in shown if name not in self.hidden]
        for name, cell in shown[:_CELLS]:
            cells.add_row(Text(visible(name), "dim"), Text(visible(str(cell))))
        self.console.print(cells)
        if len(shown) > _CELLS:
            self.console.print(Text(f"and {len(shown) - _CELLS:,} more cells", "dim"))
