"""R's data files, read without R: the tables in a package's ``.rda`` files and in its lazy-load database.

R's serialization (the XDR form, versions 2 and 3) lists the parts of an object depth first. Each item begins with four
bytes of flags: the lowest byte is its type, further bits indicate attributes and a tag. Only the types of data frames,
factors and matrices are supported.
"""

import bz2
import gzip
import lzma
import struct
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NA = -(1 << 31)  # an integer, a logical value or a factor's level that is missing
_HAS_ATTRIBUTES, _HAS_TAG = 0x200, 0x400
_SYMBOL, _PAIRS, _CHARS = 1, 2, 9
_LOGICAL, _INTEGER, _REAL, _STRINGS, _LIST = 10, 13, 14, 16, 19
_NIL, _REFERENCE = 254, 255

Column = NDArray[np.float64] | NDArray[np.object_]  # numbers, NaN if missing; or names, None if missing
Columns = dict[str, Column]


@dataclass
class _Item:
    """A vector or list, with its attributes."""

    value: Any
    attributes: dict[str, Any] = field(default_factory=dict)

    def names(self, attribute: str = "names") -> list[str]:
        return list(self.attributes[attribute].value)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 2
        if data[:2] != b"X\n":
            raise ValueError(f"R's serialization begins b'X\\n', not {data[:2]!r}.")
        self.references: list[Any] = []
        version, _, _ = (self.integer() for _ in range(3))
        if version == 3:  # names its encoding
            self.bytes(self.integer())

    def bytes(self, n: int) -> bytes:
        self.at += n
        return self.data[self.at - n : self.at]

    def integer(self) -> int:
        return int(struct.unpack(">i", self.bytes(4))[0])

    def numbers(self, kind: str, width: int) -> NDArray[Any]:
        return np.frombuffer(self.bytes(self.integer() * width), kind)

    def item(self) -> Any:
        flags = self.integer()
        kind = flags & 0xFF
        if kind == _NIL:
            return None
        if kind == _REFERENCE:
            return self.references[(flags >> 8 or self.integer()) - 1]
        if kind == _SYMBOL:
            self.references.append(self.item())
            return self.references[-1]
        if kind == _CHARS:
            length = self.integer()
            return None if length == -1 else self.bytes(length).decode("utf-8", "replace")
        if kind == _PAIRS:
            return self.pairs(flags)
        if kind in (_LOGICAL, _INTEGER):
            vector = _Item(self.numbers(">i4", 4))
        elif kind == _REAL:
            vector = _Item(self.numbers(">f8", 8))
        elif kind in (_STRINGS, _LIST):
            vector = _Item([self.item() for _ in range(self.integer())])
        else:
            raise ValueError(f"R's type {kind} is not known here.")
        if flags & _HAS_ATTRIBUTES:
            vector.attributes = self.item()
        return vector

    def pairs(self, flags: int) -> dict[str, Any]:
        """A pair list as a dict."""
        found: dict[str, Any] = {}
        while flags & 0xFF == _PAIRS:
            if flags & _HAS_ATTRIBUTES:
                self.item()
            tag = self.item() if flags & _HAS_TAG else ""
            found[tag] = self.item()
            flags = self.integer()
        if flags & 0xFF != _NIL:
            raise ValueError("A pair list does not end in nil.")
        return found


def tables(data: bytes) -> dict[str, Columns]:
    """The data frames and matrices in an ``.rda`` file, by their names."""
    data = _decompress(data)
    if data[:5] not in (b"RDX2\n", b"RDX3\n"):
        raise ValueError(f"An .rda file begins b'RDX2' or b'RDX3', not {data[:5]!r}.")
    found = _Reader(data[5:]).item()
    return {name: columns(item) for name, item in found.items() if isinstance(item, _Item)}


def lazy_table(index: bytes, database: bytes, name: str) -> Columns:
    """One table out of a lazy-load database, a pair of ``.rdx`` and ``.rdb`` files."""
    found = _Reader(_decompress(index)).item()
    variables = found.value[found.names().index("variables")]
    start, length = (int(n) for n in variables.value[variables.names().index(name)].value)
    return columns(_Reader(_record(database[start : start + length])).item())


def columns(item: _Item) -> Columns:
    """A data frame or a matrix by columns, a list of such by columns of all its members, a factor as one column."""
    if "dim" in item.attributes:
        n, m = (int(size) for size in item.attributes["dim"].value)
        named = item.attributes.get("dimnames")
        names = list(named.value[1].value) if named and named.value[1] else [f"column {j}" for j in range(m)]
        return dict(zip(names, _numbers(item.value).reshape(m, n), strict=True))
    if not isinstance(item.value, list) or "names" not in item.attributes:
        return {"": _column(item)}
    found: Columns = {}
    for name, member in zip(item.names(), item.value, strict=True):
        inner = columns(member)
        found |= {f"{name}.{key}" if key else name: column for key, column in inner.items()}
    return found


def _column(item: _Item) -> Column:
    if "levels" in item.attributes:
        levels = np.array([*item.names("levels"), None], dtype=object)
        # Ordered levels are numbers: their distances mean something.
        if "ordered" in item.attributes["class"].value:
            return _numbers(item.value)
        return np.asarray(levels[np.where(item.value == _NA, len(levels), item.value) - 1])
    if isinstance(item.value, list):
        return np.array(item.value, dtype=object)
    return _numbers(item.value)


def _numbers(value: NDArray[Any]) -> NDArray[np.float64]:
    numbers = value.astype(np.float64)
    return np.where(value == _NA, np.nan, numbers) if value.dtype.kind == "i" else numbers


def _decompress(data: bytes) -> bytes:
    for magic, decompress in ((b"\x1f\x8b", gzip.decompress), (b"BZh", bz2.decompress), (b"\xfd7zXZ", lzma.decompress)):
        if data.startswith(magic):
            return decompress(data)
    return data


def _record(data: bytes) -> bytes:
    """Decompress an object of a database: its length, for LZMA a letter, and the compressed bytes."""
    if data[4:5] == b"Z":  # LZMA without a container
        return lzma.decompress(data[5:], lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA2, "preset": 9}])
    return zlib.decompress(data[4:])
