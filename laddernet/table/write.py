"""CSV files that are whole or absent, written a row at a time."""

import csv
import io
import re
import sys
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from laddernet.errors import InputError
from laddernet.files import whole_file, writing
from laddernet.text import quoted

_NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?", re.ASCII)


class Writer(Protocol):
    """What `csv.writer` makes."""

    def writerow(self, row: Iterable[Any], /) -> Any: ...
    def writerows(self, rows: Iterable[Iterable[Any]], /) -> Any: ...


class _Quoting:
    """A writer in whose cells no spreadsheet finds a formula."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def writerow(self, row: Iterable[Any], /) -> None:
        self._writer.writerow([_without_formula(cell) for cell in row])

    def writerows(self, rows: Iterable[Iterable[Any]], /) -> None:
        self._writer.writerows([_without_formula(cell) for cell in row] for row in rows)


def _without_formula(cell: Any) -> Any:
    """
    >>> [_without_formula(cell) for cell in ("=1+1", "-1.5", -1.5, None)]
    ["'=1+1", '-1.5', -1.5, None]
    """
    if cell is None or isinstance(cell, int | float):
        return cell
    text = str(cell)
    return text if _NUMBER.fullmatch(text) else quoted(text)


@contextmanager
def csv_writer(path: Path, *, raw: bool = False) -> Iterator[Writer]:
    """Write CSV to ``path``, which is replaced when all is written, or to standard output if it is ``-``.

    A cell that a spreadsheet would compute gets a ' before it, unless ``raw``; `laddernet.table.read` takes it away.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "out.csv"
    >>> with csv_writer(path) as out:
    ...     _ = out.writerow(["a", "b"])
    >>> path.read_text()
    'a,b\\n'
    """
    with _csv_writer(path) as writer:
        yield writer if raw else _Quoting(writer)


@contextmanager
def _csv_writer(path: Path) -> Iterator[Writer]:
    if str(path) == "-":
        if sys.stdout is None:
            raise InputError("Standard output is closed; name a file with --out.")
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # as in a file
        yield csv.writer(sys.stdout, lineterminator="\n")
        return
    if path.exists() and not path.is_file() and not path.is_dir():  # a pipe or a device is written to, not replaced
        with writing(path), path.open("w", encoding="utf-8", newline="") as file:
            yield csv.writer(file, lineterminator="\n")
        return
    check_writable(path)
    with whole_file(path) as raw:
        file = io.TextIOWrapper(raw, encoding="utf-8", newline="")
        yield csv.writer(file, lineterminator="\n")
        file.detach()  # which writes what is left, and leaves the file open


def check_writable(path: Path) -> None:
    """Refuse a place where no file can be put, before the work that would be lost."""
    if path.is_dir():
        raise InputError(f"Cannot write {path}, which is a folder; name a file.")
    trial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    with writing(path):
        trial.touch(exist_ok=False)
        trial.unlink()
