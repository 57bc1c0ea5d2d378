"""Columns of a table: the kind of each, and the reading of its cells.

A column holds numbers or dates if at least 95 % of its filled cells do; its other cells count as missing. A column that
has only yes and no, or true and false, holds truth values. Any other column holds categories.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import compress, islice
from typing import Any, Literal

import numpy as np
import pandas as pd

from laddernet.errors import InputError
from laddernet.table.cells import (
    COMMA,
    GROUPED_BY_POINTS,
    GROUPS,
    ISO,
    POINT,
    TRUTH,
    counted,
    exact,
    moments,
    moments_of,
    numbers,
    numbers_of,
    texts,
    truths,
    written_day,
)
from laddernet.table.plain import PlainNumbers, plain_numbers
from laddernet.table.table import listed, with_names

DAY = 86400.0  # seconds
MOST = 0.95  # share of the filled cells that decides the kind of a column

_LONG_DAYS = ("%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d")
_SHORT_DAYS = ("%m/%d/%y", "%d/%m/%y", "%d.%m.%y", "%d-%b-%y")
_DAYS = (*_LONG_DAYS, *_SHORT_DAYS, "%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y")
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_DATES = (ISO, *(day + time for time in _TIMES for day in _DAYS))
_LIKE_A_DATE = re.compile(r"(?=.*\d)(?=.*[-/. ]).{6,40}")
_LIKE_A_CODE = re.compile(r"[+-]?0\d+")
_LIKE_A_KEY = re.compile(r"(^|[^a-z])(id|uuid|guid|key|index|nr|no|number)$")

ENOUGH = 10  # filled cells: a column with fewer is not refused, even if none is of the column's kind

IDENTIFIER = "every value is different, as in an identifier"

Kind = Literal["number", "boolean", "date", "time", "category"]


@dataclass(frozen=True)
class Column:
    """A column that the model uses, and how its cells are written."""

    name: str
    kind: Kind
    form: str = ""  # how its numbers or dates are written

    def read(self, cells: pd.Series) -> np.ndarray:
        """Convert cells to float64 with NaN for missing ones, or to text with ""."""
        if self.kind == "number":
            plain = plain_numbers(cells) if self.form == POINT else None
            return numbers(cells, self.form) if plain is None else plain.values
        if self.kind == "boolean":
            return truths(cells)
        if self.kind == "category":
            return texts(cells)
        return moments(cells, self.form)


def right_cells(column: Column) -> str:
    """Describe the cells of the column's kind."""
    if column.kind == "boolean":
        return "yes or no"
    if column.kind == "number":
        return f"numbers written as {column.form}"
    return f"dates written as {written_day(column.form)}"


def _not_understood(column: Column, cells: np.ndarray) -> str:
    """Write the error message about a column of the model in which no cell is of the column's kind."""
    filled = cells[cells != ""]
    some = ", ".join(map(repr, list(dict.fromkeys(filled))[:2]))
    found = f"not one of its {len(filled):,} filled cells is understood ({some})"
    return f"Column {column.name!r}: {found}; give {right_cells(column)}, as when the model was fitted."


def read_columns(columns: Sequence[Column], frame: pd.DataFrame, unread: Counter[str] | None = None) -> pd.DataFrame:
    """Convert a table's cells for the transformer; ``unread`` counts filled cells that are not of the column's kind."""
    values = {column.name: column.read(frame[column.name]) for column in columns}
    for name, cells in values.items():
        if cells.dtype == object:
            continue
        bad = np.flatnonzero(np.abs(cells) > np.finfo(np.float32).max)
        if len(bad):
            advice = "give a number below 3e38, or leave the cell empty"
            raise InputError(f"Column {name!r} has {cells[bad[0]]} in row {frame.index[bad[0]]}; {advice}.")
        missing = np.isnan(cells)
        if unread is not None and missing.any():
            unread[name] += sum(map(bool, texts(frame[name][missing])))
    # With the type given, since pandas would choose a type of its own for strings.
    return pd.DataFrame({name: pd.Series(cells, dtype=cells.dtype) for name, cells in values.items()})


