"""CSV files that are whole or absent, written a row at a time."""

import csv
import io
import sys
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from laddernet.errors import InputError
from laddernet.files import whole_file, writing


class Writer(Protocol):
    """What `csv.writer` makes."""

    def writerow(self, row: Iterable[Any], /) -> Any: ...
    def writerows(self, rows: Iterable[Iterable[Any]], /) -> Any: ...


@contextmanager
def csv_writer(path: Path) -> Iterator[Writer]:
    """Write CSV to ``path``, which is replaced when all is written, or to standard output if it is ``-``.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "out.csv"
    >>> with csv_writer(path) as out:
    ...     _ = out.writerow(["a", "b"])
    >>> path.read_text()
    'a,b\\n'
    """
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
