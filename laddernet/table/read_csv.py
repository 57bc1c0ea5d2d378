"""Read CSV: in columns with pyarrow where the file is regular, with the standard library's reader of rows elsewhere.

pandas is not used, for it accepts a row with too few cells, as if its last cells were empty.
"""

import codecs
import csv
import io
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from laddernet.errors import InputError
from laddernet.files import reading
from laddernet.table.csv_columns import DELIMITERS, parse_columns
from laddernet.table.table import (
    Dialect,
    Table,
    require_few,
    rows_of_a_part,
    unique_names,
)
from laddernet.text import unquoted

STDIN = "-"
_LONGEST_CELL = 1 << 24  # characters; the csv module's own limit is 131,072
_LONGEST_LINE = 1 << 28  # characters

_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


def open_csv(path: str | Path, delimiter: str | None, encoding: str | None) -> Table:
    """Open a CSV file; delimiter and encoding are detected where they are None."""
    if delimiter is not None:
        delimiter = delimiter.replace("\\t", "\t")
        if len(delimiter) != 1 or delimiter in '"\r\n':
            raise InputError(f"The delimiter is {delimiter!r}; give one character, as in --delimiter ';'.")
    file = _File(path, "Standard input" if str(path) == STDIN else str(path), delimiter, encoding)
    pieces = file.pieces()
    (header,) = next(pieces)
    require_few(len(header), file.name)
    columns = [cell.strip() or f"column {number}" for number, cell in enumerate(header, 1)]
    unique_names(columns, file.name)
    numbers = {name: number for number, name in enumerate(columns)}
    left = [pieces]  # rows of standard input, which can be read once
    if str(path) != STDIN:
        pieces.close()

    def parts(names: Sequence[str]) -> Iterator[pd.DataFrame]:
        if str(path) == STDIN:
            rows = left.pop()
        else:
            rows = file.pieces()
            next(rows)
        first = 1
        for piece in rows:
            if len(piece):
                index = pd.RangeIndex(first, first + len(piece))
                yield _frame(piece, {name: numbers[name] for name in names}, index)
                first += len(piece)

    return Table(file.name, columns, parts, dialect=Dialect(file.delimiter or ",", bom=file.bom))


def _frame(piece: Any, places: Mapping[str, int], index: pd.RangeIndex) -> pd.DataFrame:
    """Make a frame of some columns of a piece: rows, or a table of pyarrow."""
    if isinstance(piece, list):
        cells = list(zip(*piece, strict=True))
        chosen = {name: np.array(cells[place], object) for name, place in places.items()}
        return pd.DataFrame(chosen, index=index, dtype=object)
    return pd.DataFrame(
        {name: pd.arrays.ArrowExtensionArray(piece.column(k)) for name, k in places.items()}, index=index
    )


@dataclass
class _File:
    """A CSV file; delimiter, encoding and byte order mark are known once its first line is read."""

    path: str | Path
    name: str
    delimiter: str | None
    encoding: str | None
    bom: bool = False

    def pieces(self) -> Generator[Any]:
        """Yield the header as one row, then the rows in pieces: lists of rows, or tables of pyarrow.

        Each row is as long as the header; blank lines are skipped.
        """
        with _bytes(self.path) as raw:
            self.encoding = self.encoding or _encoding(raw)
            try:
                text = io.TextIOWrapper(raw, encoding=self.encoding, newline="")
            except (LookupError, ValueError):  # a stray byte in the name is a ValueError
                advice = "utf-8, cp1252 and utf-16 are common ones"
                raise InputError(f"There is no encoding {self.encoding!r}; {advice}.") from None
            try:
                lines = self._lines(text)
                header = self._rows(lines, "")
                if not header:
                    raise InputError(f"{self.name} is empty; give a table with the columns' names in its first line.")
                yield header
                assert self.delimiter is not None
                width = len(header[0])
                while block := lines.block():
                    # No cell of a block is longer than the block.
                    table = parse_columns(block, self.delimiter, width) if len(block) <= _LONGEST_CELL else None
                    if table is not None:
                        lines.read += block.count("\n")
                    yield self._rows(lines, block, width) if table is None else table
            except UnicodeError as error:
                where = _undecodable_line(self.path, self.encoding)
                encoding = self.encoding.removesuffix("-sig")
                advice = "name the file's own with --encoding, perhaps cp1252 or utf-16"
                raise InputError(f"{self.name}{where} is not {encoding} text; {advice}.") from error

    def _rows(self, lines: "_Lines", block: str, width: int = 0) -> list[list[str]]:
        """Parse the rows of a block, the last of which may end in further lines; without a width only the next row."""
        start = io.StringIO(block, newline="")
        assert self.delimiter is not None
        reader = csv.reader(
            _bounded([start, lines], self.name), delimiter=self.delimiter, strict=True, skipinitialspace=True
        )
        rows = []
        try:
            for row in reader:
                if row:
                    if width and len(row) != width:
                        cells = f"{len(row)} cell" + ("s" if len(row) != 1 else "")
                        found = f"{cells} where the header has {width} columns"
                        advice = "mend that line, or name another --delimiter"
                        where = f"line {lines.read + reader.line_num}"
                        raise InputError(f"{self.name}, {where}: {found}; {advice}.")
                    # `predict` writes a ' before what a spreadsheet would compute; it is not part of the cell.
                    rows.append(list(map(unquoted, row)) if "'" in "".join(row) else row)
                if start.tell() == len(block) and (width or rows):
                    break
        except csv.Error as error:
            where = f", line {lines.read + reader.line_num}"
            if "field larger" in str(error):
                found = f"a cell has more than {_LONGEST_CELL:,} characters"
                advice = "shorten it, or close the quote that was left open"
                raise InputError(f"{self.name}{where}: {found}; {advice}.") from error
            raise InputError(f"{self.name}{where}: not CSV ({error}); mend the quotes of that line.") from error
        lines.read += reader.line_num
        return rows

    def _lines(self, text: io.TextIOWrapper) -> "_Lines":
        """Find the delimiter in the first lines, and return all lines."""
        csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
        head = text.read(1 << 16) + text.readline(_LONGEST_LINE)
        self.bom = head.startswith("\ufeff") or self.encoding == "utf-8-sig"
        head = head.removeprefix("\ufeff")  # not every decoder removes the byte order mark
        self.delimiter = self.delimiter or _delimiter(head)
        # Standard input cannot be read twice, so the first lines are put in front again.
        return _Lines([io.StringIO(head, newline=""), text])


