"""Labels in files that a person filled in: find the row of each label, and report the labels that do not fit.

`suggest` and `label` write rows with an empty target, a person fills it in, and `fit --labels` reads the file. A row
is found by the first identifier of the table that the file has, or else by its number. The number is that of a
spreadsheet: the header is row 1, the first row of the table is row 2. A cell may be written otherwise than in the
table, since spreadsheets have forms of their own for numbers and dates.

The last label of a row counts: the table's, then those of each file in turn.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from laddernet.errors import InputError
from laddernet.table.cells import COMMA, GROUPS, POINT, exact, numbers_of, text_of, texts
from laddernet.table.labels import labels_of, natural, plain, unmarked
from laddernet.table.read import open_table
from laddernet.table.table import Table, listed, nearest

ROW = "spreadsheet row"

_HEADER = 1  # rows above the first row of the table
_DIGITS = 1e-6  # relative difference of numbers that count as equal: a spreadsheet may save only the digits it shows
_ROW_NUMBER = re.compile(r"\d{1,18}", re.ASCII)
_SHOWN = 20  # classes that a sentence lists
_ABSENT = "not in the table, so the label is not used"
_EDITED = "other cells than in the table; the label is used"
_MOVED = "other cells than the table's row of that number, so the label is not used"
_TWICE = "two labels of one row; the last one counts"
_DIFFERS = "another label than in the table; the last one counts"
_CLASS = "a class that no row of the table has"
_NOT_UTF8 = "cp1252"  # in which spreadsheets of western Europe save CSV


def row_number(number: int) -> int:
    """Return the number in a spreadsheet of the table's row with this number, which counts from 1.

    >>> row_number(1)
    2
    """
    return number + _HEADER


def own_name(name: str, columns: Collection[str]) -> str:
    """Return the name of a column that is added to those of a table.

    >>> own_name("rank", ["age"]), own_name("rank", ["rank"])
    ('rank', 'rank (laddernet)')
    """
    return f"{name} (laddernet)" if name in columns else name


def open_labels(path: str | Path, *, delimiter: str | None = None, encoding: str | None = None) -> Table:
    """Open a file of labels; delimiter and encoding, those of the table, are used if detection fails.

    A spreadsheet may have saved the file in a dialect of its own.
    """
    try:
        table, read_as = _readable(path, None), None
    except InputError as error:
        if not isinstance(error.__cause__, UnicodeError):
            raise
        read_as = encoding or _NOT_UTF8
        table = _readable(path, read_as)
    if delimiter is not None and len(table.columns) == 1:
        table = open_table(path, delimiter=delimiter, encoding=read_as)
    return table


def _readable(path: str | Path, encoding: str | None) -> Table:
    """Open a table, and read it to its end."""
    table = open_table(path, encoding=encoding)
    for _ in table.parts(table.columns):
        pass
    return table


LabelFiles: TypeAlias = "pd.DataFrame | str | Path | Sequence[pd.DataFrame | str | Path]"


def open_all(labels: LabelFiles) -> list[Table]:
    """Open frames and files of labels, or a single one."""
    several = [labels] if isinstance(labels, pd.DataFrame | str | Path) else labels
    return [Table.of(each, "labels") if isinstance(each, pd.DataFrame) else open_labels(each) for each in several]


@dataclass(frozen=True)
class LabelFile:
    """The rows of a file that have a label."""

    name: str
    labels: list[str]
    cells: pd.DataFrame  # the other columns of these rows, as text

    @classmethod
    def read(cls, source: Table, target: str, mark: str) -> "LabelFile":
        """Read the labels in a file; a row without a label, or with the mark, is left out."""
        source.require([target])
        others = [name for name in source.columns if name != target]
        labels: list[str] = []
        cells: dict[str, list[str]] = {name: [] for name in others}
        for part in source.parts(source.columns):
            given = labels_of(part[target], mark)
            labels += list(given[given != ""])
            for name in others:
                cells[name] += list(texts(part[name][given != ""]))
        return cls(source.name, labels, pd.DataFrame(cells, index=range(len(labels)), dtype=object))


class Finder:
    """Finds the rows of a table for which a file has a label.

    Parameters
    ----------
    file : LabelFile
        The file.
    columns : list of str
        All columns of the table.
    identifiers : list of str
        Those that are identifiers.
    """

    def __init__(self, file: LabelFile, columns: Sequence[str], identifiers: Sequence[str]) -> None:
        self.file = file
        self.key = next((name for name in identifiers if name in file.cells), None)
        number = own_name(ROW, columns)
        if self.key is None and number not in file.cells:
            known = f"the identifier {listed(identifiers)} or " if identifiers else ""
            raise InputError(f"{file.name} has no column that identifies rows; give it {known}the column {ROW!r}.")
        empty = [""] * len(file.labels)
        self.keys, self._numbers = (list(file.cells.get(name, empty)) for name in (self.key, number))
        self._by_key: dict[str, list[int]] = defaultdict(list)
        self._by_row: dict[int, list[int]] = defaultdict(list)
        for place, (key, row) in enumerate(zip(self.keys, map(plain, self._numbers), strict=True)):
            if key:
                self._by_key[plain(key)].append(place)
            elif _ROW_NUMBER.fullmatch(row):
                self._by_row[int(row)].append(place)

    def called(self, place: int) -> str:
        """Name a row of the file by its identifier or its number."""
        key = self.keys[place]
        return f"{self.key} {key}" if key else f"{ROW} {self._numbers[place] or '(empty)'}"

    def pairs(self, part: pd.DataFrame, *, numbered: bool = True) -> Iterator[tuple[int, int]]:
        """Yield the places of equal rows in the file and in a part of the table, which has the column ``key``.

        Rows of a table that was added by --also are not ``numbered``.
        """
        if self.key is not None and self._by_key:
            for here, key in enumerate(texts(part[self.key])):
                for place in self._by_key.get(plain(key), ()):
                    yield place, here
        if numbered and self._by_row:
            first = row_number(int(part.index[0])) if len(part) else 0
            for number in self._by_row.keys() & range(first, first + len(part)):
                for place in self._by_row[number]:
                    yield place, number - first


@dataclass(frozen=True)
class Round:
    """The labels that a file added to those of a table."""

    file: str
    new: dict[str, int]  # labels of rows that had none, by class
    changed: int  # rows that had another label
    known: int  # rows that had this label

    def sentence(self) -> str:
        """Write the counts as a sentence.

        >>> Round("to-label.csv", {"ill": 2, "well": 1}, changed=1, known=0).sentence()
        'to-label.csv: 3 new labels (ill: 2, well: 1), 1 changed'
        """
        total = sum(self.new.values())
        classes = [f"{name}: {count:,}" for name, count in self.new.items()]
        more = [f"{len(classes) - _SHOWN:,} more classes"] if len(classes) > _SHOWN else []
        named = f" ({', '.join(classes[:_SHOWN] + more)})" if classes else ""
        counts = [f"{total:,} new label{'' if total == 1 else 's'}{named}"]
        counts += [f"{count:,} {word}" for count, word in ((self.changed, "changed"), (self.known, "known")) if count]
        return f"{self.file}: {', '.join(counts)}"


@dataclass
class Merged:
    """The labels of a table together with those of files."""

    labels: np.ndarray
    notices: list[str] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)


def merge(
    labels: np.ndarray,
    files: Sequence[LabelFile],
    tables: Sequence[Table],
    *,
    columns: Sequence[str],
    identifiers: Sequence[str],
    dates: Collection[str],
    mark: str,
) -> Merged:
    """Add the labels of files to those of a table.

    Parameters
    ----------
    labels : numpy.ndarray
        The target of each row of all tables, "" where it is empty.
    files : list of LabelFile
        The files, in the order in which their labels were given.
    tables : list of Table
        The table, and those that were added to it.
    columns : list of str
        The columns of all tables, whose cells are compared.
    identifiers, dates : list of str
        Columns that are identifiers, and columns that hold dates.
    mark : str
        Marks a row without a label, besides "".

    Returns
    -------
    Merged
        All labels, and notices of those that do not fit.
    """
    finders = [Finder(file, tables[0].columns, identifiers) for file in files]
    compared = [[name for name in columns if name in file.cells] for file in files]
    needed = [name for name in columns if any(name in names for names in compared)] or list(columns[:1])
    found: list[dict[int, tuple[int, str]]] = [{} for _ in files]
    start = 0
    for table in tables:
        for part in table.parts(needed):
            for finder, names, rows in zip(finders, compared, found, strict=True):
                for place, here in finder.pairs(part, numbered=table is tables[0]):
                    other = _difference(finder.file.cells.loc[place, names], part.iloc[here], names, dates)
                    rows[place] = start + here, other
            start += len(part)
    merged = Merged(unmarked(labels, mark).copy())
    answered: set[int] = set()
    for finder, rows in zip(finders, found, strict=True):
        _add(merged, finder, rows, answered)
    merged.labels = np.where(merged.labels == "", labels, merged.labels)  # with the mark, which errors name
    return merged


def _add(merged: Merged, finder: Finder, rows: dict[int, tuple[int, str]], answered: set[int]) -> None:
    """Add the labels of one file; ``rows`` has the row in the table, and a cell that differs, for rows of the file."""
    labels, name = merged.labels, finder.file.name
    classes = {plain(label) for label in set(labels)} - {""}
    problems: dict[str, list[str]] = defaultdict(list)
    new: Counter[str] = Counter()
    changed = known = 0
    for place, label in enumerate(finder.file.labels):
        called = finder.called(place)
        row, other = rows.get(place, (-1, ""))
        if row < 0:
            problems[_ABSENT].append(called)
            continue
        if other:
            problems[_EDITED if finder.keys[place] else _MOVED].append(f"{called} ({other})")
            if not finder.keys[place]:
                continue
        if classes and plain(label) not in classes:
            near = nearest(label, sorted(classes))
            problems[_CLASS].append(f"{label!r} (near {near!r})" if near else repr(label))
            classes.add(plain(label))
        before = labels[row]
        if not before:
            new[label] += 1
        elif plain(before) == plain(label):
            known += 1
        else:
            problems[_TWICE if row in answered else _DIFFERS].append(f"{called} ({before!r}, then {label!r})")
            changed += 1
        labels[row] = label
        answered.add(row)
    if not finder.file.labels:
        merged.notices.append(f"{name}: no row has a label")
    for problem, cases in problems.items():
        more = f" and {len(cases) - 1:,} more" if len(cases) > 1 else ""
        merged.notices.append(f"{name}: {problem}: {cases[0]}{more}")
    counts = dict(sorted(new.items(), key=lambda item: natural(item[0])))
    merged.rounds.append(Round(name, counts, changed, known))


def _difference(given: "pd.Series[Any]", known: "pd.Series[Any]", names: Iterable[str], dates: Collection[str]) -> str:
    """Describe the first cell of a file that is not the table's; "" if all are."""
    for name in names:
        text = text_of(known[name])
        if not alike(given[name], text, date=name in dates):
            return f"{name} is {given[name]!r} and was {text!r}"
    return ""


def alike(given: str, known: str, *, date: bool = False) -> bool:
    """Return whether two texts may be the same cell, written by two programs.

    >>> alike("TRUE", "true"), alike("1.50", "1.5"), alike("1.0000001", "1"), alike("2", "1")
    (True, True, True, False)
    >>> alike("31.01.24", "2024-01-31", date=True), alike("30.01.24", "2024-01-31", date=True)
    (True, False)
    """
    if given.casefold() == known.casefold():
        return True
    for form in (POINT, GROUPS, COMMA):
        pair = [
            exact(cell, value) for cell, value in zip((given, known), numbers_of((given, known), form), strict=True)
        ]
        if not any(map(math.isnan, pair)) and math.isclose(*pair, rel_tol=_DIGITS):
            return True
    return date and _date_numbers(given) == _date_numbers(known) != []


def _date_numbers(text: str) -> list[int]:
    """Return the numbers of a date in any order, its year without the century, without midnight's zeros."""
    return sorted(int(number) % 100 for number in re.findall(r"\d{1,9}", text) if int(number) % 100)
