"""Text made safe for terminals, which execute control characters, and for spreadsheets, which execute formulas."""

import json
import re
import sys

# Also after separators: where the comma is a decimal point, a spreadsheet separates cells by semicolons.
_PLACE = r"(^|[,;\"])"
_FORMULA = r"([\s']*[=+@＝＋－＠-]|'*[\t\r\n\0])"  # also after a ', so that `quoted` can be reversed
_BARE = re.compile(_PLACE + _FORMULA)
_QUOTED = re.compile(f"{_PLACE}'{_FORMULA}")


def quoted(text: str) -> str:
    """Put a ' before text that a spreadsheet would execute, and before a ' that `unquoted` would remove.

    >>> [quoted(text) for text in ("=1+1", "x;@y", "'=1", "a-b")]
    ["'=1+1", "x;'@y", "''=1", 'a-b']
    """
    return _BARE.sub(r"\1'\2", text)


def unquoted(text: str) -> str:
    """Reverse `quoted`.

    >>> [unquoted(quoted(text)) for text in ("=1+1", "x;@y", "'=1", "don't")]
    ['=1+1', 'x;@y', "'=1", "don't"]
    """
    return _QUOTED.sub(r"\1\2", text) if "'" in text else text


def one_line(error: BaseException) -> str:
    """Return an error's message on one line, without its full stop."""
    return " ".join(str(error).split()).rstrip(".")


# --- Terminals --------------------------------------------------------------------------------

_ENDLESS = re.compile(r"(\S{100})\S{900,}")  # as in a table with an unclosed quote


def say(sentence: str) -> None:
    """Print a sentence on stderr as one line, with control characters escaped and endless words shortened."""
    print(visible(_ENDLESS.sub(r"\1…", sentence.replace("\n", " "))), file=sys.stderr)


def show(line: str, *, flush: bool = False) -> None:
    """Print one line on stdout, with control characters escaped."""
    print(visible(line), flush=flush)


def visible(text: str) -> str:
    r"""Escape control characters, changes of direction, invisible characters and undecodable bytes.

    >>> print(visible("a\x1b[31m b\u202e ä\n"))
    a\x1b[31m b\u202e ä\n
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def visible_json(text: str) -> str:
    r"""Escape the same in indented JSON, by the rules of JSON.

    >>> visible_json('"\x9b1m"')
    '"\\u009b1m"'
    """
    escaped = (c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
    return "".join(escaped).replace("\x7f", "\\u007f")  # json.dumps does not escape it
