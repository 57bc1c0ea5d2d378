"""NPZ files: arrays in a zip file, checked against their headers before memory is allocated."""

import math
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from laddernet.errors import InputError
from laddernet.files import reading
from laddernet.text import one_line

_LONGEST_TEXT = 1 << 20  # characters of a text in an array
_WHOLE_BYTES = 1 << 32  # bytes of an array in column order, which is read at once
_DEFLATED = 1032  # the most bytes that deflate can make of one


@dataclass(frozen=True)
class Header:
    """The header of an array."""

    shape: tuple[int, ...]
    dtype: Any
    by_columns: bool

    @property
    def width(self) -> int:
        return math.prod(self.shape[1:])

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


def headers(path: Path) -> dict[str, Header]:
    """Read the headers of all arrays, by name."""
    found = {}
    with opened(path) as archive:
        for member in archive.infolist():
            if member.filename.endswith(".npy"):
                with _member(archive, member) as file:
                    found[member.filename.removesuffix(".npy")] = _header(file, member)
    return found


@contextmanager
def opened(path: Path) -> Iterator[zipfile.ZipFile]:
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


def _header(file: IO[bytes], member: zipfile.ZipInfo) -> Header:
    """Read the header of an array, and refuse it if its size is not that of the member."""
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, by_columns, dtype = read(file)
    except (SyntaxError, TypeError, RecursionError, MemoryError, AttributeError, tokenize.TokenError) as error:
        raise ValueError(f"the header of {member.filename} cannot be read") from error
    array = Header(shape, dtype, by_columns)
    if any(type(size) is not int or size < 0 for size in shape):
        raise ValueError(f"{member.filename} has the shape {shape}")
    if not dtype.hasobject and array.bytes != member.file_size - file.tell():
        said = f"{array.bytes:,} bytes of the shape {shape}"
        raise ValueError(f"{member.filename} has {member.file_size - file.tell():,} bytes where there should be {said}")
    return array


def whole(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """Read an array as a whole."""
    member = archive.getinfo(f"{name}.npy")
    with _member(archive, member) as file:
        array = _header(file, member)
        return _values(file, name, array, array.shape, order="F" if array.by_columns else "C")


def parts(archive: zipfile.ZipFile, name: str, step: int) -> Iterator[np.ndarray]:
    """Yield ``step`` rows of an array at a time; NumPy can only read an array in a zip file as a whole."""
    member = archive.getinfo(f"{name}.npy")
    with _member(archive, member) as file:
        array = _header(file, member)
        if array.by_columns and len(array.shape) > 1:  # its rows are not contiguous
            values = _values(file, name, array, array.shape, order="F")
            yield from (values[first : first + step] for first in range(0, array.shape[0], step))
            return
        for first in range(0, array.shape[0], step):
            yield _values(file, name, array, (min(step, array.shape[0] - first), *array.shape[1:]))


def _values(
    file: IO[bytes], name: str, array: Header, shape: tuple[int, ...], order: Literal["C", "F"] = "C"
) -> np.ndarray:
    """Read the next values of an array, as many as this shape has."""
    size = math.prod(shape) * array.dtype.itemsize
    content = file.read(size)
    if len(content) != size:
        raise EOFError(f"{name} ends early")
    values = np.frombuffer(content, array.dtype).reshape(shape, order=order)
    return values.astype(array.dtype.newbyteorder("="), copy=False)  # pandas refuses bytes in the other order
