"""A table as the other modules use it: named columns, and rows that are read a part at a time."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

import pandas as pd

from laddernet.errors import InputError

CELLS = 1 << 19  # cells of a part: about 30 MB as Python strings
MOST_COLUMNS = 1 << 20


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written."""

    delimiter: str = ","
    decimal: str = "."
    bom: bool = False  # whether UTF-8 text begins with a byte order mark, by which spreadsheets recognise it


DIALECT = Dialect()  # of a table that is not CSV


@dataclass(frozen=True)
class Table:
    """The columns of a table, and its rows, which can be read more than once.

    >>> table = Table.of(pd.DataFrame({"a": [1, 2], "b": [3, 4]}))
    >>> [part["b"].tolist() for part in table.parts(["b"])]
    [[3, 4]]
    """

    name: str
    columns: list[str]
    parts: Callable[[Sequence[str]], Iterator[pd.DataFrame]]  # with these columns; the index counts rows from 1
    positional: int = 0  # number of columns that have a position only, as those of an array
    refused: dict[str, str] = field(default_factory=dict)  # arrays that cannot be columns, each with the reason
    dialect: Dialect = DIALECT

    @classmethod
    def of(cls, frame: pd.DataFrame, name: str = "The frame") -> "Table":
        """Make a table of a frame."""
        frame = with_names(frame, name)
        frame = frame.set_axis(pd.RangeIndex(1, len(frame) + 1))
        return cls(name, list(frame.columns), lambda names: iter([frame[list(names)]]))

    def require(self, names: Sequence[str], advice: str = "") -> None:
        """Refuse the table if it lacks one of these columns, and name them."""
        for name in names:
            if name in self.refused:
                raise InputError(f"{self.name}: {self.refused[name]}")
        absent = [name for name in names if name not in self.columns]
        if not absent:
            return
        if not advice:
            near = nearest(absent[0], self.columns)
            advice = f"did you mean {near!r}?" if near else f"it has {listed(self.columns)}."
        raise InputError(f"{self.name} has no column {listed(absent)}; {advice}")


def nearest(name: str, names: Sequence[str]) -> str | None:
    """Find the name that was probably meant: equal but for case and punctuation, spelt alike, or longer or shorter.

    >>> [nearest(name, ["Customer-ID", "Result (final)"]) for name in ("customer id", "custmer_id", "RESULT", "x")]
    ['Customer-ID', 'Customer-ID', 'Result (final)', None]
    """
    letters = {"".join(filter(str.isalnum, known.casefold())): known for known in reversed(names)}
    wanted = "".join(filter(str.isalnum, name.casefold()))
    within = [known for known in letters if len(wanted) > 2 < len(known) and (wanted in known or known in wanted)]
    found = [wanted] if wanted in letters else get_close_matches(wanted, letters, n=1) or within[-1:]
    return letters[found[0]] if found else None


def listed(names: Sequence[str], most: int = 8) -> str:
    """List names in a sentence, ``most`` of them at most.

    >>> listed(["a", "b"])
    "'a', 'b'"
    >>> listed([f"x{i}" for i in range(99)], most=2)
    "'x0', 'x1' and 97 more"
    """
    shown = ", ".join(map(repr, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def require_few(columns: int, table: object) -> None:
    """Refuse a table with too many columns, before each gets a name."""
    if columns > MOST_COLUMNS:
        raise InputError(f"{table} has {columns:,} columns; give no more than {MOST_COLUMNS:,}.")


def unique_names(names: list[str], table: str) -> list[str]:
    """Return the names, and refuse a name that comes twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"{table} has two columns named {name!r}; give each a name of its own.")
        seen.add(name)
    return names


def with_names(frame: pd.DataFrame, table: str) -> pd.DataFrame:
    """Return a frame whose columns are named by text; refuse what is not a frame, and a name that comes twice."""
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"frame must be a pandas DataFrame, got {type(frame).__name__}.")
    frame = frame.rename(columns=str)
    unique_names(list(frame.columns), table)
    return frame


def column_names(option: str, names: object) -> list[str]:
    """Refuse a single text or another type where a list of names must be."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InputError(f"{option} must be a list of columns' names, got {names!r}.")
    return [str(name) for name in names]


def rows_of_a_part(columns: int) -> int:
    """Compute how many rows are read at a time."""
    return max(1, CELLS // max(1, columns))
