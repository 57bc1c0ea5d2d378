import math
import re
from datetime import UTC, datetime
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laddernet.table import cells, columns
from laddernet.table.spellings import NUMBERS, QUANTITIES, TINY, WHITE, bits, strict, truth

# Characters of dates and numbers, and some that are not.
_ALPHABET = "0123456789.,:-+/ \\TZeEinfaJMyYpPs_'\t\xa0٣ä"


def mangled(texts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Texts, texts of which a character was changed, left out or added, and any others."""

    def change(text: str, place: int, character: str, how: int) -> str:
        place %= len(text) + 1
        return text[:place] + character * (how > 0) + text[place + (how < 2) :]

    changed = st.builds(change, texts, st.integers(0, 40), st.sampled_from(_ALPHABET), st.integers(0, 2))
    return st.one_of(texts, texts, changed, st.text(_ALPHABET, max_size=20))


def as_cell(text: str) -> str:
    """What the other functions are given: a cell without the white space around it, "" if it is missing."""
    return cells.text_of(text)


FLOATS = st.floats(-1e12, 1e12).map(repr)


def grouped(number: float, point: str, comma: str) -> str:
    return f"{number:,.2f}".replace(",", "_").replace(".", point).replace("_", comma)


NUMBER_TEXTS = {
    cells.POINT: FLOATS,
    cells.GROUPS: st.one_of(FLOATS, st.floats(-1e9, 1e9).map(lambda n: grouped(n, ".", ","))),
    cells.COMMA: st.one_of(
        FLOATS.map(lambda text: text.replace(".", ",")), st.floats(-1e9, 1e9).map(lambda n: grouped(n, ",", "."))
    ),
}


@pytest.mark.parametrize("form", NUMBERS)
@settings(max_examples=20)
@given(data=st.data())
def test_the_expressions_match_the_numbers_that_are_read(form: str, data: st.DataObject) -> None:
    texts = data.draw(st.lists(mangled(NUMBER_TEXTS[form]).map(as_cell), min_size=20, max_size=40))
    read = cells.numbers(pd.Series(texts, dtype=object), form)
    numbers = {text: not math.isnan(number) for text, number in zip(texts, read, strict=True)}
    assert {text: bool(re.fullmatch(NUMBERS[form], text)) for text in texts} == numbers


@given(st.from_regex(TINY, fullmatch=True, alphabet="0123456789.e-"))
def test_numbers_that_count_as_zero_are_no_larger_than_the_smallest_that_a_network_could_see(text: str) -> None:
    number = cells.numbers(pd.Series([text], dtype=object))[0]
    digits = len(text)
    assert math.isnan(number) or abs(number) < 10.0 ** (digits - 300)


def test_the_truth_values_are_those_that_are_read() -> None:
    mixtures = [
        "".join(letters)
        for word in cells.TRUTHS
        for letters in product(*({letter.lower(), letter.upper()} for letter in word))
    ]
    assert len(mixtures) == 70
    texts = [*mixtures, "", "10", "yess", "ye", "nO!", "ſ", "yeſ"]
    read = cells.truths(pd.Series(texts, dtype=object))
    assert np.isfinite(read).sum() == len(mixtures)
    for value in (1, 0):
        matches = [bool(re.fullmatch(truth(value), text)) for text in texts]
        np.testing.assert_array_equal(matches, read == value)


def test_white_space_is_what_python_strips() -> None:
    characters = "".join(map(chr, range(0x110000)))
    assert re.findall(f"[ {WHITE}]", characters) == [character for character in characters if character.isspace()]


# --- Dates ------------------------------------------------------------------------------------------------------------

FORMS = [
    cells.ISO,
    "%d.%m.%Y",
    "%m/%d/%y",
    "%b %d, %Y",
    "%d %B %Y %H:%M",
    "%d-%b-%y %I:%M:%S %p",
    "%Y/%m/%d %H:%M:%S",
]
_TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))


def iso(moment: datetime, cut: int, separator: str, between: str, zone: str) -> str:
    text = f"{moment.year:04}{moment:-%m-%dT%H:%M:%S.%f}".replace("-", separator).replace("T", between)
    return text[: [4, 7, 10, 13, 16, 19, 23, 26][cut]] + zone * (cut > 2)


ISO_TEXTS = st.one_of(
    st.builds(
        iso,
        _TIMES,
        st.integers(0, 7),
        st.sampled_from("-./\\ "),
        st.sampled_from("T "),
        st.sampled_from(["", "", "Z", "+01:00", " -0530", "+2", "+123", "-1:5"]),
    ),
    st.builds("{0.year:04}{0:%m%dT%H%M%S}".format, _TIMES),
    st.builds("{0.year}-{0.month}-{0.day} {0.hour}:{0.minute}".format, _TIMES),
)


def written(form: str) -> st.SearchStrategy[str]:
    if form == cells.ISO:
        return ISO_TEXTS
    padded = _TIMES.map(lambda moment: moment.strftime(form))
    return st.one_of(padded, padded.map(lambda text: re.sub(r"\b0(?=\d)", "", text)), padded.map(str.lower))


@cache
def expressions(form: str) -> dict[tuple[str, float], re.Pattern[str]]:
    return {number: re.compile(pattern) for number, pattern in bits(form).items()}


def moment_by_parts(form: str, text: str) -> float:
    """Read a date by the expressions, with the calendar of Python."""
    if not re.fullmatch(strict(form), text):
        return math.nan
    found = dict.fromkeys(QUANTITIES, 0.0)
    for (quantity, value), pattern in expressions(form).items():
        found[quantity] += value if pattern.fullmatch(text) else 0
    year = int(found["year"])
    if not year and form != cells.ISO:
        return math.nan
    years = 400 if year < 400 else 0  # after which the calendar repeats; Python's begins with the year 1
    try:
        day = datetime(year + years, int(found["month"]) + 1, int(found["day"]) + 1, tzinfo=UTC)
    except ValueError:
        return math.nan
    zone = found["offset"] * (1 - 2 * found["west"])
    days = (day - datetime(1970, 1, 1, tzinfo=UTC)).days - (146097 if years else 0)
    return days * columns.DAY + found["seconds"] - zone


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=12)
@given(data=st.data())
def test_the_parts_of_a_date_make_the_moment_that_pandas_reads(form: str, data: st.DataObject) -> None:
    texts = data.draw(st.lists(mangled(written(form)).map(as_cell), min_size=20, max_size=40))
    read = cells.moments(pd.Series(texts, dtype=object), form)
    # What pandas reads and `moments` does not is no matter of the form.
    given = [text if re.fullmatch(r"[0-9A-Za-z][\t-\r -~]*", text) else "" for text in texts]
    made = [moment_by_parts(form, text) for text in given]
    assert dict(zip(texts, made, strict=True)) == pytest.approx(
        dict(zip(texts, read, strict=True)), abs=1e-4, nan_ok=True
    )


@pytest.mark.parametrize(
    "text",
    [
        "2024-02-30",
        "1900-02-29",
        "2000-02-29",
        "0000-05-05",
        "2024-1",
        "2024-01-31 9",
        "2024-01-31 1:30 +1:3",
        "202401",
    ],
)
def test_odd_dates_are_read_as_pandas_reads_them(text: str) -> None:
    read = cells.moments(pd.Series([text], dtype=object), cells.ISO)[0]
    assert moment_by_parts(cells.ISO, text) == pytest.approx(read, nan_ok=True)


def test_every_form_of_dates_that_a_column_may_have_can_be_read() -> None:
    for form in columns._DATES:
        moment = datetime(2024, 1, 31, 22, 30, tzinfo=UTC)
        expected = moment.timestamp() if "%M" in form else datetime(2024, 1, 31, tzinfo=UTC).timestamp()
        assert moment_by_parts(form, cells.written_day(form)) == expected, form
