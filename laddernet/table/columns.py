"""From a table's cells to numbers: what each column is, and the scikit-learn transformer that is learned from it.

A column is what at least 95 % of its filled cells are: numbers or dates; the other cells of such a column count as
missing. A column of nothing but yes and no, or true and false, holds truth values. Any other one holds categories.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import islice
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from laddernet.errors import InputError
from laddernet.table.read import listed

MISSING = frozenset({"", "?", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null"})
MOST = 0.95  # of the filled cells must be what the column is
CATEGORIES = 50  # inputs that one column may become

_TRUTH = {"true": 1.0, "yes": 1.0, "t": 1.0, "y": 1.0, "false": 0.0, "no": 0.0, "f": 0.0, "n": 0.0}
_BITS = {"1": 1.0, "0": 0.0}
_POINT, _GROUPS, _COMMA = "1000.5", "1,000.5", "1000,5"  # how numbers may be written, the likeliest first
_ISO = "ISO8601"
_LONG_DAYS = ("%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d")
_SHORT_DAYS = ("%m/%d/%y", "%d/%m/%y", "%d.%m.%y", "%d-%b-%y")
_DAYS = (*_LONG_DAYS, *_SHORT_DAYS, "%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y")
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_DATES = (_ISO, *(day + time for time in _TIMES for day in _DAYS))
_LIKE_A_DATE = re.compile(r"(?=.*\d)(?=.*[-/. ]).{6,40}")
_LIKE_A_CODE = re.compile(r"[+-]?0\d+")
_LONG = re.compile(r"[+-]?[1-9]\d{15,29}", re.ASCII)  # a float may not hold it
_LIKE_A_KEY = re.compile(r"(^|[^a-z])(id|uuid|guid|key|index|nr|no|number)$")
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
_GROUPED_BY_POINTS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+(,\d*)?")
_DAY = 86400.0
_RARE = "\0rare"  # the category of no cell that a person would write

Kind = Literal["number", "boolean", "date", "time", "category"]
Arrays = dict[str, np.ndarray]
About = dict[str, Any]


# --- Cells ------------------------------------------------------------------------------------------------------


def texts(cells: pd.Series) -> np.ndarray:
    """Cells as text, stripped, with "" where one is missing; whole numbers have no decimals, whatever their type.

    >>> texts(pd.Series([1.0, 2.5, None])).tolist(), texts(pd.Series([" a", "NA", True], dtype=object)).tolist()
    (['1', '2.5', ''], ['a', '', 'True'])
    """
    out = np.empty(len(cells), object)
    out[:] = [text_of(cell) for cell in values_of(cells)]
    return out


def values_of(cells: pd.Series) -> list[Any]:
    """Cells as values that keep all digits, and no more digits than they have; None where one is missing.

    >>> values_of(pd.Series([2**53 + 1, None], dtype="Int64")), str(values_of(pd.Series([0.1], dtype="f4"))[0])
    ([9007199254740993, None], '0.1')
    """
    kept = getattr(cells.dtype, "numpy_dtype", cells.dtype)  # which pandas' and Arrow's types stand for
    if kept in (np.float16, np.float32):  # Python's floats would show digits that these do not have
        return [None if np.isnan(value) else value for value in cells.to_numpy(kept, na_value=np.nan)]
    return list(cells.to_numpy(object, na_value=None))


def text_of(cell: Any) -> str:
    """A cell as text, stripped, or "" if it is missing.

    >>> text_of(-1.0), text_of(b"cat"), text_of("NA")
    ('-1', 'cat', '')
    """
    if isinstance(cell, bytes):
        cell = decoded(cell)
    if isinstance(cell, str):
        cell = cell.strip()
        return "" if cell in MISSING else cell
    if cell is None or cell is pd.NaT:
        return ""
    if isinstance(cell, float | np.floating):
        return "" if math.isnan(cell) else str(int(cell)) if float(cell).is_integer() else str(cell)
    if isinstance(cell, date):  # or a date with a time
        return cell.isoformat()
    if isinstance(cell, Decimal) and cell.is_nan():
        return ""
    return str(cell).strip()


def decoded(cell: bytes) -> str:
    """Bytes as text; what is not UTF-8 stays apart from all else."""
    return cell.decode("utf-8", errors="backslashreplace")


def numbers(cells: pd.Series, form: str = _POINT) -> np.ndarray:
    """Cells as numbers, NaN where one is missing or no number; ``form`` is how 1000.5 would be written.

    >>> numbers(pd.Series(["1e3", " 2 ", "", "two"])).tolist()
    [1000.0, 2.0, nan, nan]
    >>> numbers(pd.Series(["1,5", "2"]), "1000,5").tolist(), numbers(pd.Series(["1,500", "2"]), "1,000.5").tolist()
    ([1.5, 2.0], [1500.0, 2.0])
    >>> numbers(pd.Series(["1.234,56", "1.500", "1.5"]), "1000,5").tolist()
    [1234.56, 1500.0, nan]
    """
    if cells.dtype.kind in "iufb":
        return np.asarray(cells.to_numpy(np.float64, na_value=np.nan))
    values = cells.to_numpy(object, na_value=None)
    if form == _POINT:
        try:  # the common case, many times as fast
            text = "".join(values)
            if "_" not in text and text.isascii():
                return np.asarray(values.astype(np.float64))
        except (ValueError, TypeError):
            pass
    return np.array([_number(text_of(cell), form) for cell in values], np.float64)


def _number(text: str, form: str = _POINT) -> float:
    if form == _COMMA:
        if _GROUPED_BY_POINTS.fullmatch(text):
            text = text.replace(".", "")
        text = "" if "." in text else text.replace(",", ".")
    elif form == _GROUPS and _GROUPED.fullmatch(text):
        text = text.replace(",", "")
    if "_" in text or not text.isascii():  # which Python takes for numbers, and people do not
        return math.nan
    try:
        return float(text)
    except ValueError:
        return math.nan


def _exact(text: str, form: str) -> float:
    """As `_number`, but a long whole number stays whole, with all its digits."""
    return int(text) if _LONG.fullmatch(text) else _number(text, form)


def truths(cells: pd.Series) -> np.ndarray:
    """
    >>> truths(pd.Series(["yes", "NO", "", "1"])).tolist()
    [1.0, 0.0, nan, 1.0]
    """
    known = _TRUTH | _BITS
    return np.array([known.get(text.lower(), math.nan) for text in texts(cells)], np.float64)


def moments(cells: pd.Series, form: str) -> np.ndarray:
    """Cells as seconds since 1970, in UTC unless they say otherwise; NaN where one is missing or no date.

    >>> (moments(pd.Series(["02.01.1970", "", "x"]), "%d.%m.%Y") / 86400).tolist()
    [1.0, nan, nan]
    """
    if cells.dtype.kind != "M":
        cells = pd.Series(texts(cells), dtype=object)
    times = pd.to_datetime(cells, format=form, utc=True, errors="coerce")
    return np.asarray((times - datetime(1970, 1, 1, tzinfo=UTC)) / pd.Timedelta(seconds=1), np.float64)


def written_day(form: str) -> str:
    """A day in a form of dates, as an example.

    >>> written_day("ISO8601"), written_day("%b %d, %Y")
    ('2024-01-31', 'Jan 31, 2024')
    """
    day = datetime(2024, 1, 31, 22, 30)
    return day.date().isoformat() if form == _ISO else day.strftime(form)


# --- Columns ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A column that the model uses, and how its cells are read."""

    name: str
    kind: Kind
    form: str = ""  # how its numbers or dates are written

    def read(self, cells: pd.Series) -> np.ndarray:
        """The cells as float64 with NaN for what is missing, or as text with "" for that."""
        if self.kind == "number":
            return numbers(cells, self.form)
        if self.kind == "boolean":
            return truths(cells)
        if self.kind == "category":
            return texts(cells)
        return moments(cells, self.form)