def read_frame(columns: Sequence[Column], frame: pd.DataFrame, unread: Counter[str] | None = None) -> pd.DataFrame:
    """Convert the columns of a model with `read_columns`, and refuse a frame without one of them.

    A column is also refused if it has `ENOUGH` filled cells and none is of the column's kind.
    """
    frame = with_names(frame, "The table")
    absent = [column.name for column in columns if column.name not in frame.columns]
    if absent:
        raise InputError(f"The table has no column {listed(absent)}; give all that the model was fitted with.")
    odd: Counter[str] = Counter()
    values = read_columns(columns, frame, odd)
    for column in columns:
        if odd[column.name] >= ENOUGH and values[column.name].isna().all():
            raise InputError(_not_understood(column, texts(frame[column.name])))
    if unread is not None:
        unread.update(odd)
    return values


@dataclass
class Survey:
    """Statistics of a column over the rows so far, from which `column` decides its kind."""

    name: str
    rows: int = 0
    filled: int = 0
    few: set[Any] = field(default_factory=set)  # two of its values, or its only one
    seen: set[Any] | None = field(default_factory=set)  # all values; None once one is repeated
    truth: bool = True
    numeric: Counter[str] = field(default_factory=Counter)  # number of cells that are numbers in this form
    whole: bool = True
    code: bool = False  # whether a number is written as 007
    low: float = math.inf
    high: float = -math.inf
    dates: dict[str, int] | None = None  # number of cells that are dates in this form
    timed: bool = False
    words: dict[str, dict[str, None]] = field(default_factory=dict)  # some cells that are not numbers in this form

    def add(self, cells: pd.Series) -> None:
        """Add the next rows."""
        self.rows += len(cells)
        if cells.dtype.kind in "iuf":
            whole = cells.dtype.kind != "f"  # as floats, different long integers could be equal
            given = cells.dropna().to_numpy(f"{cells.dtype.kind}8") if whole else numbers(cells)
            given = given[~np.isnan(given)]
            values = np.unique(given).tolist()
            self._add_values(values, len(given))
            self._add_numbers(values)
            self.truth = False
            self.numeric.update(dict.fromkeys((POINT, GROUPS, COMMA), len(given)))
            return
        plain = plain_numbers(cells)
        if plain is not None and not plain.long:
            self._add_plain(plain)
            return
        counts = counted(cells)
        if not counts:
            return
        found, times = list(counts), np.fromiter(counts.values(), np.int64, len(counts))
        self._add_values(found, int(times.sum()))
        self.truth = self.truth and all(text.lower() in TRUTH for text in found)
        for form in (POINT, GROUPS, COMMA):
            values = numbers_of(found, form)
            read = ~np.isnan(values)
            self.numeric[form] += int(times[read].sum())
            unread = list(compress(found, ~read))
            self.words.setdefault(form, {}).update(dict.fromkeys(unread[:5]))
            if form == POINT:
                written = list(compress(found, read))
                self.code = self.code or any(map(_LIKE_A_CODE.fullmatch, written))
                self._add_numbers(list(map(exact, written, values[read].tolist())))
                if unread:
                    self._add_dates(unread, times[~read])

    def _add_plain(self, plain: PlainNumbers) -> None:
        """Add what `add` does of the distinct texts, which may be as many as there are rows, without listing them."""
        count = len(plain.texts)
        if not count:
            return
        values = plain.values[~np.isnan(plain.values)]
        broken = values[values != np.floor(values)]
        self._add_numbers([float(values.min()), float(values.max()), *broken[:1].tolist()])
        self._add_values(plain.first(2 if self.seen is None else count), count)
        self.truth = False
        self.code = self.code or bool(plain.like(_LIKE_A_CODE.pattern).any())
        with_point_only = plain.like(r".*\..*") & ~plain.like(GROUPED_BY_POINTS.pattern)
        self.numeric.update({POINT: count, GROUPS: count, COMMA: count - int(with_point_only.sum())})
        self.words.setdefault(COMMA, {}).update(dict.fromkeys(plain.first(5, with_point_only)))

    def _add_values(self, values: Collection[Any], total: int) -> None:
        self.filled += total
        self.few = set(islice({*self.few, *islice(values, 2)}, 2))
        if self.seen is not None:
            self.seen.update(values)
            if len(self.seen) < self.filled:
                self.seen = None

    def _add_numbers(self, values: list[float]) -> None:
        if values:
            self.whole = self.whole and all(value % 1 == 0 for value in values)
            self.seen = self.seen if self.whole else None  # no identifier, so the values are not needed
            self.low, self.high = min(self.low, *values), max(self.high, *values)

    def _add_dates(self, found: list[str], times: np.ndarray) -> None:
        if self.dates is None:  # the first texts decide which forms are tried
            some = found[:200]
            likely = sum(map(bool, map(_LIKE_A_DATE.fullmatch, some))) >= MOST * len(some)
            self.dates = dict.fromkeys(_DATES if likely else (), 0)
            self.dates = {form: 0 for form in self.dates if np.mean(np.isnan(moments_of(some, form))) <= 1 - MOST}
        for form in self.dates:
            seconds = moments_of(found, form)
            read = ~np.isnan(seconds)
            self.dates[form] += int(times[read].sum())
            self.timed = self.timed or bool(np.any(seconds[read] % DAY))

    def column(self, *, category: bool = False, use: bool = False) -> Column | str:
        """Decide the kind of the column; if the column cannot be used, return the reason."""
        enough = MOST * self.filled
        if not self.filled:
            return "empty"
        if len(self.few) == 1 and self.filled == self.rows:
            return "one value only"
        if category:
            return Column(self.name, "category")
        if self.truth:
            return Column(self.name, "boolean")
        form = self._number_form()
        if self.numeric[form] >= enough and not self.code:
            counted = self.filled >= 10 and self.high - self.low + 1 == self.filled
            named = _LIKE_A_KEY.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.name).lower())
            if self.whole and self.seen and (counted or named) and not use:
                return IDENTIFIER
            return Column(self.name, "number", form)
        written = next((form for form, read in (self.dates or {}).items() if read >= enough), None)
        if written:
            return Column(self.name, "time" if self.timed else "date", written)
        if self.seen and not use:
            return IDENTIFIER
        return Column(self.name, "category")

    def _number_form(self) -> str:
        """Choose the form in which most cells are numbers, the likeliest if equal: 1.234 alone is not 1234."""
        return max((POINT, GROUPS, COMMA), key=self.numeric.__getitem__)

    def notice(self, column: Column) -> str | None:
        """Return a notice of cells that count as missing, or of a form that is ambiguous; None if there is neither."""
        form = column.form if column.kind == "number" else self._number_form()
        words = listed(list(self.words.get(form, ())), 3)
        if column.kind == "category" and not self.code:
            share = self.numeric[form] / self.filled
            if 0.5 <= share < MOST:
                return f"{column.name}: {share:.0%} of the cells are numbers; because of {words} they are categories"
        if column.kind == "number" and self.numeric[column.form] < self.filled:
            return f"{column.name}: {_odd(self.filled - self.numeric[column.form], 'number', words)}"
        if column.kind in ("date", "time") and self.dates:
            if self.dates[column.form] < self.filled:
                return f"{column.name}: {_odd(self.filled - self.dates[column.form], 'date')}"
            swapped = column.form.translate(str.maketrans("md", "dm"))
            if swapped != column.form and self.dates.get(swapped) == self.filled:
                return f"{column.name}: day and month cannot be told apart; read as {column.form}"
        return None


def _odd(count: int, kind: str, words: str = "") -> str:
    """
    >>> _odd(1, "date"), _odd(2, "number", "'a', 'b'")
    ('1 cell is not a date and counts as missing', "2 cells are not numbers ('a', 'b') and count as missing")
    """
    shown = f" ({words})" if words else ""
    if count == 1:
        return f"1 cell is not a {kind}{shown} and counts as missing"
    return f"{count:,} cells are not {kind}s{shown} and count as missing"
