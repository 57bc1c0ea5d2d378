"""Cells of a table: text, numbers, yes and no, dates."""

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype

MISSING = frozenset({"", "?", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null"})
TRUTH = {"true": 1.0, "yes": 1.0, "t": 1.0, "y": 1.0, "false": 0.0, "no": 0.0, "f": 0.0, "n": 0.0}
TRUTHS = TRUTH | {"1": 1.0, "0": 0.0}
POINT, GROUPS, COMMA = "1000.5", "1,000.5", "1000,5"  # how numbers may be written, the likeliest first
ISO = "ISO8601"

GROUPED_BY_POINTS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+(,\d*)?")

# pandas would also read the word now, digits of other scripts, and -1 as a year.
_LIKE_A_DATE = re.compile(r"(?!(?:now|today)$)[0-9A-Za-z][\t-\r -~]*")
_LONG = re.compile(r"[+-]?[1-9]\d{15,29}", re.ASCII)  # a float may not hold all its digits
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")


def texts(cells: pd.Series) -> np.ndarray:
    """Convert cells to stripped text, "" where one is missing; integers have no decimals, whatever their type.

    >>> texts(pd.Series([1.0, 2.5, None])).tolist(), texts(pd.Series([" a", "NA", True], dtype=object)).tolist()
    (['1', '2.5', ''], ['a', '', 'True'])
    """
    found, places = distinct(cells)
    return np.take(np.array(found, object), places)


def counted(cells: pd.Series) -> dict[str, int]:
    """Count the cells of each text, as `texts` converts them, in the order of their first appearance.

    >>> counted(pd.Series(["b", " a", "a", None, "b"]))
    {'b': 2, 'a': 2}
    """
    found, places = distinct(cells)
    counts: dict[str, int] = {}
    for text, count in zip(found, np.bincount(places, minlength=len(found)).tolist(), strict=True):
        counts[text] = counts.get(text, 0) + count
    counts.pop("", None)
    return counts


def distinct(cells: pd.Series) -> tuple[list[str], np.ndarray]:
    """Convert cells as `texts` does, equal ones only once; return the texts, and for each cell the place of its text.

    Most columns have few distinct cells, so that work on each distinct cell costs little.

    >>> found, places = distinct(pd.Series(["b", "a ", "b", None]))
    >>> found, places.tolist()
    (['b', 'a', ''], [0, 1, 0, 2])
    """
    if infer_dtype(cells) != "string":  # among others, a number may equal a truth value
        return [text_of(cell) for cell in values_of(cells)], np.arange(len(cells))
    places, values = pd.factorize(cells)
    found = [text_of(cell) for cell in np.asarray(values, object)]
    if (missing := places < 0).any():
        places[missing] = len(found)
        found.append("")
    return found, places


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
    found, places = distinct(cells)
    return np.take(numbers_of(found, form), places)


def numbers_of(found: Sequence[str], form: str = POINT) -> np.ndarray:
    """Parse numbers as `numbers` does; NaN for texts that are none."""
    if form != POINT:
        found = [_pointed(text, form) for text in found]
    joined = "".join(found)
    if "_" not in joined and joined.isascii():  # Python would accept 1_000 and ١٢
        with suppress(ValueError):  # the common case, and faster
            return np.fromiter((float(text or "nan") for text in found), np.float64, len(found))
    return np.array([_number(text) for text in found], np.float64)


def _pointed(text: str, form: str) -> str:
    """Write a number of this form with a decimal point; return another text unchanged, or one that is no number."""
    if form == GROUPS:
        return text.replace(",", "") if "," in text and _GROUPED.fullmatch(text) else text
    if "." in text:
        # Without a comma there are three digits after the last point.
        grouped = (text[-4:-3] == "." or "," in text) and GROUPED_BY_POINTS.fullmatch(text)
        text = text.replace(".", "") if grouped else ""
    return text.replace(",", ".")


def _number(text: str) -> float:
    """Parse a number with a decimal point; NaN if it is none."""
    if "_" in text or not text.isascii():
        return math.nan
    try:
        return float(text)
    except ValueError:
        return math.nan


def exact(text: str, value: float) -> float:
    """Return the value of a number, a long integer with all its digits.

    >>> exact("9007199254740993", 9007199254740992.0), exact("2.5", 2.5)
    (9007199254740993, 2.5)
    """
    return int(text) if len(text) > 15 and _LONG.fullmatch(text) else value


def truths(cells: pd.Series) -> np.ndarray:
    """Convert yes and no, true and false, 1 and 0 to numbers, NaN where a cell is none of them.

    >>> truths(pd.Series(["yes", "NO", "", "1"])).tolist()
    [1.0, 0.0, nan, 1.0]
    """
    found, places = distinct(cells)
    return np.take(np.array([TRUTHS.get(text.lower(), math.nan) for text in found], np.float64), places)


def moments(cells: pd.Series, form: str) -> np.ndarray:
    """Convert cells to seconds since 1970, in UTC unless a cell has a time zone; NaN where one is missing or no date.

    >>> (moments(pd.Series(["02.01.1970", "", "now"]), "%d.%m.%Y") / 86400).tolist()
    [1.0, nan, nan]
    """
    if cells.dtype.kind == "M":
        return _seconds(cells, form)
    found, places = distinct(cells)
    return np.take(moments_of(found, form), places)


def moments_of(found: Sequence[str], form: str) -> np.ndarray:
    """Convert texts to seconds as `moments` does."""
    return _seconds(pd.Series([text if _LIKE_A_DATE.fullmatch(text) else "" for text in found], dtype=object), form)


def _seconds(cells: pd.Series, form: str) -> np.ndarray:
    times = pd.to_datetime(cells, format=form, utc=True, errors="coerce")
    return np.asarray((times - datetime(1970, 1, 1, tzinfo=UTC)) / pd.Timedelta(seconds=1), np.float64)


def written_day(form: str) -> str:
    """Write an example of a form of dates.

    >>> written_day("ISO8601"), written_day("%b %d, %Y")
    ('2024-01-31', 'Jan 31, 2024')
    """
    day = datetime(2024, 1, 31, 22, 30)
    return day.date().isoformat() if form == ISO else day.strftime(form)