def read_columns(columns: Sequence[Column], frame: pd.DataFrame, unread: Counter[str] | None = None) -> pd.DataFrame:
    """A table's cells as the transformer takes them; ``unread`` counts those that are filled and not understood."""
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
    # With its type spelt out, for pandas has a type of its own for Python's strings.
    return pd.DataFrame({name: pd.Series(cells, dtype=cells.dtype) for name, cells in values.items()})


@dataclass
class Survey:
    """What has been seen of a column so far."""

    name: str
    rows: int = 0
    filled: int = 0
    few: set[Any] = field(default_factory=set)  # two of its values, or one if it has only one
    seen: set[Any] | None = field(default_factory=set)  # all values; None once one has come twice
    truth: bool = True
    numeric: Counter[str] = field(default_factory=Counter)  # how many numbers it has if they are written in this form
    whole: bool = True
    code: bool = False  # a number is written as 007
    low: float = math.inf
    high: float = -math.inf
    dates: dict[str, int] | None = None  # how many dates it has if they are written in this form
    timed: bool = False
    words: dict[str, dict[str, None]] = field(default_factory=dict)  # some cells that are no numbers in this form

    def add(self, cells: pd.Series) -> None:
        """Take in the next rows."""
        self.rows += len(cells)
        if cells.dtype.kind in "iuf":
            whole = cells.dtype.kind != "f"  # as floats, long whole numbers that differ would be one number
            given = cells.dropna().to_numpy(f"{cells.dtype.kind}8") if whole else numbers(cells)
            given = given[~np.isnan(given)]
            values = np.unique(given).tolist()
            self._add_values(values, len(given))
            self._add_numbers(values)
            self.truth = False
            self.numeric.update(dict.fromkeys((_POINT, _GROUPS, _COMMA), len(given)))
            return
        found = Counter(texts(cells))
        found.pop("", None)
        if not found:
            return
        self._add_values(found, found.total())
        self.truth = self.truth and all(text.lower() in _TRUTH for text in found)
        for form in (_POINT, _GROUPS, _COMMA):
            read = {text: number for text in found if not math.isnan(number := _exact(text, form))}
            self.numeric[form] += sum(found[text] for text in read)
            unread = [text for text in found if text not in read]
            self.words.setdefault(form, {}).update(dict.fromkeys(unread[:5]))
            if form == _POINT:
                self.code = self.code or any(map(_LIKE_A_CODE.fullmatch, read))
                self._add_numbers(list(read.values()))
                if unread:
                    self._add_dates({text: found[text] for text in unread})

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
            self.seen = self.seen if self.whole else None  # no identifier, so it need not be remembered
            self.low, self.high = min(self.low, *values), max(self.high, *values)

    def _add_dates(self, found: dict[str, int]) -> None:
        if self.dates is None:  # the first words decide which forms are worth trying
            some = list(islice(found, 200))
            likely = sum(map(bool, map(_LIKE_A_DATE.fullmatch, some))) >= MOST * len(some)
            self.dates = dict.fromkeys(_DATES if likely else (), 0)
            self.dates = {form: 0 for form in self.dates if np.mean(np.isnan(_moments(some, form))) <= 1 - MOST}
        for form in self.dates:
            seconds = _moments(list(found), form)
            read = ~np.isnan(seconds)
            self.dates[form] += sum(times for times, good in zip(found.values(), read, strict=True) if good)
            self.timed = self.timed or bool(np.any(seconds[read] % _DAY))

    def column(self, *, category: bool = False, use: bool = False) -> Column | str:
        """What the column is; or, if it is of no use, why."""
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
                return "every value is different, as in an identifier"
            return Column(self.name, "number", form)
        written = next((form for form, read in (self.dates or {}).items() if read >= enough), None)
        if written:
            return Column(self.name, "time" if self.timed else "date", written)
        if self.seen and not use:
            return "every value is different, as in an identifier"
        return Column(self.name, "category")

    def _number_form(self) -> str:
        """In which form most cells are numbers, the likeliest of those: 1.234 alone is not 1234."""
        return max((_POINT, _GROUPS, _COMMA), key=self.numeric.__getitem__)

    def notice(self, column: Column) -> str | None:
        """What a user should know of how the column was taken."""
        form = column.form if column.kind == "number" else self._number_form()
        words = listed(list(self.words.get(form, ())), 3)
        if column.kind == "category" and not self.code:
            share = self.numeric[form] / self.filled
            if 0.5 <= share < MOST:
                return f"{column.name}: {share:.0%} of its cells are numbers; because of {words} it holds categories"
        if column.kind == "number" and self.numeric[column.form] < self.filled:
            odd = f"{self.filled - self.numeric[column.form]:,} of its cells"
            return f"{column.name}: {odd} are no numbers ({words}) and count as missing"
        if column.kind in ("date", "time") and self.dates:
            if self.dates[column.form] < self.filled:
                odd = f"{self.filled - self.dates[column.form]:,} of its cells"
                return f"{column.name}: {odd} are no dates and count as missing"
            swapped = column.form.translate(str.maketrans("md", "dm"))
            if swapped != column.form and self.dates.get(swapped) == self.filled:
                return f"{column.name}: day and month could be either way round, and are read as {column.form}"
        return None