@dataclass
class _Lines:
    """The lines of several streams, each of which ends with a line."""

    streams: Sequence[io.TextIOBase]
    read: int = 0  # lines that were parsed

    def readline(self, most: int) -> str:
        """Return the next line, or its first characters; "" at the end."""
        return next((line for stream in self.streams if (line := stream.readline(most))), "")

    def block(self) -> str:
        """Return the next lines, some hundred thousand characters; "" at the end.

        Where quotes show that the last line ends within a cell, the lines up to its end are added, if they are few.
        """
        size = 4 * rows_of_a_part(1)
        block = next((start for stream in self.streams if (start := stream.read(size))), "")
        if not block.endswith("\n"):
            block += self.readline(_LONGEST_LINE)
        within = block.count('"') % 2
        while within and len(block) < 2 * size and (line := self.readline(_LONGEST_LINE)):
            block += line
            within ^= line.count('"') % 2
        return block


def _bounded(streams: Iterable[Any], name: str) -> Iterator[str]:
    """Yield the lines of several streams, and refuse a line that would fill the memory."""
    for stream in streams:
        for line in iter(partial(stream.readline, _LONGEST_LINE), ""):
            if len(line) == _LONGEST_LINE:
                raise InputError(f"{name}: a line has {_LONGEST_LINE:,} characters or more; give a table in lines.")
            yield line


@contextmanager
def _bytes(path: str | Path) -> Iterator[Any]:
    """Open a file or standard input for reading."""
    if str(path) == STDIN:
        if sys.stdin is None:
            raise InputError("Standard input is closed; send a table to it, or name a file.")
        with reading("standard input"), open(sys.stdin.fileno(), "rb", closefd=False) as file:
            yield file
        return
    with reading(path), Path(path).open("rb") as file:
        yield file


def _encoding(raw: Any) -> str:
    """Detect the encoding by the byte order mark; UTF-8 if there is none."""
    start = raw.peek(3)
    return next((name for bom, name in _BOMS.items() if start.startswith(bom)), "utf-8")


def _undecodable_line(path: str | Path, encoding: str) -> str:
    """Find the first line that is not in this encoding, as ``, line 3,``: a decoder counts only bytes of its buffer."""
    if str(path) == STDIN or "16" in encoding or "32" in encoding:
        return ""
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode(encoding)
            except UnicodeError:
                return f", line {number},"
    return ""


def _delimiter(head: str) -> str:
    r"""Find the delimiter that gives the first lines the same number of columns, and the most.

    >>> _delimiter("size, cm;colour\n1,5;red\n2,5;blue\n"), _delimiter("a\tb\n1\t2\n"), _delimiter("a\n1\n")
    (';', '\t', ',')
    """

    def columns(delimiter: str) -> tuple[bool, int]:
        try:
            rows = csv.reader(io.StringIO(head, newline=""), delimiter=delimiter, skipinitialspace=True)
            widths = [len(row) for row in islice(rows, 100) if row]
        except csv.Error:
            return False, 0
        return (len(set(widths)) == 1 and widths[0] > 1, widths[0]) if widths else (False, 0)

    best = max(DELIMITERS, key=columns)
    return best if columns(best)[1] > 1 else ","
