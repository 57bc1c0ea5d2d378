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

from laddernet.errors import InputError
from laddernet.files import whole_file, writing
from laddernet.table.table import Dialect
from laddernet.text import quoted, visible_json

_PLAIN_CELLS = re.compile(r"(?:(?:\w[\w .:/-]*+)?+\n)*+")  # neither formulas nor in need of quotes, one on each line
_NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?", re.ASCII)


class Writer(Protocol):
    """A writer of rows. `lines` only makes text of columns, in any thread, which `write` then writes."""

    def writerow(self, row: Iterable[Any], /) -> Any: ...
    def writerows(self, rows: Iterable[Iterable[Any]], /) -> Any: ...
    def lines(self, columns: Sequence[Sequence[Any]], /) -> str: ...
    def write(self, lines: str, /) -> Any: ...


class _Csv:
    """A writer of CSV."""

    def __init__(self, stream: TextIO, dialect: Dialect, raw: bool) -> None:
        self._delimiter = dialect.delimiter
        self._commas = dialect.decimal == ","
        self._converts = [_decimal_comma] * self._commas + [_without_formula] * (not raw)
        self._writer = self._csv(stream)
        self.write = stream.write

    def _csv(self, stream: TextIO) -> Any:
        return csv.writer(stream, delimiter=self._delimiter, lineterminator="\n")

    def writerow(self, row: Iterable[Any], /) -> None:
        self._writer.writerow(map(self._converted, row))

    def writerows(self, rows: Iterable[Iterable[Any]], /) -> None:
        self._writer.writerows(map(self._converted, row) for row in rows)

    def lines(self, columns: Sequence[Sequence[Any]], /) -> str:
        """Return the lines that `writerows` writes for rows of two cells or more, made faster, a column at a time."""
        rows = zip(*map(self._written, columns), strict=True)
        return "".join([f"{line}\n" for line in map(self._delimiter.join, rows)])

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
        written = io.StringIO(newline="")
        self._csv(written).writerow([self._converted(cell), ""])
        return written.getvalue()[:-2]

    def _converted(self, cell: Any) -> Any:
        for convert in self._converts:
            cell = convert(cell)
        return cell


def _decimal_comma(cell: Any) -> Any:
    """Write a number with a decimal comma.

    >>> [_decimal_comma(cell) for cell in (0.5, "0.5", None)]
    ['0,5', '0.5', None]
    """
    return str(cell).replace(".", ",") if isinstance(cell, float) else cell


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
def csv_writer(path: Path, *, raw: bool = False, dialect: Dialect | None = None) -> Iterator[Writer]:
    """Write CSV to ``path``, which is replaced when all is written, or to standard output if it is ``-``.

    A cell that a spreadsheet would compute gets a ' before it, unless ``raw``; `laddernet.table.read_csv` removes it.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "out.csv"
    >>> with csv_writer(path) as out:
    ...     _ = out.writerow(["a", "b"])
    >>> path.read_text()
    'a,b\\n'
    """
    dialect = dialect or Dialect()
    with _stream(path, "utf-8-sig" if dialect.bom else "utf-8") as stream:
        yield _Csv(stream, dialect, raw)


@contextmanager
def json_writer(path: Path) -> Iterator[Writer]:
    """Write an object for each row, on a line of its own; the first row has the names.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "out.json"
    >>> with json_writer(path) as out:
    ...     out.writerows([["a", "b"], [1, None]])
    >>> path.read_text()
    '{"a": 1, "b": null}\\n'
    """
    with _stream(path, "utf-8") as stream:
        yield _JsonLines(stream)


class _JsonLines:
    """A writer of JSON objects."""

    def __init__(self, stream: TextIO) -> None:
        self.write = stream.write
        self._names: list[str] = []

    def writerow(self, row: Iterable[Any], /) -> None:
        if self._names:
            self.write(self._line(row))
        else:
            self._names = list(row)

    def writerows(self, rows: Iterable[Iterable[Any]], /) -> None:
        for row in rows:
            self.writerow(row)

    def lines(self, columns: Sequence[Sequence[Any]], /) -> str:
        return "".join(map(self._line, zip(*columns, strict=True)))

    def _line(self, row: Iterable[Any]) -> str:
        cells = dict(zip(self._names, row, strict=True))
        return visible_json(json.dumps(cells, ensure_ascii=False, default=str)) + "\n"


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
