"""Read NPZ files: arrays in a zip file, checked against their headers before memory is allocated."""

import math
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from laddernet.errors import InputError
from laddernet.files import reading
from laddernet.table.table import Table, one_line, require_few, rows_of_a_part

_LONGEST_TEXT = 1 << 20  # characters of a text in an array
_PART_BYTES = 1 << 26  # bytes of a part of the arrays
_WHOLE_BYTES = 1 << 32  # bytes of an array in column order, which is read at once
_DEFLATED = 1032  # the most bytes that deflate can make of one


@dataclass(frozen=True)
class _Array:
    """The header of an array."""

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
        """Say why the array cannot be read; empty if it can."""
        if self.dtype.hasobject:
            return "holds Python objects, which are not read; save numbers or text"
        if self.dtype.kind not in "biufSUM":
            return f"holds values of the type {self.dtype}, which are not read; save numbers, text or dates"
        if self.dtype.kind in "SU" and self.dtype.itemsize > _LONGEST_TEXT * (4 if self.dtype.kind == "U" else 1):
            return f"holds texts of the type {self.dtype}; save texts of no more than {_LONGEST_TEXT:,} characters"
        if self.by_columns and len(self.shape) > 1 and self.bytes > _WHOLE_BYTES:
            return f"lies by columns and has {self.bytes:,} bytes; save it by rows, with np.ascontiguousarray"
        return ""


def open_npz(path: Path) -> Table:
    """Open an NPZ file.

    The columns of ``X`` are named x0, x1 and so on; other arrays with one value per row are columns of their own name.
    """
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
    require_few(X.width, f"{path}: X")
    named = [f"x{place}" for place in range(X.width)]
    others = [name for name in arrays if name not in refused and name not in set(named)]

    def parts(names: Sequence[str]) -> Iterator[pd.DataFrame]:
        wanted = set(names)
        places = [place for place, name in enumerate(named) if name in wanted]
        widest = max(array.row_bytes for array in (X, *(arrays[name] for name in others if name in wanted)))
        step = min(rows_of_a_part(X.width), max(1, _PART_BYTES // max(1, widest)))
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
    """Open a zip file; any damage found while it is read becomes one sentence."""
    try:
        with reading(path), zipfile.ZipFile(path) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError, NotImplementedError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not a whole NPZ file ({one_line(error)}); save it anew with np.savez.") from error


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> IO[bytes]:
    """Open a member, unless the sizes in the zip file's directory are impossible."""
    if member.flag_bits & 1:
        raise InputError(f"{archive.filename} is encrypted; save it without a password.")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{member.filename} is compressed in another way than NumPy's")
    size = Path(str(archive.filename)).stat().st_size
    if member.compress_size > size or member.file_size > _DEFLATED * (member.compress_size + 1):
        raise ValueError(f"{member.filename} would have {member.file_size:,} bytes")
    return archive.open(member)


def _array_header(file: IO[bytes], member: zipfile.ZipInfo) -> _Array:
    """Read the header of an array, and refuse it if its size is not that of the member."""
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
    """Yield ``step`` rows of an array at a time; NumPy can only read an array in a zip file as a whole."""
    member = archive.getinfo(f"{name}.npy")
    with _member(archive, member) as file:
        array = _array_header(file, member)
        if array.by_columns and len(array.shape) > 1:  # its rows are not contiguous
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
