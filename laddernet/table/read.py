"""Tables in files: CSV, Parquet and NPZ, read a part at a time, so that a file may be larger than memory.

CSV is read with the standard library's reader and not with pandas, which takes a row with too few cells for one whose
last cells are empty.
"""

import codecs
import csv
import io
import math
import stat
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from laddernet.errors import InputError
from laddernet.files import reading, require_regular
from laddernet.text import unquoted

CELLS = 1 << 19  # of a part: some 30 MB as Python's strings
STDIN = "-"
MOST_COLUMNS = 1 << 20
_LONGEST_CELL = 1 << 24  # characters; the csv module's own limit is 131,072
_LONGEST_LINE = 1 << 28  # characters
_LONGEST_TEXT = 1 << 20  # characters of a text in an array
_PART_BYTES = 1 << 26  # of a part of the arrays in an NPZ file
_WHOLE_BYTES = 1 << 32  # of an array that lies by columns, which is read at once
_DEFLATED = 1032  # the most that deflate can make of one byte

_DELIMITERS = ";\t|,"  # the comma last: it stands in texts and numbers too
_OTHERS = {
    b"\x1f\x8b": "compressed with gzip; give the file that gunzip makes of it",
    b"\x93NUM": "a single NumPy array; save it with its classes, by np.savez(path, X=X, y=y)",
}
_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


@dataclass(frozen=True)
class Table:
    """A table's columns, and its rows as often as one asks for them.

    >>> table = Table.of(pd.DataFrame({"a": [1, 2], "b": [3, 4]}))
    >>> [part["b"].tolist() for part in table.parts(["b"])]
    [[3, 4]]
    """

    name: str
    columns: list[str]
    parts: Callable[[Sequence[str]], Iterator[pd.DataFrame]]  # with these columns; their index counts rows from 1
    positional: int = 0  # how many columns have only a place, and no name of their own
    refused: dict[str, str] = field(default_factory=dict)  # what looks like a column and is none, with the reason

    @classmethod
    def of(cls, frame: pd.DataFrame, name: str = "The frame") -> "Table":
        """A table that is in memory already."""
        frame = frame.set_axis(pd.RangeIndex(1, len(frame) + 1)).rename(columns=str)
        columns = unique_names(list(frame.columns), name)
        return cls(name, columns, lambda names: iter([frame[list(names)]]))

    def require(self, names: Sequence[str], advice: str = "") -> None:
        """Refuse the table if it lacks one of these columns, and name them."""
        for name in names:
            if name in self.refused:
                raise InputError(f"{self.name}: {self.refused[name]}")
        absent = [name for name in names if name not in self.columns]
        if not absent:
            return
        if not advice:
            near = get_close_matches(absent[0], self.columns, n=1)
            advice = f"did you mean {near[0]!r}?" if near else f"it has {listed(self.columns)}."
        raise InputError(f"{self.name} has no column {listed(absent)}; {advice}")


def open_table(path: str | Path, *, delimiter: str | None = None, encoding: str | None = None) -> Table:
    """The table in a CSV, Parquet or NPZ file, told apart by how it begins; ``-`` is CSV on standard input."""
    if str(path) == STDIN:
        return _open_csv(path, delimiter, encoding)
    with reading(path):
        mode = Path(path).stat().st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        raise InputError(f"{path} can be read only once; give a file, or '-' for standard input.")
    require_regular(path)
    with reading(path), Path(path).open("rb") as file:
        start = file.read(4)
    for beginning, what in _OTHERS.items():
        if start.startswith(beginning):
            raise InputError(f"{path} is {what}.")
    if start == b"PAR1":
        return _open_parquet(Path(path))
    if Path(path).suffix == ".parquet":
        raise InputError(f"{path} is not a Parquet file; write it anew, or give it another name if it is CSV.")
    if start in (b"PK\x03\x04", b"PK\x05\x06"):
        return _open_npz(Path(path))
    return _open_csv(path, delimiter, encoding)


