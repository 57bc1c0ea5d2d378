"""Write CSV and JSON, to a file that is complete or absent."""

import csv
import io
import json
import re
import sys
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TextIO

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype

from laddernet.errors import InputError
from laddernet.files import whole_file, writing
from laddernet.table.cells import decoded, values_of
from laddernet.table.table import DIALECT, Dialect
from laddernet.text import quoted, visible_json

_PLAIN_CELLS = re.compile(r"(?:(?:\w[\w .:/-]*+)?+\n)*+")  # neither formulas nor in need of quotes, one on each line
_EMPTY = '""'  # a line with a single empty cell; a blank line would be no row
_NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?", re.ASCII)


class Writer(Protocol):
    """A writer of rows below a head. `lines` only makes text of columns, in any thread, which `write` then writes."""

    def head(self, names: Sequence[str], /) -> None: ...
    def lines(self, columns: Sequence[Sequence[Any]], /) -> str: ...
    def write(self, lines: str, /) -> Any: ...


class _Csv:
    """A writer of CSV, as the standard library writes it but a column at a time, which is faster."""

    def __init__(self, stream: TextIO, dialect: Dialect, raw: bool) -> None:
        self._delimiter = dialect.delimiter
        self._commas = dialect.decimal == ","
        self._raw = raw
        self.write = stream.write

    def head(self, names: Sequence[str], /) -> None:
        self.write(self.lines([[name] for name in names]))

    def lines(self, columns: Sequence[Sequence[Any]], /) -> str:
        rows = zip(*map(self._written, columns), strict=True)
        return "".join([f"{line or _EMPTY}\n" for line in map(self._delimiter.join, rows)])

    def _written(self, cells: Sequence[Any]) -> Sequence[str]:
        kinds = set(map(type, cells))
        if kinds <= {str, type(None)}:
            found = set(cells)
            if len(found) > len(cells) / 2 and None not in found and self._plain(cells):
                return cells
            known = {cell: self._cell(cell) for cell in found}
            return [known[cell] for cell in cells]
        if kinds == {float} and not (self._commas and self._delimiter == ","):
            texts = list(map(repr, cells))
            if self._plain(texts):
                return [text.replace(".", ",") for text in texts] if self._commas else texts
        return list(map(self._cell, cells))

    def _plain(self, cells: Sequence[str]) -> bool:
        """Whether these texts are written as they are."""
        joined = "\n".join([*cells, ""])
        return (
            bool(joined.count("\n") == len(cells) and _PLAIN_CELLS.fullmatch(joined)) and self._delimiter not in joined
        )

    def _cell(self, cell: Any) -> str:
        if self._commas and isinstance(cell, float):
            cell = str(cell).replace(".", ",")
        written = io.StringIO(newline="")
        row = [cell if self._raw else _without_formula(cell), ""]
        csv.writer(written, delimiter=self._delimiter, lineterminator="\n").writerow(row)
        return written.getvalue()[:-2]


def cells_of(column: pd.Series) -> list[Any]:
    """Convert a column's cells for output: to values of Python, None where one is missing."""
    values = values_of(column)
    return values if infer_dtype(column) == "string" else list(map(_plain, values))


def _plain(value: Any) -> Any:
    if value is pd.NaT or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, bytes):
        return decoded(value)
    if isinstance(value, np.floating):  # as text, since a float32 has fewer digits than a Python float
        return str(value)
    return value.tolist() if isinstance(value, np.ndarray) else value


def _without_formula(cell: Any) -> Any:
    """Put a ' before a text that a spreadsheet would compute.

    >>> [_without_formula(cell) for cell in ("=1+1", "-1.5", -1.5, None)]
    ["'=1+1", '-1.5', -1.5, None]
    """
    if cell is None or isinstance(cell, int | float):
        return cell
    text = str(cell)
    return text if _NUMBER.fullmatch(text) else quoted(text)


@contextmanager
def csv_writer(path: Path, *, raw: bool = False, dialect: Dialect = DIALECT) -> Iterator[Writer]:
    """Write CSV to ``path``, which is replaced when all is written, or to standard output if it is ``-``.

    A cell that a spreadsheet would compute gets a ' before it, unless ``raw``; `laddernet.table.read_csv` removes it.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "out.csv"
    >>> with csv_writer(path) as out:
    ...     out.head(["a", "b"])
    ...     _ = out.write(out.lines([[1, 2], ["x", None]]))
    >>> path.read_text()
    'a,b\\n1,x\\n2,\\n'
    """
    with _stream(path, "utf-8-sig" if dialect.bom else "utf-8") as stream:
        yield _Csv(stream, dialect, raw)


class _JsonLines:
    """A writer of JSON objects."""

    def __init__(self, stream: TextIO) -> None:
        self.write = stream.write
        self._names: Sequence[str] = ()

    def head(self, names: Sequence[str], /) -> None:
        self._names = names

    def lines(self, columns: Sequence[Sequence[Any]], /) -> str:
        return "".join(map(self._line, zip(*columns, strict=True)))

    def _line(self, row: Iterable[Any]) -> str:
        cells = dict(zip(self._names, row, strict=True))
        return visible_json(json.dumps(cells, ensure_ascii=False, default=str)) + "\n"


@contextmanager
def json_writer(path: Path) -> Iterator[Writer]:
    """Write an object for each row, on a line of its own.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "out.json"
    >>> with json_writer(path) as out:
    ...     out.head(["a", "b"])
    ...     _ = out.write(out.lines([[1], [None]]))
    >>> path.read_text()
    '{"a": 1, "b": null}\\n'
    """
    with _stream(path, "utf-8") as stream:
        yield _JsonLines(stream)


@contextmanager
def _stream(path: Path, encoding: str) -> Iterator[TextIO]:
    """Open a text file that replaces ``path`` when it is complete; standard output, a pipe or a device as it is."""
    if str(path) == "-":
        if sys.stdout is None:
            raise InputError("Standard output is closed; name a file with --out.")
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # as in a file
        yield sys.stdout
        return
    if path.exists() and not path.is_file() and not path.is_dir():  # a pipe or a device is not replaced
        with writing(path), path.open("w", encoding=encoding, newline="") as file:
            yield file
        return
    check_writable(path)
    with whole_file(path) as raw:
        wrapper = io.TextIOWrapper(raw, encoding=encoding, newline="")
        yield wrapper
        wrapper.detach()  # writes what is left, and leaves the file open


def check_writable(path: Path) -> None:
    """Refuse a path that cannot be written, before the work that would be lost."""
    if path.is_dir():
        raise InputError(f"Cannot write {path}, which is a folder; name a file.")
    trial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    with writing(path):
        trial.touch(exist_ok=False)
        trial.unlink()


def spare(out: Path, *inputs: Path) -> None:
    """Refuse to write over a file that is read."""
    for path in inputs:
        if out.exists() and path.exists() and out.samefile(path):
            raise InputError(f"--out is {path}, which is read from; name another file.")