def _moments(cells: list[str], form: str) -> np.ndarray:
    return moments(pd.Series(cells, dtype=object), form)


# --- The transformer --------------------------------------------------------------------------------------------


def date_parts(seconds: Any, since: Sequence[float], timed: bool) -> np.ndarray:
    """Year, month, day of the week and of the year, days since a first day and, if ``timed``, the hour.

    >>> date_parts([[86400.0]], since=[0.0], timed=False).tolist()  # 2 January 1970, a Friday
    [[1970.0, 1.0, 4.0, 2.0, 1.0]]
    """
    seconds = np.asarray(seconds, np.float64)
    days = np.floor(seconds / _DAY).astype(np.int64)
    day = days.astype("datetime64[D]")
    year, month = day.astype("datetime64[Y]"), day.astype("datetime64[M]").astype(np.int64)
    parts = [
        year.astype(np.int64) + 1970,
        month % 12 + 1,
        (days + 3) % 7,
        (day - year).astype(np.int64) + 1,
        (seconds - np.asarray(since)) / _DAY,
        seconds % _DAY / 3600,
    ]
    return np.hstack(parts if timed else parts[:-1]).astype(np.float64)


def _date_names(transformer: FunctionTransformer, names: Iterable[str]) -> list[str]:
    parts = ["year", "month", "weekday", "day of year", "days"] + ["hour"] * transformer.kw_args["timed"]
    return [f"{name} {part}" for part in parts for name in names]


