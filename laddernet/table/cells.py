"""Cells of a table: text, numbers, yes and no, dates."""

import math
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

MISSING = frozenset({"", "?", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null"})
TRUTH = {"true": 1.0, "yes": 1.0, "t": 1.0, "y": 1.0, "false": 0.0, "no": 0.0, "f": 0.0, "n": 0.0}
POINT, GROUPS, COMMA = "1000.5", "1,000.5", "1000,5"  # how numbers may be written, the likeliest first
ISO = "ISO8601"

# pandas would also read the word now, digits of other scripts, and -1 as a year.
_LIKE_A_DATE = re.compile(r"(?!(?:now|today)$)[0-9A-Za-z][\t-\r -~]*")
_BITS = {"1": 1.0, "0": 0.0}
_LONG = re.compile(r"[+-]?[1-9]\d{15,29}", re.ASCII)  # a float may not hold all its digits
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
_GROUPED_BY_POINTS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+(,\d*)?")


def texts(cells: pd.Series) -> np.ndarray:
    """Convert cells to stripped text, "" where one is missing; integers have no decimals, whatever their type.

    >>> texts(pd.Series([1.0, 2.5, None])).tolist(), texts(pd.Series([" a", "NA", True], dtype=object)).tolist()
    (['1', '2.5', ''], ['a', '', 'True'])
    """
    out = np.empty(len(cells), object)
    out[:] = [text_of(cell) for cell in values_of(cells)]
    return out


def values_of(cells: pd.Series) -> list[Any]:
    """Convert cells to values that have exactly the digits of their type; None where one is missing.

    >>> values_of(pd.Series([2**53 + 1, None], dtype="Int64")), str(values_of(pd.Series([0.1], dtype="f4"))[0])
    ([9007199254740993, None], '0.1')
    """
    kept = getattr(cells.dtype, "numpy_dtype", cells.dtype)  # of a type of pandas or Arrow
    if kept in (np.float16, np.float32):  # a Python float would show more digits than these have
        return [None if np.isnan(value) else value for value in cells.to_numpy(kept, na_value=np.nan)]
    return list(cells.to_numpy(object, na_value=None))


def text_of(cell: Any) -> str:
    """Convert a cell to stripped text, or to "" if it is missing.

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
    """Decode UTF-8; other bytes become escapes, so that different bytes stay different."""
    return cell.decode("utf-8", errors="backslashreplace")


def numbers(cells: pd.Series, form: str = POINT) -> np.ndarray:
    """Convert cells to numbers, NaN where one is missing or not a number; ``form`` shows how 1000.5 is written.

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
    if form == POINT:
        try:  # the common case, and much faster
            text = "".join(values)
            if "_" not in text and text.isascii():
                return np.asarray(values.astype(np.float64))
        except (ValueError, TypeError):
            pass
    return np.array([_number(text_of(cell), form) for cell in values], np.float64)


def _number(text: str, form: str = POINT) -> float:
    """Parse a number; NaN if it is none."""
    if form == COMMA:
        if _GROUPED_BY_POINTS.fullmatch(text):
            text = text.replace(".", "")
        text = "" if "." in text else text.replace(",", ".")
    elif form == GROUPS and _GROUPED.fullmatch(text):
        text = text.replace(",", "")
    if "_" in text or not text.isascii():  # Python would accept 1_000 and ١٢
        return math.nan
    try:
        return float(text)
    except ValueError:
        return math.nan


def exact_number(text: str, form: str) -> float:
    """Parse a number as `_number` does; a long integer stays an integer, with all its digits."""
    return int(text) if _LONG.fullmatch(text) else _number(text, form)


def truths(cells: pd.Series) -> np.ndarray:
    """Convert yes and no, true and false, 1 and 0 to numbers, NaN where a cell is none of them.

    >>> truths(pd.Series(["yes", "NO", "", "1"])).tolist()
    [1.0, 0.0, nan, 1.0]
    """
    known = TRUTH | _BITS
    return np.array([known.get(text.lower(), math.nan) for text in texts(cells)], np.float64)


def moments(cells: pd.Series, form: str) -> np.ndarray:
    """Convert cells to seconds since 1970, in UTC unless a cell has a time zone; NaN where one is missing or no date.

    >>> (moments(pd.Series(["02.01.1970", "", "now"]), "%d.%m.%Y") / 86400).tolist()
    [1.0, nan, nan]
    """
    if cells.dtype.kind != "M":
        cells = pd.Series([text if _LIKE_A_DATE.fullmatch(text) else "" for text in texts(cells)], dtype=object)
    times = pd.to_datetime(cells, format=form, utc=True, errors="coerce")
    return np.asarray((times - datetime(1970, 1, 1, tzinfo=UTC)) / pd.Timedelta(seconds=1), np.float64)


def written_day(form: str) -> str:
    """Write an example of a form of dates.

    >>> written_day("ISO8601"), written_day("%b %d, %Y")
    ('2024-01-31', 'Jan 31, 2024')
    """
    day = datetime(2024, 1, 31, 22, 30)
    return day.date().isoformat() if form == ISO else day.strftime(form)
