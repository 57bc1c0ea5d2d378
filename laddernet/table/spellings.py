"""How numbers, yes and no, and dates may be written, as regular expressions: what `laddernet.table.cells` reads.

The expressions are for texts without white space around them, and mean the same in Python and in RE2, which onnxruntime
uses. A date is a small grammar. Its parts (`Part`) have values, and an expression can ask for one, as for dates
whose day is odd: that is how a graph that cannot cut texts reads the day.
"""

import calendar
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from laddernet.table.cells import COMMA, GROUPS, ISO, POINT, TRUTHS

WHITE = "\\t-\\r\\x1c-\\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # that Python strips, but for " "

_EXPONENT = r"(?:[eE][+-]?[0-9]+)?"
_INFINITE = r"[+-]?[iI][nN][fF](?:[iI][nN][iI][tT][yY])?"
NUMBERS = {  # by form
    POINT: rf"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+){_EXPONENT}|{_INFINITE}",
    GROUPS: rf"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+){_EXPONENT}|[+-]?[0-9]{{1,3}}(?:,[0-9]{{3}})+(?:\.[0-9]*)?|{_INFINITE}",
    COMMA: rf"[+-]?(?:[0-9]+,?[0-9]*|,[0-9]+){_EXPONENT}"
    rf"|[+-]?[1-9][0-9]{{0,2}}(?:\.[0-9]{{3}})+(?:,[0-9]*)?|{_INFINITE}",
}
TINY = r".*[eE]-0*(?:[3-9][0-9]{2}|[1-9][0-9]{3,})"  # numbers that a runtime may not read, and that are 0 for a network


def truth(value: float) -> str:
    """Write the expression of the words for true (1) or false (0), in every mixture of small and capital letters.

    >>> bool(re.fullmatch(truth(1), "yEs")), bool(re.fullmatch(truth(1), "no")), bool(re.fullmatch(truth(0), "0"))
    (True, False, True)
    """
    return "|".join(_any_case(word) for word, found in TRUTHS.items() if found == value)


def _any_case(word: str) -> str:
    return "".join(f"[{letter.upper()}{letter.lower()}]" if letter.isalpha() else re.escape(letter) for letter in word)


# --- Dates ------------------------------------------------------------------------------------------------------------


# Months and days count from 0; offset has the seconds of the time zone, and west is 1 if it is behind UTC.
QUANTITIES = ("year", "month", "day", "seconds", "offset", "west")


@dataclass(frozen=True)
class Part:
    """A part of a date, such as the hour: its quantity, the weight of its values in that, and how each is written."""

    quantity: str
    weight: float
    written: Mapping[int, str]
    roughly: str  # a short expression of all values
    rest: str = "(?:[^0-9].*)?"  # what may follow a value


# A grammar: an expression, a part, grammars one after the other (a tuple), or alternatives (a list).
Grammar = str | Part | tuple["Grammar", ...] | list["Grammar"]


def expression(grammar: Grammar, *, roughly: bool = False) -> str:
    """Write a grammar as a regular expression.

    >>> expression(("a", ["", Part("day", 1, {0: "x", 1: "y"}, ".")]))
    'a(?:|(?:x|y))'
    """
    if isinstance(grammar, str):
        return grammar
    if isinstance(grammar, Part):
        return grammar.roughly if roughly else _any(list(grammar.written.values()))
    inner = [expression(part, roughly=roughly) for part in grammar]
    return "".join(inner) if isinstance(grammar, tuple) else _any(inner)


def having(grammar: Grammar, part: Part, bit: int) -> str | None:
    """Write an expression that a text of the grammar matches if it has the part and the bit of its value is set.

    It is None if no value has the bit. It is short rather than strict: texts that are not of the grammar may match too.

    >>> day = Part("day", 1, {0: "x", 1: "y"}, ".", rest=".*")
    >>> having(("a", ["", day], "b"), day, bit=0)
    'ay.*'
    """
    if grammar is part:
        values = [text for value, text in part.written.items() if value >> bit & 1]
        return _any(values) + part.rest if values else None
    if isinstance(grammar, str | Part):
        return None
    found: list[str] = []
    for place, inner in enumerate(grammar):
        chosen = having(inner, part, bit)
        before = expression(grammar[:place], roughly=True) if isinstance(grammar, tuple) else ""
        found += [] if chosen is None else [before + chosen]
    return _any(found) or None


def parts(grammar: Grammar) -> list[Part]:
    """List the parts of a grammar."""
    if isinstance(grammar, str):
        return []
    if isinstance(grammar, Part):
        return [grammar]
    found = {id(part): part for inner in grammar for part in parts(inner)}
    return list(found.values())


def _any(expressions: Sequence[str]) -> str:
    return expressions[0] if len(expressions) == 1 else f"(?:{'|'.join(expressions)})" if expressions else ""


def _number(quantity: str, low: int, high: int, weight: float = 1, *, digits: int = 0, less: int = 0) -> Part:
    """Make the part of an integer, of which the value is ``less`` smaller; 0 digits: a leading zero may be left out."""
    written = {v: f"{v:0{digits}}" if digits else f"0?{v}" if v < 10 else str(v) for v in range(low, high + 1)}
    values = {value - less: text for value, text in written.items()}
    if digits:
        return Part(quantity, weight, values, f"[0-9]{{{digits}}}", rest=".*")
    return Part(quantity, weight, values, "[0-9]{1,2}")


