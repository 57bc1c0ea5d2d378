"""The commands that apply a model to a table: ``predict`` and ``suggest``. They need no JAX.

Packages are imported when a command runs, so that ``--help`` and shell completion are fast.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from laddernet.cli.options import names_in, print_json, stoppable
from laddernet.cli.table_options import (
    Delimiter,
    Encoding,
    JsonLines,
    Keep,
    KeepCells,
    Labels,
    ModelFile,
    ModelTarget,
    ModelUnlabeled,
    OutFile,
    Raw,
)
from laddernet.errors import InputError
from laddernet.text import say, show

if TYPE_CHECKING:
    from laddernet.table.model import TableModel
    from laddernet.table.table import Dialect, Table


def predict(
    model: ModelFile,
    data: Annotated[Path, typer.Argument(help="A table: CSV, Parquet or NPZ; '-' is CSV on standard input.")],
    out: OutFile = Path("-"),
    proba: Annotated[bool, typer.Option("--proba", help="Add the probability of each class.")] = False,
    keep: Keep = None,
    raw: Raw = False,
    as_json: JsonLines = False,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
) -> None:
    """Write the class of each row and its probability; the table may be larger than memory."""
    import numpy as np

    from laddernet.table.ahead import processed
    from laddernet.table.write import cells_of

    trained, table = opened(model, data, out, delimiter=delimiter, encoding=encoding)
    copied = [name for name in trained.identifiers if name in table.columns] if keep is None else names_in(keep)
    _check(trained, table, copied)
    added = ["class", "confidence", *(f"p({name})" for name in trained.classes if proba)]
    names = np.array(trained.classes, object)
    unread: Counter[str] = Counter()
    count = 0
    with stoppable(f"Stopped; {out} is as it was."), _writer(out, raw, as_json, dialect_of(trained, table)) as writer:
        writer.head([*(f"{name} (given)" if name in added else name for name in copied), *added])

        def lines(part: Any) -> tuple[str, int, Counter[str]]:
            odd: Counter[str] = Counter()
            p = trained.classifier.predict_proba(trained.features(part, odd))
            rounded = np.asarray([p.max(axis=1), *(p.T if proba else ())], np.float64).round(6).tolist()
            columns = [*(cells_of(part[name]) for name in copied), names[p.argmax(axis=1)].tolist(), *rounded]
            return writer.lines(columns), len(part), odd

        for text, rows, odd in processed(lines, trained.parts(table, copied)):
            writer.write(text)
            count += rows
            unread.update(odd)
    for name, cells in (+unread).items():
        are = "cell is" if cells == 1 else "cells are"
        say(f"{name}: {cells:,} {are} not of the column's kind, and counted as missing.")
    _finish(out, as_json, {"rows": count}, f"{count:,} rows")


def suggest(
    model: ModelFile,
    data: Annotated[Path, typer.Argument(help="A table with unlabelled rows: CSV, Parquet or NPZ.")],
    target: ModelTarget = None,
    unlabeled: ModelUnlabeled = None,
    count: Annotated[int, typer.Option(min=1, max=1000, help="The number of rows to suggest, up to 1000.")] = 20,
    labels: Labels = None,
    out: OutFile = Path("-"),
    keep: KeepCells = None,
    raw: Raw = False,
    as_json: JsonLines = False,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
) -> None:
    """Write the unlabelled rows that are most useful to label, with an empty target to fill in.

    Rows that have a class are left out, also those that have one in a file of --labels. `fit --labels` reads the file.
    """
    from laddernet.table.rounds import open_labels
    from laddernet.table.suggest import suggest as suggested
    from laddernet.table.write import cells_of

    trained, table = opened(model, data, out, *(labels or ()), delimiter=delimiter, encoding=encoding)
    files = [open_labels(path, delimiter=delimiter, encoding=encoding) for path in labels or ()]
    named = [] if keep is None else names_in(keep)
    _check(trained, table, named + ([] if target is None else [target]))
    if target is None and trained.target in table.columns:
        target = trained.target
    with (
        stoppable("Stopped; nothing was written."),
        _writer(out, raw, as_json, dialect_of(trained, table)) as writer,
    ):
        copied = table.columns if keep is None else named
        found = suggested(trained, table, target=target, unlabeled=unlabeled, count=count, keep=copied, labels=files)
        if not found.total:
            advice = "give one with rows"
            if target:
                advice = f"leave {target!r} empty in unlabelled rows, or name their mark with --unlabeled"
            raise InputError(f"{table.name} has no unlabelled row; {advice}.")
        frame = found.to_label(target or trained.target, table.columns, trained.identifiers)
        writer.head(list(frame))
        writer.write(writer.lines([cells_of(frame[name]) for name in frame]))
    shown = len(found.use)
    _finish(out, as_json, {"rows": shown, "unlabelled": found.total}, f"{shown:,} of {found.total:,} unlabelled rows")


# --- Input ------------------------------------------------------------------------------------------------------


def opened(
    model: Path, data: Path, out: Path, *others: Path, delimiter: str | None, encoding: str | None
) -> tuple["TableModel", "Table"]:
    """Open the model and the table, and refuse to write over these and ``others``."""
    from laddernet.table.model import TableModel
    from laddernet.table.read import open_table
    from laddernet.table.write import spare

    spare(out, model, data, *others)
    return TableModel.load(model), open_table(data, delimiter=delimiter, encoding=encoding)


def _check(model: "TableModel", table: "Table", more: Sequence[str]) -> None:
    """Refuse a table that lacks columns, and name its columns that are not used."""
    from laddernet.table.table import listed

    table.require(more)
    extra = [name for name in model.check(table) if name not in more]
    if extra:
        say(f"{table.name}: {listed(extra)} not known to the model, and not used.")


# --- Output -----------------------------------------------------------------------------------------------------


def dialect_of(model: "TableModel", table: "Table") -> "Dialect":
    """Choose how CSV is written: as the table is, with decimal commas if the model's numbers have them."""
    from laddernet.table.cells import COMMA

    commas = any(column.kind == "number" and column.form == COMMA for column in model.columns)
    return replace(table.dialect, decimal="," if commas and table.dialect.delimiter != "," else ".")


def _writer(out: Path, raw: bool, as_json: bool, dialect: "Dialect") -> Any:
    """Open the output as CSV or JSON."""
    from laddernet.table.write import csv_writer, json_writer

    return json_writer(out) if as_json else csv_writer(out, raw=raw, dialect=dialect)


def _finish(out: Path, as_json: bool, about: dict[str, Any], words: str) -> None:
    """Print the number of rows and the file, unless standard output holds the rows."""
    if str(out) == "-":
        return
    if as_json:
        print_json({**about, "out": str(out)})
    else:
        show(f"{words}; saved to {out}")