def listed(names: Sequence[str], most: int = 8) -> str:
    """Names for a sentence, not too many of them.

    >>> listed(["a", "b"])
    "'a', 'b'"
    >>> listed([f"x{i}" for i in range(99)], most=2)
    "'x0', 'x1' and 97 more"
    """
    shown = ", ".join(map(repr, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def _require_few(columns: int, table: object) -> None:
    """Refuse more columns than could be learned from, before each gets a name."""
    if columns > MOST_COLUMNS:
        raise InputError(f"{table} has {columns:,} columns; give no more than {MOST_COLUMNS:,}.")


def unique_names(names: list[str], table: str) -> list[str]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"{table} has two columns named {name!r}; give each a name of its own.")
        seen.add(name)
    return names


def _rows_of_a_part(columns: int) -> int:
    return max(1, CELLS // max(1, columns))


# --- CSV --------------------------------------------------------------------------------------------------------


def _open_csv(path: str | Path, delimiter: str | None, encoding: str | None) -> Table:
    name = "Standard input" if str(path) == STDIN else str(path)
    if delimiter is not None:
        delimiter = delimiter.replace("\\t", "\t")
        if len(delimiter) != 1 or delimiter in '"\r\n':
            raise InputError(f"The delimiter is {delimiter!r}; give one character, as in --delimiter ';'.")
    records = _records(path, name, delimiter, encoding)
    header = next(records)
    _require_few(len(header), name)
    columns = [cell.strip() or f"column {number}" for number, cell in enumerate(header, 1)]
    unique_names(columns, name)
    left = [records]  # of standard input, which can be read once
    if str(path) != STDIN:
        records.close()

    def parts(names: Sequence[str]) -> Iterator[pd.DataFrame]:
        if str(path) == STDIN:
            rows = left.pop()
        else:
            rows = _records(path, name, delimiter, encoding)
            next(rows)
        places = {name: columns.index(name) for name in names}
        first = 1
        while part := list(islice(rows, _rows_of_a_part(len(columns)))):
            index = pd.RangeIndex(first, first + len(part))
            cells = list(zip(*part, strict=True))
            chosen = {name: np.array(cells[place], object) for name, place in places.items()}
            yield pd.DataFrame(chosen, index=index, dtype=object)
            first += len(part)

    return Table(name, columns, parts)


def _records(path: str | Path, name: str, delimiter: str | None, encoding: str | None) -> Generator[list[str]]:
    """The header and the rows of a CSV file, each as long as the header; blank lines are passed over."""
    with _bytes(path) as raw:
        encoding = encoding or _encoding(raw)
        try:
            text = io.TextIOWrapper(raw, encoding=encoding, newline="")
        except (LookupError, ValueError):  # a stray byte in the name is a ValueError
            raise InputError(f"There is no encoding {encoding!r}; utf-8, cp1252 and utf-16 are common ones.") from None
        reader = None
        try:
            # Of standard input nothing can be read twice, so what the delimiter is told by is put in front again.
            csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
            head = text.read(1 << 16) + text.readline(_LONGEST_LINE)
            head = head.removeprefix("\ufeff")  # a byte order mark, which not every decoder takes away
            delimiter = delimiter or _delimiter(head)
            lines = _lines([io.StringIO(head, newline=""), text], name)
            reader = csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=True)
            width = 0
            for row in reader:
                if not row:
                    continue
                if width and len(row) != width:
                    cells = f"{len(row)} cell" + ("s" if len(row) != 1 else "")
                    advice = "mend that line, or name another --delimiter"
                    raise InputError(
                        f"{name}, line {reader.line_num}: {cells} where the header has {width} columns; {advice}."
                    )
                width = len(row)
                # A ' that keeps a spreadsheet from computing a cell, as `predict` writes it, is no part of the cell.
                yield list(map(unquoted, row)) if "'" in "".join(row) else row
        except UnicodeError as error:
            where = _undecodable_line(path, encoding)
            advice = "name the file's own with --encoding, perhaps cp1252 or utf-16"
            raise InputError(f"{name}{where} is not {encoding.removesuffix('-sig')} text; {advice}.") from error
        except csv.Error as error:
            where = f", line {reader.line_num}" if reader else ""
            if "field larger" in str(error):
                found = f"a cell has more than {_LONGEST_CELL:,} characters"
                advice = "shorten it, or close the quote that was left open"
                raise InputError(f"{name}{where}: {found}; {advice}.") from error
            raise InputError(f"{name}{where}: not CSV ({error}); mend the quotes of that line.") from error
        if not width:
            raise InputError(f"{name} is empty; give a table with the columns' names in its first line.")


def _lines(streams: Iterable[io.TextIOBase], name: str) -> Iterator[str]:
    """The lines of texts one after another, refused if one is so long that it would fill the memory."""
    for stream in streams:
        for line in iter(partial(stream.readline, _LONGEST_LINE), ""):
            if len(line) == _LONGEST_LINE:
                raise InputError(f"{name}: a line has {_LONGEST_LINE:,} characters or more; give a table in lines.")
            yield line


@contextmanager
def _bytes(path: str | Path) -> Iterator[Any]:
    if str(path) == STDIN:
        if sys.stdin is None:
            raise InputError("Standard input is closed; send a table to it, or name a file.")
        with reading("standard input"), open(sys.stdin.fileno(), "rb", closefd=False) as file:
            yield file
        return
    with reading(path), Path(path).open("rb") as file:
        yield file


def _encoding(raw: Any) -> str:
    start = raw.peek(3)
    return next((name for bom, name in _BOMS.items() if start.startswith(bom)), "utf-8")


def _undecodable_line(path: str | Path, encoding: str) -> str:
    """Where the text is not in this encoding, as ``, line 3``: a decoder only tells a place in its buffer."""
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
    r"""The delimiter with which the first lines agree on the most columns.

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

    best = max(_DELIMITERS, key=columns)
    return best if columns(best)[1] > 1 else ","


# --- Parquet ----------------------------------------------------------------------------------------------------


def _open_parquet(path: Path) -> Table:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        advice = "pip install 'laddernet[parquet]', or save the table as CSV"
        raise InputError(
            f"{path} is a Parquet file, and pyarrow, which reads it, is not installed; {advice}."
        ) from None

    @contextmanager
    def opened() -> Iterator[Any]:
        try:
            # By a file and not by its name, in which pyarrow takes no stray byte.
            with path.open("rb") as raw, pyarrow.parquet.ParquetFile(raw) as file:
                yield file
        except (
            pyarrow.ArrowException,
            OSError,
            ValueError,
        ) as error:  # ValueError: names that are not text, and the like
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path} is not a whole Parquet file ({_line(error)}); write it anew.") from error

    with opened() as file:
        _require_few(len(file.schema_arrow.names), path)
        columns = unique_names(list(file.schema_arrow.names), str(path))
    # Whole numbers stay whole beside a cell that is missing: as float64, long keys would lose digits.
    names_of_types = [f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)]
    whole = {getattr(pyarrow, name.lower())(): getattr(pd, f"{name}Dtype")() for name in names_of_types}

    def parts(names: Sequence[str]) -> Iterator[pd.DataFrame]:
        first = 1
        with opened() as file:
            for batch in file.iter_batches(_rows_of_a_part(len(columns)), columns=list(names)):
                batch.validate(full=True)  # text that is not UTF-8 would fail only where it is used
                plain = batch.replace_schema_metadata(None)  # which pyarrow parses even where it is to be ignored
                frame = plain.to_pandas(ignore_metadata=True, types_mapper=whole.get)[list(names)]
                yield frame.set_axis(pd.RangeIndex(first, first + len(frame)))
                first += len(frame)

    return Table(str(path), columns, parts)


# --- NPZ --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Array:
    """An array of an NPZ file."""

    shape: tuple[int, ...]
    dtype: Any
    by_columns: bool

    @property
    def width(self) -> int:
        return math.prod(self.shape[1:])

    @property
    def row_bytes(self) -> int:
        return int(self.width * self.dtype.itemsize)

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * int(self.dtype.itemsize)

    @property
    def objection(self) -> str:
        """Why its cells are not read, if they are not."""
        if self.dtype.hasobject:
            return "holds Python objects, which are not read; save numbers or text"
        if self.dtype.kind not in "biufSUM":
            return f"holds values of the type {self.dtype}, which are not read; save numbers, text or dates"
        if self.dtype.kind in "SU" and self.dtype.itemsize > _LONGEST_TEXT * (4 if self.dtype.kind == "U" else 1):
            return f"holds texts of the type {self.dtype}; save texts of no more than {_LONGEST_TEXT:,} characters"
        if self.by_columns and len(self.shape) > 1 and self.bytes > _WHOLE_BYTES:
            return f"lies by columns and has {self.bytes:,} bytes; save it by rows, with np.ascontiguousarray"
        return ""


def _open_npz(path: Path) -> Table:
    """``X`` gives the columns x0, x1 and so on; other arrays with one value a row are columns of their own name."""
    with _npz(path) as archive:
        arrays = {}
        for member in archive.infolist():
            if member.filename.endswith(".npy"):
                with _member(archive, member) as file:
                    arrays[member.filename.removesuffix(".npy")] = _array_header(file, member)
    if not arrays:
        raise InputError(f"{path} is a zip file, but not NPZ; save the table as CSV, Parquet or NPZ.")
    X = arrays.pop("X", None)
    if X is None or not X.shape:
        raise InputError(f"{path} has no array X with a row for each example; save it with np.savez(path, X=X, y=y).")
    if not X.width:
        raise InputError(f"{path}: X has no columns (its shape is {X.shape}); give one or more.")
    refused = {}
    for name, array in arrays.items():
        if not array.shape or array.shape[0] != X.shape[0]:
            rows = array.shape[0] if array.shape else 1
            refused[name] = f"{name} has {rows:,} rows and X has {X.shape[0]:,}; give both the same number."
        elif array.width != 1:
            refused[name] = f"{name} has the shape {array.shape}; give one value for each row."
        elif array.objection:
            refused[name] = f"{name} {array.objection}."
    if X.objection:
        raise InputError(f"{path}: X {X.objection}.")
    _require_few(X.width, f"{path}: X")
    named = [f"x{place}" for place in range(X.width)]
    others = [name for name in arrays if name not in refused and name not in set(named)]

    def parts(names: Sequence[str]) -> Iterator[pd.DataFrame]:
        wanted = set(names)
        places = [place for place, name in enumerate(named) if name in wanted]
        widest = max(array.row_bytes for array in (X, *(arrays[name] for name in others if name in wanted)))
        step = min(_rows_of_a_part(X.width), max(1, _PART_BYTES // max(1, widest)))
        with _npz(path) as archive:
            sources = {name: _array_parts(archive, name, step) for name in others if name in wanted}
            rows = _array_parts(archive, "X", step) if places else None
            for first in range(0, X.shape[0], step):
                index = pd.RangeIndex(first + 1, min(first + step, X.shape[0]) + 1)
                frame = pd.DataFrame(index=index)
                if rows is not None:
                    x = next(rows).reshape(len(index), -1)
                    x = x if len(places) == X.width else x[:, places]
                    frame = pd.DataFrame(x, index=index, columns=[named[place] for place in places])
                for name, source in sources.items():
                    frame[name] = next(source).reshape(-1)
                yield frame[list(names)]

    return Table(str(path), [*named, *others], parts, positional=X.width, refused=refused)


@contextmanager
def _npz(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with reading(path), zipfile.ZipFile(path) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError, NotImplementedError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not a whole NPZ file ({_line(error)}); save it anew with np.savez.") from error


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> IO[bytes]:
    """Open a member, if it can be what the zip file's directory says it is."""
    if member.flag_bits & 1:
        raise InputError(f"{archive.filename} is encrypted; save it without a password.")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{member.filename} is compressed in another way than NumPy's")
    size = Path(str(archive.filename)).stat().st_size
    if member.compress_size > size or member.file_size > _DEFLATED * (member.compress_size + 1):
        raise ValueError(f"{member.filename} would have {member.file_size:,} bytes")
    return archive.open(member)


def _array_header(file: IO[bytes], member: zipfile.ZipInfo) -> _Array:
    """What an array says of itself, if that is as long as the member is."""
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, by_columns, dtype = read(file)
    except (SyntaxError, TypeError, RecursionError, MemoryError, AttributeError, tokenize.TokenError) as error:
        raise ValueError(f"the header of {member.filename} cannot be read") from error
    array = _Array(shape, dtype, by_columns)
    if any(type(size) is not int or size < 0 for size in shape):
        raise ValueError(f"{member.filename} has the shape {shape}")
    if not dtype.hasobject and array.bytes != member.file_size - file.tell():
        said = f"{array.bytes:,} bytes of the shape {shape}"
        raise ValueError(f"{member.filename} has {member.file_size - file.tell():,} bytes where there should be {said}")
    return array


def _array_parts(archive: zipfile.ZipFile, name: str, step: int) -> Iterator[np.ndarray]:
    """An array, ``step`` rows at a time. NumPy would read it whole, for it cannot map an array within a zip file."""
    member = archive.getinfo(f"{name}.npy")
    with _member(archive, member) as file:
        array = _array_header(file, member)
        if array.by_columns and len(array.shape) > 1:  # here the rows are not one after another
            whole = np.frombuffer(file.read(), array.dtype).reshape(array.shape, order="F")
            yield from (whole[first : first + step] for first in range(0, array.shape[0], step))
            return
        for first in range(0, array.shape[0], step):
            rows = min(step, array.shape[0] - first)
            size = rows * array.width * array.dtype.itemsize
            content = file.read(size)
            if len(content) != size:
                raise EOFError(f"{name} ends early")
            yield np.frombuffer(content, array.dtype).reshape(rows, *array.shape[1:])


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".")