def _untrained(columns: Sequence[Column], since: dict[str, float], rare: int) -> ColumnTransformer:
    """The transformer before it has seen a table; categories of fewer than ``rare`` rows are pooled."""
    named: dict[str, list[str]] = {"number": [], "boolean": [], "date": [], "time": [], "category": []}
    for column in columns:
        named[column.kind].append(column.name)
    steps: list[tuple[str, Any, list[str]]] = [
        ("numbers", SimpleImputer(strategy="median", add_indicator=True), named["number"] + named["boolean"]),
    ]
    for kind, timed in (("date", False), ("time", True)):
        options = {"since": [since[name] for name in named[kind]], "timed": timed}
        parts = FunctionTransformer(date_parts, kw_args=options, feature_names_out=_date_names)
        steps.append(
            (f"{kind}s", Pipeline([("fill", SimpleImputer(strategy="median")), ("parts", parts)]), named[kind])
        )
    steps.append(("missing dates", MissingIndicator(error_on_new=False), named["date"] + named["time"]))
    encoder = OneHotEncoder(
        handle_unknown="infrequent_if_exist",
        min_frequency=rare,
        max_categories=CATEGORIES,
        sparse_output=False,
    )
    steps.append(("categories", encoder, named["category"]))
    return ColumnTransformer([step for step in steps if step[2]], sparse_threshold=0)


def rare_below(rows: int) -> int:
    """A category of fewer rows than this is rare: ten, or in a small table one in a hundred, but two at least."""
    return min(max(rows // 100, 2), 10)


def learn(columns: Sequence[Column], frame: pd.DataFrame) -> ColumnTransformer:
    """The transformer of a table that :func:`read_columns` has read."""
    since = {column.name: frame[column.name].min() for column in columns if column.kind in ("date", "time")}
    return _untrained(columns, since, rare_below(len(frame))).fit(frame)


def state(columns: Sequence[Column], transformer: ColumnTransformer) -> tuple[Arrays, About]:
    """What the transformer has learned, in arrays and in values for JSON. Rare categories are not named in it."""
    medians: dict[str, float] = {}
    missing: set[str] = set()
    about: About = {"rare": 2, "since": {}, "categories": {}}
    for step, learned, names in transformer.transformers_:
        if step == "numbers":
            medians |= dict(zip(names, learned.statistics_, strict=True))
            missing |= {names[place] for place in learned.indicator_.features_}
        elif step in ("dates", "times"):
            medians |= dict(zip(names, learned["fill"].statistics_, strict=True))
            about["since"] |= dict(zip(names, map(float, learned["parts"].kw_args["since"]), strict=True))
        elif step == "missing dates":
            missing |= {names[place] for place in learned.features_}
        elif step == "categories":
            about["rare"] = learned.min_frequency
            for name, found, pooled in zip(names, learned.categories_, learned.infrequent_categories_, strict=True):
                rare = set() if pooled is None else set(pooled)
                about["categories"][name] = {"kept": [c for c in found if c not in rare], "pooled": len(rare)}
    arrays = {
        "medians": np.array([medians.get(column.name, np.nan) for column in columns]),
        "missing": np.array([column.name in missing for column in columns]),
    }
    return arrays, about


def restore(columns: Sequence[Column], arrays: Arrays, about: About) -> ColumnTransformer:
    """The transformer of which :func:`state` told.

    It is learned anew, from a small table that is made to teach the same: what an estimator of scikit-learn keeps
    inside is another thing in each of its versions, what it learns from a table is not.
    """
    cells: dict[str, list[str]] = {}
    for name, known in about["categories"].items():
        cells[name] = [category for category in known["kept"] for _ in range(about["rare"])]
        cells[name] += [_RARE] * bool(known["pooled"])
    rows = max([2, *map(len, cells.values())])
    table = {}
    for column, median, missing in zip(columns, arrays["medians"], arrays["missing"], strict=True):
        if column.kind == "category":
            padded = cells[column.name] + cells[column.name][:1] * (rows - len(cells[column.name]))
            table[column.name] = pd.Series(padded, dtype=object)
        else:
            table[column.name] = pd.Series([*[median] * (rows - 1), np.nan if missing else median])
    return _untrained(columns, about["since"], about["rare"]).fit(pd.DataFrame(table))