def _year() -> tuple[Part, ...]:
    return tuple(_number("year", 0, 9, 10.0**place, digits=1) for place in (3, 2, 1, 0))


def _months(names: Sequence[str]) -> Part:
    return Part("month", 1, {month - 1: _any_case(names[month]) for month in range(1, 13)}, "[A-Za-z]+", rest=".*")


def strict(form: str) -> str:
    """Write the expression of dates in a form: ISO 8601 as pandas reads it, or directives as in ``%d.%m.%Y %H:%M``."""
    return expression(_iso(("-", r"\.", "/", r"\\", " ")) if form == ISO else grammar_of(form))


def grammar_of(form: str) -> Grammar:
    """Return the grammar of dates in a form, to read their parts by."""
    return _iso((r"[-./\\ ]",)) if form == ISO else tuple(map(_directive, re.findall(r"%.|\s+|[^%\s]+", form)))


def bits(form: str) -> dict[tuple[str, float], str]:
    """List expressions that show the quantities of a date: one is the sum of the numbers whose expression matches.

    >>> [number for number, pattern in bits("%d.%m.%Y").items() if re.fullmatch(pattern, "05.03.2024")]
    [('day', 4), ('month', 2), ('year', 2000.0), ('year', 20.0), ('year', 4.0)]
    """
    grammar = grammar_of(form)
    found: dict[tuple[str, float], list[str]] = {}
    for part in parts(grammar):
        for bit in range(max(part.written).bit_length()):
            if pattern := having(grammar, part, bit):
                found.setdefault((part.quantity, part.weight * 2**bit), []).append(pattern)
    return {number: f"(?s:{'|'.join(patterns)})" for number, patterns in found.items()}


def _directive(token: str) -> Grammar:
    """Return the grammar of a directive, of white space or of other text."""
    if token.isspace():
        return r"[ \t-\r\x1c-\x1f]+"
    match token:
        case "%Y":
            return _year()
        case "%y":
            years = {year % 100: year for year in range(1969, 2069)}
            return Part("year", 1, {year: f"{two:02}" for two, year in years.items()}, "[0-9]{2}", rest=".*")
        case "%m":
            return _number("month", 1, 12, less=1)
        case "%b":
            return _months(list(calendar.month_abbr))
        case "%B":
            return _months(list(calendar.month_name))
        case "%d":
            days = _number("day", 1, 31, less=1).written
            spaced = {day: f"(?:{text}| {day + 1})" if day < 9 else text for day, text in days.items()}
            return Part("day", 1, spaced, " ?[0-9]{1,2}")
        case "%H":
            return _number("seconds", 0, 23, 3600)
        case "%I":
            hours = _number("seconds", 1, 12).written
            return Part("seconds", 3600, {hour % 12: text for hour, text in hours.items()}, "[0-9]{1,2}")
        case "%p":
            return Part("seconds", 12 * 3600, {0: _any_case("AM"), 1: _any_case("PM")}, "..", rest="")
        case "%M":
            return _number("seconds", 0, 59, 60)
        case "%S":
            return _number("seconds", 0, 61)  # with leap seconds
    return re.escape(token)


def _iso(separators: Sequence[str]) -> Grammar:
    """Return the grammar of ISO 8601 as pandas reads it: parts may be absent from the end, a separator comes twice."""
    month, day = _number("month", 1, 12, less=1), _number("day", 1, 31, less=1)
    month_2, day_2 = _number("month", 1, 12, digits=2, less=1), _number("day", 1, 31, digits=2, less=1)
    hour, hour_2 = _number("seconds", 0, 23, 3600), _number("seconds", 0, 23, 3600, digits=2)
    minute, minute_2 = _number("seconds", 0, 59, 60), _number("seconds", 0, 59, 60, digits=2)
    second, second_2 = _number("seconds", 0, 59), _number("seconds", 0, 59, digits=2)
    fraction: Grammar = "[0-9]{0,12}"
    for place in range(6, 0, -1):
        fraction = ["", (_number("seconds", 0, 9, 10.0**-place, digits=1), fraction)]
    fraction = ["", (r"\.", fraction)]
    zone_hour = _number("offset", 0, 23, 3600, digits=2)
    zone_hour_1 = replace(_number("offset", 0, 9, 3600, digits=1), rest="(?::.*)?")
    zone_minute = _number("offset", 0, 59, 60)
    sign = Part("west", 1, {0: r"\+", 1: "-"}, "[+-]", rest=".*")
    offset: Grammar = (sign, [(zone_hour, ["", (":?", zone_minute)]), (zone_hour_1, ["", (":", zone_minute)])])
    zone: Grammar = ["", (r"[ \t-\r]*", ["Z", offset])]
    time: Grammar = [
        (hour_2, ["", (minute_2, ["", (second_2, fraction)])], zone),
        (hour, ":", minute, ["", (":", second, fraction)], zone),
    ]
    times: Grammar = ["", ("[T ]", time)]
    separated: list[Grammar] = [(sep, month, ["", (sep, day, times)]) for sep in separators]
    return (*_year(), ["", *separated, (month_2, day_2, times)])
